"""Session tasks, one per connection, asleep until there is something to deliver; and the queue that runs those awake.

A task here is an object in a run queue, not an asyncio.Task: waking one is an append to a list, one turn of the loop
runs many, and a sleeping connection owns no coroutine and no future.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Final, final

from broker.runtime.clock import monotonic_us
from broker.runtime.endpoint import Endpoint
from session.session import Session

_CONTEXT: Final = Context()
"""Nothing here uses context variables, so the loop need not copy them for each turn."""

TURN_PASSES: Final = 64
"""Passes in one turn of the loop, each of a different session; then sockets are served."""
TURN_READERS: Final = 16
"""Connections whose `read_on` is called in one turn when no session is awake, or after `resume`."""
PATIENCE: Final = 64
"""Turns after which one `read_on` is called although sessions are awake, so that no connection starves."""
REST: Final = 1000
"""Microseconds. If a chunk wakes only one task, and that has not run for this long, it runs at once. Else it waits for
the loop's next turn, so that more is written at once."""


@final
class SessionTask:
    """Runs one session's passes while there is work.

    It never waits for a slow socket: deliveries for a congested send path are queued (FC-3).
    """

    def __init__(self, connection: Endpoint, session: Session, queue: "RunQueue") -> None:
        self.connection = connection
        self.session = session
        self._queue = queue
        self.ran_at = 0
        self._awake = False
        self._stopped = False

    def wake(self) -> None:
        """Run passes, from the next turn of the loop on."""
        if not self._awake:
            self._awake = True
            self._queue.add(self)

    def stop(self) -> None:
        """Run no further pass: the session is detached."""
        self._stopped = True

    def step(self, now: int) -> None:
        """Run one pass, then sleep or queue the next one, so that no session occupies the loop."""
        if self._stopped:
            return
        self.ran_at = now
        try:
            more = self.session.run_pass(now)
            if not more:
                self._awake = False
            self.connection.flush()
        except Exception as error:
            _give_up(self.connection, "a session task has failed", error)
            return
        if more:
            self._queue.behind = True
            self._queue.add(self)


def _give_up(connection: Endpoint, message: str, error: Exception) -> None:
    """Abort a connection that has failed: its mailbox would grow without passes."""
    connection.abort()
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})


@final
class RunQueue:
    """The session tasks that are awake, in the order in which they run."""

    def __init__(self) -> None:
        self.behind = False
        """Whether a session in the last turn needs another pass."""
        self._tasks: list[SessionTask] = []
        self._scheduled = False
        self._call_soon: Callable[..., object] | None = None
        self._reading = False
        self._readers: list[Endpoint] = []
        self._waited = 0
        self._resuming: list[Endpoint] = []

    def read_later(self, connection: Endpoint) -> None:
        """Call the connection's `read_on` when no session is awake, or after PATIENCE turns."""
        self._readers.append(connection)
        if not self._scheduled:
            self._schedule()

    def resume(self, connection: Endpoint) -> None:
        """Call the connection's `read_on` in the next turn, even if sessions are awake."""
        self._resuming.append(connection)
        if not self._scheduled:
            self._schedule()

    def add(self, task: SessionTask) -> None:
        """Queue a task for the next turn."""
        self._tasks.append(task)
        if not self._scheduled and not self._reading:
            self._schedule()

    def begin_reading(self) -> None:
        """A connection handles a chunk: `end_reading` runs or schedules the tasks that it wakes."""
        self._reading = True

    def end_reading(self, now: int) -> None:
        """Run the task that the chunk has woken if it is the only one and has rested, else schedule a turn."""
        self._reading = False
        tasks = self._tasks
        if self._scheduled or not tasks:
            return
        if len(tasks) == 1 and now - tasks[0].ran_at > REST:
            tasks.pop().step(now)
        else:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        call_soon = self._call_soon
        if call_soon is None:
            call_soon = self._call_soon = asyncio.get_running_loop().call_soon
        call_soon(self._turn, context=_CONTEXT)

    def _turn(self) -> None:
        tasks = self._tasks
        self._scheduled = False
        if len(tasks) <= TURN_PASSES:
            self._tasks = []
        else:
            self._tasks = tasks[TURN_PASSES:]
            del tasks[TURN_PASSES:]
            self._schedule()
        self.behind = False
        now = monotonic_us()
        for task in tasks:
            task.step(now)
        if self._resuming:
            self._read_on(self._resuming, TURN_READERS, now)
        if self._readers:
            self._waited += 1
            if not self._tasks or self._waited >= PATIENCE:
                self._waited = 0
                self._read_on(self._readers, 1 if self._tasks else TURN_READERS, now)

    def _read_on(self, waiting: list[Endpoint], count: int, now: int) -> None:
        """Call `read_on` of the first `count` connections; it may append others."""
        readers = waiting[:count]
        del waiting[:count]
        for connection in readers:
            try:
                connection.read_on(now)
            except Exception as error:
                _give_up(connection, "reading on has failed", error)
        if waiting and not self._scheduled:
            self._schedule()
