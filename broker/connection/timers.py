"""Timers of a connection: CONNECT, keep-alive, publish rate, a close that does not finish."""

from collections.abc import Callable
from typing import Final, final

from broker.connection.peer import Peer
from broker.runtime.clock import SECOND, wall_us
from broker.runtime.read_gate import AUTHENTICATING, MEMORY, RATE
from broker.runtime.timers import TICK, Timer, Wheel
from protocol import reason_codes
from protocol.errors import MQTTError


@final
class ConnectionDeadlineTimer(Timer):
    """Acts on the connections whose deadline is within one tick of the wheel."""

    def __init__(self, deadlines: "ConnectionDeadlines") -> None:
        self._deadlines = deadlines
        self.connections: dict[Peer, None] = {}

    def wanted(self) -> bool:
        """False once none of them has this deadline any more."""
        return bool(self.connections)

    def due(self, now: int) -> None:
        """Act on them."""
        for connection in list(self.connections):
            self._deadlines.forget(connection)
            self._deadlines.act(connection)


@final
class ConnectionDeadlines:
    """By when connections without a session have to get one, or closing ones have to be closed.

    A connection may be forgotten at any time, and then no timer holds it. Those of a tick share one.
    """

    def __init__(self, wheel: Wheel, act: Callable[[Peer], None]) -> None:
        """`act` is called with each connection that is not forgotten before its deadline."""
        self.act = act
        self._wheel = wheel
        self._timers: dict[Peer, ConnectionDeadlineTimer] = {}
        self._last: ConnectionDeadlineTimer | None = None

    def __len__(self) -> int:
        return len(self._timers)

    def set(self, connection: Peer, at: int) -> None:
        """Act on a connection at about `at`, not earlier, unless it has an earlier deadline already."""
        if connection in self._timers:
            return
        timer = self._last
        if timer is None or not at <= timer.at <= at + TICK:
            timer = self._last = ConnectionDeadlineTimer(self)
            self._wheel.add(at + TICK, timer)
        timer.connections[connection] = None
        self._timers[connection] = timer

    def forget(self, connection: Peer) -> None:
        """It has done in time what it had to, or is closed."""
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.connections.pop(connection, None)


def end_handshake(connection: Peer) -> None:
    """Close a connection whose client has not completed CONNECT and authentication in time."""
    if not connection.gate.closed:
        connection.close(reason="no CONNECT, or no completed authentication, within mqtt.connect_timeout")


def end_lingering(connection: Peer) -> None:
    """Close a connection whose client could read the reason by now, unless something is left to write."""
    transport = connection.socket.transport
    if transport is not None and transport.get_write_buffer_size() == 0:
        transport.close()


def abort(connection: Peer) -> None:
    """Abort a connection that does not finish closing."""
    connection.abort()


IDENTITY_CHECK: Final = 60 * SECOND
"""Microseconds between two looks whether the connection is still there: an identity may last for a day."""


@final
class IdentityTimer(Timer):
    """Closes a connection when the identity of its client expires."""

    def __init__(self, wheel: Wheel, connection: Peer, expires_at: int) -> None:
        """`expires_at`: microseconds since 1970 UTC."""
        self.connection = connection
        self._wheel = wheel
        self.expires_at = expires_at

    def wanted(self) -> bool:
        """False once it is closing."""
        return not self.connection.gate.closed

    def start(self, now: int) -> None:
        """Wait for it."""
        wait = max(0, min(self.expires_at - wall_us(), IDENTITY_CHECK))
        self._wheel.add(now + wait, self)

    def due(self, now: int) -> None:
        """Close it, or wait on."""
        if not self.wanted():
            return
        if wall_us() < self.expires_at:
            self.start(now)
        else:
            self.connection.close(reason_codes.NOT_AUTHORIZED, "the token has expired")


@final
class RefusalTimer(Timer):
    """Refuses a client some time after its authentication has failed: trying passwords is slow."""

    def __init__(self, connection: Peer, error: MQTTError) -> None:
        self.connection = connection
        self._error = error

    def wanted(self) -> bool:
        """False once it is closing."""
        return not self.connection.gate.closed

    def due(self, now: int) -> None:
        """Refuse it."""
        if self.wanted():
            self.connection.fail(self._error)


@final
class KeepAliveTimer(Timer):
    """Closes a connection whose client has sent nothing for longer than its keep-alive allows [MQTT-3.1.2-22]."""

    def __init__(self, wheel: Wheel, connection: Peer, keep_alive: int) -> None:
        self.connection = connection
        self._keep_alive = keep_alive
        self._wheel = wheel

    def wanted(self) -> bool:
        """False once it is closing."""
        return not self.connection.gate.closed

    def due(self, now: int) -> None:
        """Close it, or wait for the time that is left."""
        connection = self.connection
        if connection.gate.closed:
            return
        if connection.gate.reasons:  # PINGREQs may wait in its socket; `heard_at` is set when they are read
            self._wheel.add(now + self._keep_alive, self)
            return
        deadline = connection.heard_at + self._keep_alive
        if now >= deadline:
            connection.read_to_end()  # what is held back (FC-16) has come in time
            connection.close(reason_codes.KEEP_ALIVE_TIMEOUT, "no packet within the keep-alive")
        else:
            self._wheel.add(deadline, self)


@final
class RateTimer(Timer):
    """Resumes reading a client whose publish rate was used up (FC-23)."""

    def __init__(self, connection: Peer) -> None:
        self.connection = connection

    def wanted(self) -> bool:
        """False once it is closing."""
        return not self.connection.gate.closed

    def due(self, now: int) -> None:
        """Resume reading."""
        connection = self.connection
        if connection.session is not None:
            connection.session.throttle(False, now)
            connection.gate.resume(RATE)


HOLD: Final = SECOND
"""Microseconds for which a publisher is not read after each piece, while memory is above the watermark (FC-32)."""


@final
class HoldTimer(Timer):
    """Resumes reading a publisher that was held back because of memory (FC-32)."""

    def __init__(self, connection: Peer) -> None:
        self.connection = connection

    def start(self, wheel: Wheel, now: int) -> None:
        """Read it no more for a while."""
        self.connection.gate.pause(MEMORY, now)
        wheel.add(now + HOLD, self)

    def wanted(self) -> bool:
        """False once it is closing."""
        return not self.connection.gate.closed

    def due(self, now: int) -> None:
        """Resume reading."""
        self.connection.gate.resume(MEMORY)


def refuse_later(wheel: Wheel, connection: Peer, delay: int, error: MQTTError, now: int) -> None:
    """Refuse a client after a delay, and read nothing until then. Nothing that it has sent is kept for it."""
    connection.gate.pause(AUTHENTICATING, now)
    if connection.session is None:
        connection.authentication = None
    error.__traceback__ = error.__cause__ = error.__context__ = None  # their frames hold what it has sent
    wheel.add(now + delay, RefusalTimer(connection, error))
