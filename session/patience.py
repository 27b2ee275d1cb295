"""FC-16: how long publishers may be held back; a bucket of time that real time refills."""

from typing import Final, final

from mypy_extensions import mypyc_attr

from session.stopwatch import Stopwatch

_REFILL: Final = 20
"""A twentieth of real time comes back."""


@mypyc_attr(acyclic=True)
@final
class Patience:
    """Full at the start; emptied between `start` and `stop`, and refilled all the time. Times are microseconds.

    So what it has been emptied by, in all, is at most `capacity` and a twentieth of the time since the start.
    """

    def __init__(self, capacity: int, now: int) -> None:
        self.used_time = Stopwatch()
        """How long it has been emptied, for the counters."""
        self._capacity: int = capacity * _REFILL  # in twentieths of a microsecond, like the level
        self._level: int = self._capacity
        self._at = now

    def left(self, now: int) -> int:
        """How much is in it; after more than that of `start` without `stop`, less than nothing."""
        self._settle(now)
        return self._level // _REFILL

    def lasts_until(self, rest: int, now: int) -> int:
        """When there will be less than `rest` in it, at the earliest."""
        self._settle(now)
        return now + max((self._level - rest * _REFILL) // (_REFILL - 1) + 1, 0)

    def start(self, now: int) -> None:
        """Somebody is held back from now on; nothing changes if somebody was already."""
        self._settle(now)
        self.used_time.start(now)

    def stop(self, now: int) -> None:
        """Nobody is held back any more."""
        self._settle(now)
        self.used_time.stop(now)

    def _settle(self, now: int) -> None:
        passed = now - self._at
        self._at = now
        if self.used_time.running:
            passed -= passed * _REFILL
        self._level = min(self._level + passed, self._capacity)
