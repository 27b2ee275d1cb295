"""How long a test waits for what keep-alive has to cause."""

from typing import Final

PATIENCE: Final = 30.0
"""Seconds: a server may check only every few seconds; the standard does not say how exact it has to be."""
