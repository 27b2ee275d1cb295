"""One coarse timing wheel for the whole process: keepalive, resending, expiry, delayed wills.

A timer is an object in the slot of its tick. There is no cancelling: a timer that is no longer wanted says so itself
when it is asked, which costs less than taking it out, and it is asked often enough not to pile up.
"""

from typing import Final, final

from mypy_extensions import mypyc_attr

TICK: Final = 100_000
"""Width of a slot in microseconds: what comes due is called up to this much late, never early."""

HORIZON: Final = 10_000_000
"""Microseconds. What waits longer is asked this often whether it is still wanted: a client that comes and goes must not
leave a timer behind for each time, for as long as its keepalive or its session's expiry."""


@mypyc_attr(allow_interpreted_subclasses=True)  # what is not compiled may wait too
class Timer:
    """Something that waits in the wheel."""

    at: int = 0
    """When it comes due, in microseconds."""

    def wanted(self) -> bool:
        """Whether there is still a point in waiting."""
        return True

    def due(self, now: int) -> None:
        """The time has come. To wait again, add it to the wheel again."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC


@final
class Wheel:
    """Timers by tick. `now` is the coarse clock: the time of the last tick, in microseconds."""

    def __init__(self, now: int) -> None:
        self.now = now
        self._tick = now // TICK
        self._slots: dict[int, list[Timer]] = {}
        self._calling: list[Timer] = []
        """What has come due and has not been called yet, last first."""

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

    def advance(self, now: int) -> None:
        """Call what has come due until `now`.

        What a timer raises is passed on; the next call of `advance` goes on behind that timer.
        """
        self.now = now
        last = now // TICK
        while self._calling or self._tick < last:
            while self._calling:
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
