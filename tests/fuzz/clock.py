"""The broker's clock as a script has it: an input does the same whenever it is tried."""

from types import TracebackType
from typing import Final, Self

from broker.runtime import clock

LOOKS: Final = (0, 40_000, 3_000_000)
"""Nanoseconds that go by from one look at the clock to the next, in turn: sometimes none, sometimes much happens."""


class Clock:
    """Takes the place of the system's clock in this block. Time goes by when somebody looks, and when it is told to."""

    def __init__(self) -> None:
        self._now = 1_000_000_000_000_000
        self._looks = 0

    def go_on(self, seconds: float) -> None:
        """Let time pass."""
        self._now += int(seconds * 1_000_000_000)

    def _look(self) -> int:
        self._looks += 1
        self._now += LOOKS[self._looks % len(LOOKS)]
        return self._now

    def __enter__(self) -> Self:
        self._real = clock.NANOSECONDS[0]
        clock.NANOSECONDS[0] = self._look
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        clock.NANOSECONDS[0] = self._real
