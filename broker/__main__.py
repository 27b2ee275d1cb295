"""`python -m broker`: the same as `sluice`."""

from broker.cli import main

main()
