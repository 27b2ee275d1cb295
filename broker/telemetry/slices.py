"""Work on the event loop in slices, so that MQTT clients never wait long for it."""

import asyncio
from typing import Final

from broker.runtime.clock import monotonic_us

SLICE_US: Final = 1_000
"""Microseconds after which the event loop has its turn, however much it has to do."""

SHORTEST_US: Final = 200
"""The same while the loop has nothing else to do: who comes then waits for no longer than that."""

STEP: Final = 50
"""Small items that are processed between two looks at the clock: some 100 microseconds, even interpreted."""


class Slices:
    """The time that one piece of work has taken, without the event loop's turns in between.

    A slice lasts half as long as the loop's turn before it. So what others wait for longer is in proportion to what
    they wait for anyway, and the work also makes progress in a broker that is busy all the time.
    """

    def __init__(self) -> None:
        self.us = 0
        """Microseconds of all slices that have ended. One that took twice its length counts as such: on a busy machine
        the rest was other programs' time. (To ask for CPU time costs microseconds: too much for each slice.)"""
        self.began = monotonic_us()
        """When the current slice began."""
        self._length = min(SHORTEST_US, SLICE_US)

    async def breathe(self) -> None:
        """Yield to the event loop if the slice has lasted long enough."""
        if monotonic_us() - self.began >= self._length:
            await self.pause()

    async def pause(self) -> None:
        """End the slice, yield to the event loop, and begin the next one."""
        ended = monotonic_us()
        self.us += min(ended - self.began, 2 * self._length)
        await asyncio.sleep(0)
        self.began = monotonic_us()
        self._length = min(max((self.began - ended) // 2, SHORTEST_US), SLICE_US)
