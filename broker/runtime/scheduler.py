"""Session tasks: one per connection, asleep until there is something to deliver, and the queue that runs those awake.

A task here is an object in a run queue, not an asyncio.Task: waking one is an append to a list, a turn of the loop runs
all that are awake, and a connection that sleeps owns no coroutine and no future.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Final, final

from broker.runtime.clock import monotonic_us
from session.outbound import Outbound

if TYPE_CHECKING:
    from broker.connection.connection import Connection

_CONTEXT: Final = Context()
"""Nothing here uses context variables, so the loop need not copy them for each turn."""

TURN_PASSES: Final = 64
"""Passes that one turn of the loop runs, each of a session of its own; then sockets have their turn."""
TURN_READERS: Final = 16
"""Connections that read on in one turn when no session is awake, or when nothing but themselves has held them back."""
PATIENCE: Final = 64
"""Turns after which one connection reads on although sessions are awake: a busy broker must not shut anyone out."""
REST: Final = 1000
"""Microseconds. A task that has not run for this long runs at once when a chunk has woken it alone; one that has waits
for the loop's next turn, so that what comes together goes out together."""


@final
class SessionTask:
    """Runs one session's passes while there is work.

    It never waits for a slow socket: a congested send path turns into queueing (FC-3).
    """

    def __init__(self, connection: "Connection", outbound: Outbound, queue: "RunQueue") -> None:
        self.connection = connection
        self.outbound = outbound
        self._queue = queue
        self.ran_at = 0
        self._awake = False
        self._stopped = False

    def wake(self) -> None:
        """Have passes run, from the next turn of the loop on."""
        if not self._awake:
            self._awake = True
            self._queue.add(self)

    def stop(self) -> None:
        """Run no further pass: the session has parted from this connection."""
        self._stopped = True

    def step(self, now: int) -> None:
        """Run one pass, then sleep or get in line again, so that no session hogs the loop."""
        if self._stopped:
            return
        self.ran_at = now
        outbound = self.outbound
        try:
            more = outbound.run_pass(now)
            self.connection.flush()
        except Exception as error:
            _give_up(self.connection, "a session task has failed", error)
            return
        if more:
            self._queue.behind = True
            self._queue.add(self)
        else:
            self._awake = False
            outbound.idle = True


def _give_up(connection: "Connection", message: str, error: Exception) -> None:
    """Cut off a connection that nothing runs any more: its mailbox would grow with nobody to take it up."""
    connection.abort()
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})


@final
class RunQueue:
    """The session tasks that are awake, in the order in which they run."""

    def __init__(self) -> None:
        self.behind = False
        """Whether a session in the last turn had more to take up than a pass takes."""
        self._tasks: list[SessionTask] = []
        self._scheduled = False
        self._call_soon: Callable[..., object] | None = None
        self._reading = False
        self._readers: list[Connection] = []
        self._waited = 0
        self._resuming: list[Connection] = []

    def read_later(self, connection: "Connection") -> None:
        """Let a connection handle the rest of what it has read when the sessions that are awake have caught up."""
        self._readers.append(connection)
        if not self._scheduled:
            self._schedule()

    def resume(self, connection: "Connection") -> None:
        """Let a connection handle the rest of what it has read in the next turn, as if it came from its socket then."""
        self._resuming.append(connection)
        if not self._scheduled:
            self._schedule()

    def add(self, task: SessionTask) -> None:
        """Get in line."""
        self._tasks.append(task)
        if not self._scheduled and not self._reading:
            self._schedule()

    def begin_reading(self) -> None:
        """A connection handles a chunk: whom that wakes is seen to at the end of it."""
        self._reading = True

    def end_reading(self, now: int) -> None:
        """The chunk has been handled: run the one session that it has woken, or let them all have a turn."""
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

    def _read_on(self, waiting: "list[Connection]", count: int, now: int) -> None:
        """Let the first of those that wait read on; others may join them meanwhile."""
        readers = waiting[:count]
        del waiting[:count]
        for connection in readers:
            try:
                connection.read_on(now)
            except Exception as error:
                _give_up(connection, "reading on has failed", error)
        if waiting and not self._scheduled:
            self._schedule()
