"""Says once a second how far a long piece of work has come."""

from collections.abc import Callable
from time import monotonic
from typing import Final, final

EVERY: Final = 1.0
"""Seconds."""


@final
class Progress:
    """How far it has come, in bytes."""

    def __init__(self, total: int, tell: Callable[[int], None]) -> None:
        """`tell` gets percents."""
        self.began = monotonic()
        self._total = max(total, 1)
        self._tell = tell
        self._done = 0
        self._told = self.began

    def add(self, size: int) -> None:
        """So many bytes more are done."""
        self._done += size
        self.tell()

    def tell(self) -> None:
        """Say how far it has come, once a second."""
        now = monotonic()
        if now - self._told >= EVERY:
            self._told = now
            self._tell(min(100 * self._done // self._total, 99))

    def seconds(self) -> float:
        """How long it has taken."""
        return round(monotonic() - self.began, 1)
