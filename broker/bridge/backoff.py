"""How long a bridge waits before it connects again."""

from collections.abc import Callable
from random import random
from typing import Final, final

FACTOR: Final = 2
STEADY: Final = 2
"""A connection that has lasted so many times the last wait was no failure."""


@final
class Backoff:
    """Waits grow from the least one to the longest one. Jitter keeps bridges from coming all at once. Microseconds."""

    def __init__(self, least: int, longest: int, jitter: Callable[[], float] = random) -> None:
        """`jitter` returns numbers from 0 to 1."""
        self._least = least
        self._longest = longest
        self._jitter = jitter
        self._most = min(least * FACTOR, longest)
        self._last = 0

    def wait(self, lasted: int) -> int:
        """The next wait: no less than the least. `lasted`: how long the bridge was connected; 0 = it was not."""
        if lasted > STEADY * self._last:
            self._most = min(self._least * FACTOR, self._longest)
        self._last = self._least + int((self._most - self._least) * self._jitter())
        self._most = min(self._most * FACTOR, self._longest)
        return self._last
