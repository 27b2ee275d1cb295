"""FC-16: how long publishers may be paced, as a bucket of time that is refilled slowly."""

from typing import Final, final

from mypy_extensions import mypyc_attr

from session.stopwatch import Stopwatch

_REFILL: Final = 20
"""The bucket gains a twentieth of the elapsed time."""


@mypyc_attr(acyclic=True)
@final
class Patience:
    """A bucket that is full at first, drains between `start` and `stop`, and is always refilled. In microseconds.

    So the total time used is at most `capacity` plus a twentieth of the time since it was created.
    """

    def __init__(self, capacity: int, now: int) -> None:
        self.used_time = Stopwatch()
        """The time used, for the counters."""
        self._capacity: int = capacity * _REFILL  # in twentieths of a microsecond, like the level
        self._level: int = self._capacity
        self._at = now

    def left(self, now: int) -> int:
        """The time left; negative if it drained for longer than that."""
        self._settle(now)
        return self._level // _REFILL

    def lasts_until(self, rest: int, now: int) -> int:
        """The earliest time at which less than `rest` is left."""
        self._settle(now)
        return now + max((self._level - rest * _REFILL) // (_REFILL - 1) + 1, 0)

    def start(self, now: int) -> None:
        """Start to drain; no effect if it drains already."""
        self._settle(now)
        self.used_time.start(now)

    def stop(self, now: int) -> None:
        """Stop draining."""
        self._settle(now)
        self.used_time.stop(now)

    def _settle(self, now: int) -> None:
        passed = now - self._at
        self._at = now
        if self.used_time.running:
            passed -= passed * _REFILL
        self._level = min(self._level + passed, self._capacity)
