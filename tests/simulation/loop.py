"""The event loop of one simulated process: nothing runs in it unless the world gives it a turn."""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.network import Network


class Clock:
    """The monotonic clock of the host, which all its processes share."""

    def __init__(self) -> None:
        self.us = 1_000_000_000

    def nanoseconds(self) -> int:
        """As time.monotonic_ns."""
        return self.us * 1000


_Base: Any = asyncio.AbstractEventLoop


class Loop(_Base):  # type: ignore[misc]
    """What the cluster, the journal and connections use of an event loop: the rest is not there."""

    def __init__(self, clock: Clock, network: "Network") -> None:
        self.ready: deque[asyncio.Handle] = deque()
        self.failures: list[dict[str, Any]] = []
        """What has been given to the exception handler: there has to be nothing."""
        self.dead = False
        self._clock = clock
        self._network = network
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = 0
        self._tasks: list[asyncio.Task[Any]] = []

    def turn(self) -> None:
        """Run what is ready now."""
        self.look_at_clock()
        asyncio._set_running_loop(self)
        try:
            for _ in range(len(self.ready)):
                handle = self.ready.popleft()
                if not handle._cancelled:
                    handle._run()
                if self.dead:
                    break
        finally:
            asyncio._set_running_loop(None)

    def next_timer(self) -> int:
        """When the next timer is due, in microseconds; 0 = there is none."""
        while self._timers and self._timers[0][2]._cancelled:
            heapq.heappop(self._timers)
        return int(self._timers[0][0] * 1_000_000) + 1 if self._timers else 0

    def look_at_clock(self) -> None:
        """Timers that are due are ready."""
        now = self.time()
        while self._timers and self._timers[0][0] <= now:
            self.ready.append(heapq.heappop(self._timers)[2])

    def kill(self) -> None:
        """The process has ended, wherever it was."""
        self.dead = True
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            if not task.done():
                task.get_coro().close()
        self.ready.clear()
        self._timers.clear()

    # -- as asyncio has it

    def time(self) -> float:
        return self._clock.us / 1_000_000

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.dead:
            self.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._count += 1
        if not self.dead:
            heapq.heappush(self._timers, (when, self._count, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is left out when it is due."""

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], **_: Any) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self)
        self._tasks = [each for each in self._tasks if not each.done()]
        self._tasks.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    async def create_unix_server(self, protocol_factory: Callable[[], Any], path: Any = None, **_: Any) -> Any:
        return self._network.listen(str(path), self, protocol_factory)

    async def create_unix_connection(self, protocol_factory: Callable[[], Any], path: Any = None, **_: Any) -> Any:
        return self._network.connect(str(path), self, protocol_factory)
