"""How long a test waits for what a keepalive has to bring about."""

from typing import Final

PATIENCE: Final = 10.0
"""Seconds: a server may look for silent clients every few seconds only; the standard does not say how exact it is."""
