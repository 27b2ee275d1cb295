"""`python -m broker`: the same as `sluice`."""

from broker.cli.main import main

main()
