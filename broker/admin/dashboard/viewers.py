"""Shares the moments among all who look: one walk for all of them, and none when nobody looks."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Final, Protocol

from pydantic import BaseModel

from broker.runtime.clock import SECOND, monotonic_us

PERIOD: Final = 1 * SECOND
"""Microseconds from one moment to the next, at least."""

PERIOD_SHARE: Final = 10
"""A period is at least so many times as long as its walk: walks take at most a tenth of the time."""


class Looks(Protocol):
    """Looks at the broker on behalf of all viewers: the `Observer` of a process, or of a host."""

    async def look(self) -> tuple[BaseModel, int]:
        """The broker now, and the time of the walk in microseconds."""

    def forget(self) -> None:
        """Nobody has looked for a while: the next moment has no rates."""


class Viewers:
    """All viewers of the dashboard."""

    def __init__(self, observer: Looks) -> None:
        self._waiting = 0  # those that look at the broker as a whole
        self._observer = observer
        self._next: asyncio.Future[str] | None = None
        self._looking: asyncio.Task[None] | None = None

    async def moments(self) -> AsyncGenerator[str, None]:
        """Moments as JSON. A viewer that takes one too late misses those in between."""
        self._waiting += 1
        try:
            while True:
                if self._looking is None:
                    self._next = asyncio.get_running_loop().create_future()
                    self._looking = asyncio.get_running_loop().create_task(self._look())
                assert self._next is not None  # there is one while somebody looks
                yield await asyncio.shield(self._next)  # a viewer that leaves must not cancel it for the others
        finally:
            self._waiting -= 1
            if not self._waiting:
                self.stop()

    async def each_second(self, take: Callable[[], str | None]) -> AsyncGenerator[str, None]:
        """What `take` returns each PERIOD, until that is None: for what needs no walk."""
        while (text := take()) is not None:
            yield text
            await asyncio.sleep(PERIOD / SECOND)

    def stop(self) -> None:
        """Stop looking."""
        if self._looking is not None:
            self._looking.cancel()
        self._looking = None
        self._observer.forget()

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = monotonic_us()
            seen = self._next
            assert seen is not None  # as above
            try:
                moment, took = await self._observer.look()
            except Exception as error:
                seen.set_exception(error)  # for all that wait
                self._looking = None
                return
            self._next = loop.create_future()
            seen.set_result(moment.model_dump_json())
            rest = began + max(PERIOD, took * PERIOD_SHARE) - monotonic_us()
            await asyncio.sleep(max(rest, 0) / SECOND)
