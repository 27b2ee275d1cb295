"""One coarse timing wheel for the whole process: keep-alive, resending, expiry, delayed wills.

A timer is an object in the slot of its tick. Timers are not cancelled: the wheel sometimes asks them whether they are
still wanted, which costs less than removing them.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import mypyc_attr

TICK: Final = 100_000
"""Width of a slot in microseconds: a timer is called up to this much late, never early."""

TURN: Final = 100
"""Microseconds of a turn of the event loop for timers: thousands may come due at once. What they cause takes longer: a
connection that they close ends in the next turn."""

HORIZON: Final = 10_000_000
"""Microseconds. A timer that waits longer is asked this often whether it is still wanted: otherwise a client that
reconnects often would leave many timers until its keep-alive or session expiry is over."""


@mypyc_attr(allow_interpreted_subclasses=True)  # for modules that are not compiled
class Timer:
    """A timer in the wheel."""

    at: int = 0
    """When it comes due, in microseconds."""

    def wanted(self) -> bool:
        """Whether the timer is still needed."""
        return True

    def let_go(self) -> None:
        """It is not wanted any more: release what it holds, because it may be in the wheel for another HORIZON."""

    def due(self, now: int) -> None:
        """Called when `at` has passed. To wait again, add the timer to the wheel again."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC


@final
class Wheel:
    """Timers by tick. `now` is the coarse clock: the time of the last tick, in microseconds."""

    def __init__(self, now: int) -> None:
        self.now = now
        self._tick = now // TICK
        self._slots: dict[int, list[Timer]] = {}
        self._calling: list[Timer] = []
        """Timers of the current slot that have not been called yet, last first."""

    def __len__(self) -> int:
        """How many timers wait."""
        return len(self._calling) + sum([len(slot) for slot in self._slots.values()])

    def add(self, at: int, timer: Timer) -> None:
        """Call `timer.due` once `at` has passed."""
        timer.at = at
        tick = max(min(at // TICK, self._tick + HORIZON // TICK), self._tick) + 1
        slot = self._slots.get(tick)
        if slot is None:
            self._slots[tick] = [timer]
        else:
            slot.append(timer)

    def advance(self, now: int, clock: Callable[[], int] | None = None) -> bool:
        """Call the timers that are due at `now`, with a `clock` for about TURN; returns whether some are left.

        An exception of a timer is passed on; the next call of `advance` continues after that timer.
        """
        self.now = now
        last = now // TICK
        until = 0 if clock is None else clock() + TURN
        while self._calling or self._tick < last:
            while self._calling:
                if clock is not None and clock() >= until:
                    return True
                timer = self._calling.pop()
                if timer.at <= now:
                    timer.due(now)
                elif timer.wanted():
                    self.add(timer.at, timer)
            if self._tick < last:
                self._tick += 1
                slot = self._slots.pop(self._tick, None)
                if slot is not None:
                    slot.reverse()
                    self._calling = slot
        return False
