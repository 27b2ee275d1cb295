"""Converts times of the monotonic clock to times of day, consistently for all rows of a session."""

from typing import Final

from broker.runtime.clock import SECOND, monotonic_us, wall_us

STEP: Final = SECOND
"""Microseconds. A smaller change of the offset comes from reading the two clocks one after the other, a larger one from
a change of the system clock."""


class WallClock:
    """Adds the same offset to each time, so that a session's start is the same in all its rows.

    When the system clock is set, the offset changes at the next `read`.
    """

    def __init__(self) -> None:
        self._offset = wall_us() - monotonic_us()

    def read(self) -> int:
        """The monotonic clock's time in microseconds; also updates the offset if the system clock has been set."""
        now = monotonic_us()
        offset = wall_us() - now
        if abs(offset - self._offset) >= STEP:
            self._offset = offset
        return now

    def at(self, now: int) -> int:
        """The time of day, in microseconds since 1970 UTC, for a time of the monotonic clock."""
        return now + self._offset
