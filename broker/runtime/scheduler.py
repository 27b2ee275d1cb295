"""The run queue: connections whose sessions have deliveries to send, or which have more to read.

A session's passes are run from a list, not by an asyncio.Task: waking one is an append, one turn of the loop runs many,
and an idle connection owns no coroutine and no future.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Final, final

from broker.runtime.clock import monotonic_us
from broker.runtime.endpoint import Endpoint
from broker.runtime.read_gate import ReadGate, Resumer

_CONTEXT: Final = Context()
"""Nothing here uses context variables, so the loop need not copy them for each turn."""

TURN_PASSES: Final = 64
"""Passes in one turn of the loop, each of a different session; then sockets are served."""
TURN_READERS: Final = 16
"""Connections whose reading is resumed in one turn when no session is awake, or after `resume_soon`."""
MOST_WAITED: Final = 64
"""Turns after which reading one connection is resumed although sessions are awake, so that none starves."""
RESTED: Final = 1000
"""Microseconds. If a chunk wakes only one session, and that has not run for this long, it runs at once. Otherwise it
runs in the loop's next turn, so that more is written at once."""


def _abort(connection: Endpoint, message: str, error: Exception) -> None:
    """Abort a connection that has failed: its mailbox would grow without passes."""
    connection.abort()
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})


@final
class RunQueue(Resumer):
    """The connections whose sessions are awake, in the order in which they run.

    A session never waits for a slow socket: deliveries for a congested send path are queued (FC-3).
    """

    def __init__(self) -> None:
        self.behind = False
        """Whether a session in the last turn needs another pass, or publishers are held back."""
        self.holding_back = False
        """Whether publishers are held back because of memory (FC-32)."""
        self._awake: list[Endpoint] = []
        self._woken: Endpoint | None = None
        """The first connection that the chunk being handled has woken, if none was awake before."""
        self._scheduled = False
        self._call_soon: Callable[..., object] | None = None
        self._reading = False
        self._resuming_when_idle: list[ReadGate] = []
        self._waited = 0
        self._resuming_soon: list[ReadGate] = []

    def hold_back(self, on: bool) -> None:
        """FC-32: have each publisher wait after what it has been read, or end that."""
        self.holding_back = self.behind = on

    def resume_when_idle(self, gate: ReadGate) -> None:
        """Resume reading a connection when no session is awake, or after MOST_WAITED turns."""
        self._resuming_when_idle.append(gate)
        if not self._scheduled:
            self._schedule()

    def resume_soon(self, gate: ReadGate) -> None:
        """Resume reading a connection in the next turn, even if sessions are awake."""
        self._resuming_soon.append(gate)
        if not self._scheduled:
            self._schedule()

    def wake(self, connection: Endpoint) -> None:
        """Run the connection's session in the next turn."""
        if self._reading and self._woken is None and not self._awake:
            self._woken = connection
            return
        self._awake.append(connection)
        if not self._scheduled and not self._reading:
            self._schedule()

    def handle_chunk(self, connection: Endpoint, now: int) -> None:
        """Have a connection handle what it has read, and run the sessions that this has woken.

        If it is only one, and it has RESTED, it runs at once, else in the next turn.
        """
        self._reading = True
        try:
            connection.handle_packets(now)
        finally:
            self._reading = False
            woken = self._woken
            if woken is not None:
                self._woken = None
                if not self._awake and not self._scheduled and now - woken.ran_at > RESTED:
                    self.run(woken, now)
                else:
                    self._awake.insert(0, woken)
                    if not self._scheduled:
                        self._schedule()

    def run(self, connection: Endpoint, now: int) -> None:
        """Run one pass, and queue the next one if it has work to do, so that no session occupies the loop."""
        connection.ran_at = now
        try:
            more = connection.run_pass(now)
        except Exception as error:
            _abort(connection, "a session's pass has failed", error)
            return
        if more:
            self.behind = True
            self.wake(connection)

    def _schedule(self) -> None:
        self._scheduled = True
        call_soon = self._call_soon
        if call_soon is None:
            call_soon = self._call_soon = asyncio.get_running_loop().call_soon
        call_soon(self._turn, context=_CONTEXT)

    def _turn(self) -> None:
        awake = self._awake
        self._scheduled = False
        if len(awake) <= TURN_PASSES:
            self._awake = []
        else:
            awake = self._awake[:TURN_PASSES]
            del self._awake[:TURN_PASSES]
            self._schedule()
        self.behind = self.holding_back
        now = monotonic_us()
        for connection in awake:
            self.run(connection, now)
        if self._resuming_soon:
            self._handle_rest(self._resuming_soon, TURN_READERS, now)
        if self._resuming_when_idle:
            self._waited += 1
            if not self._awake or self._waited >= MOST_WAITED:
                self._waited = 0
                self._handle_rest(self._resuming_when_idle, 1 if self._awake else TURN_READERS, now)

    def _handle_rest(self, waiting: list[ReadGate], count: int, now: int) -> None:
        """Have the first `count` connections handle their rests; that may append others."""
        readers = waiting[:count]
        del waiting[:count]
        for gate in readers:
            endpoint = gate.endpoint
            try:
                gate.handle_rest(now)
            except Exception as error:
                _abort(endpoint, "reading the rest of a chunk has failed", error)
        if waiting and not self._scheduled:
            self._schedule()
