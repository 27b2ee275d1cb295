"""Times in the journal: by the wall clock on disk, by the monotonic clock in memory (FC-27).

While a broker runs, a wall clock that is set expires nothing. So that this holds after a restart too, CLOCK says by how
much it has been set: all times before that record are by the clock as it was.
"""

from collections.abc import Callable
from typing import Final, final

from broker.runtime.clock import SECOND, monotonic_us, wall_us

STEP: Final = SECOND // 10
"""Microseconds by which the wall clock has at least to differ before it counts as set."""


def _difference() -> int:
    return wall_us() - monotonic_us()


@final
class Times:
    """How the two clocks differ, and differed before. All times are in microseconds."""

    def __init__(self, difference: Callable[[], int] = _difference) -> None:
        self._difference = difference
        self.offset = difference()
        """Of the wall clock; the same until CLOCK is written."""
        self._steps: list[tuple[int, int, int]] = []
        """Frame and position of each CLOCK, and by how much the clock was set."""

    def begin_after(self, steps: list[tuple[int, int, int]]) -> None:
        """Continue after what is in the file."""
        self._steps = steps

    def take_step(self) -> int:
        """By how much the wall clock has been set since this was asked last; 0 = it has not."""
        step = self._difference() - self.offset
        if -STEP < step < STEP:
            return 0
        self.offset += step
        return step

    def note(self, frame: int, position: int, step: int) -> None:
        """CLOCK is written there."""
        self._steps.append((frame, position, step))

    def by_the_clock_now(self, at: int, frame: int, position: int) -> int:
        """A time of a record that is there, by the wall clock as it is set now."""
        for step_frame, step_position, step in self._steps:
            if step_frame > frame or (step_frame == frame and step_position > position):
                at += step
        return at
