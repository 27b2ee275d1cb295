"""Times of day for what was timed by the monotonic clock, so that all rows of a session agree."""

from typing import Final

from broker.runtime.clock import monotonic_us, wall_us

STEP: Final = 1_000_000
"""Microseconds: by less than that the two clocks differ because they are not read at once, by more because somebody has
set the machine's clock."""


class WallClock:
    """Adds the same offset to each time; a session's start and the end of an interval are the same in every row.

    When the machine's clock is set, times are told by the new one from the next `read` on.
    """

    def __init__(self) -> None:
        self._offset = wall_us() - monotonic_us()

    def read(self) -> int:
        """The monotonic clock's time, in microseconds; notices when the machine's clock has been set."""
        now = monotonic_us()
        offset = wall_us() - now
        if abs(offset - self._offset) >= STEP:
            self._offset = offset
        return now

    def at(self, now: int) -> int:
        """The time of day, in microseconds since 1970 UTC, for a time of the monotonic clock."""
        return now + self._offset
