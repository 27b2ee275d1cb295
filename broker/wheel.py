"""One coarse timing wheel for the whole process: keepalive, resending, expiry, delayed wills.

A timer is an object in the slot of its tick. There is no cancelling: a timer that is no longer wanted says so itself when
it comes due, which costs less than taking it out.
"""

from typing import Final, final

TICK: Final = 100_000
"""Width of a slot in microseconds: what comes due is called up to this much late, never early."""


class Timer:
    """Something that waits in the wheel."""

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

    def add(self, at: int, timer: Timer) -> None:
        """Call `timer.due` once `at` has passed."""
        tick = max(at // TICK, self._tick) + 1
        slot = self._slots.get(tick)
        if slot is None:
            self._slots[tick] = [timer]
        else:
            slot.append(timer)

    def advance(self, now: int) -> None:
        """Call what has come due until `now`. What a timer raises is passed on; the next call goes on behind that timer."""
        self.now = now
        last = now // TICK
        while self._calling or self._tick < last:
            while self._calling:
                self._calling.pop().due(now)
            if self._tick < last:
                self._tick += 1
                slot = self._slots.pop(self._tick, None)
                if slot is not None:
                    slot.reverse()
                    self._calling = slot
