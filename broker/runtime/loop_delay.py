"""How late the event loop is: everything that the broker does waits for as long."""

from typing import Final, final

HALF: Final = 30_000_000
"""Microseconds: what is told is the longest delay of the last one or two of these."""


@final
class LoopDelay:
    """The delays of ticks. Times in microseconds."""

    def __init__(self) -> None:
        self._due = 0
        self._longest = 0
        self._before = 0
        self._half = 0

    def tick(self, now: int, next_tick: int) -> None:
        """A tick has come; the next one is due at `next_tick`."""
        self._turn(now)
        if self._due:
            self._longest = max(self._longest, now - self._due)
        self._due = next_tick

    def longest(self, now: int) -> int:
        """The longest delay of the last minute, or half a minute, with that of a tick that has not come yet."""
        self._turn(now)
        return max(self._before, self._longest, now - self._due if self._due else 0)

    def _turn(self, now: int) -> None:
        half = now // HALF
        if half != self._half:
            self._before = self._longest if half == self._half + 1 else 0
            self._longest = 0
            self._half = half
