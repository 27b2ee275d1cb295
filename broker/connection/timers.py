"""Timers of a connection: CONNECT, keep-alive, publish rate, a close that does not finish."""

from typing import TYPE_CHECKING, Final, final

from broker.runtime.clock import SECOND, wall_us
from broker.runtime.endpoint import MEMORY, RATE
from broker.runtime.timers import TICK, Timer, Wheel
from protocol import reason_codes
from protocol.errors import MQTTError

if TYPE_CHECKING:
    from broker.connection.client_socket import ClientSocket
    from broker.connection.connection import Connection


@final
class AbortTimer(Timer):
    """Aborts a connection that does not finish closing."""

    def __init__(self, socket: "ClientSocket") -> None:
        self.socket = socket

    def due(self, now: int) -> None:
        """Abort it."""
        self.socket.abort()


@final
class LingerTimer(Timer):
    """Closes a connection after the client could read the reason."""

    def __init__(self, socket: "ClientSocket") -> None:
        self.socket = socket

    def wanted(self) -> bool:
        """False once it is closed."""
        return self.socket.transport is not None

    def due(self, now: int) -> None:
        """Close, unless something is left to write."""
        self.socket.end_lingering()


@final
class HandshakeTimer(Timer):
    """Closes connections whose clients have not completed CONNECT and authentication in time."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []

    def wanted(self) -> bool:
        """False once all of them have a session, or are closing."""
        self.connections = [each for each in self.connections if each.session is None and not each.closing]
        return bool(self.connections)

    def due(self, now: int) -> None:
        """Close them."""
        for connection in self.connections:
            if connection.session is None and not connection.closing:
                connection.close(reason="no CONNECT, or no completed authentication, within mqtt.connect_timeout")
        self.connections = []


@final
class Handshakes:
    """The timers of all connections without a session: one for those that are opened within a tick of the wheel."""

    def __init__(self, wheel: Wheel) -> None:
        self._wheel = wheel
        self._last: HandshakeTimer | None = None

    def begin(self, connection: "Connection", at: int) -> None:
        """Close the connection at about `at`, not earlier, unless it has a session by then."""
        timer = self._last
        if timer is None or not at <= timer.at <= at + TICK:
            timer = self._last = HandshakeTimer()
            self._wheel.add(at + TICK, timer)
        timer.connections.append(connection)


IDENTITY_CHECK: Final = 60 * SECOND
"""Microseconds between two looks whether the connection is still there: an identity may last for a day."""


@final
class IdentityTimer(Timer):
    """Closes a connection when the identity of its client expires."""

    def __init__(self, connection: "Connection", expires_at: int) -> None:
        """`expires_at`: microseconds since 1970 UTC."""
        self.connection = connection
        self.expires_at = expires_at

    def wanted(self) -> bool:
        """False once it is closing."""
        return not self.connection.closing

    def start(self, now: int) -> None:
        """Wait for it."""
        wait = max(0, min(self.expires_at - wall_us(), IDENTITY_CHECK))
        self.connection.handlers.wheel.add(now + wait, self)

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

    def __init__(self, connection: "Connection", error: MQTTError) -> None:
        self.connection = connection
        self._error = error

    def wanted(self) -> bool:
        """False once it is closing."""
        return not self.connection.closing

    def due(self, now: int) -> None:
        """Refuse it."""
        if self.wanted():
            self.connection.fail(self._error)


@final
class KeepAliveTimer(Timer):
    """Closes a connection whose client has sent nothing for longer than its keep-alive allows [MQTT-3.1.2-22]."""

    def __init__(self, connection: "Connection", keep_alive: int) -> None:
        self.connection = connection
        self._keep_alive = keep_alive

    def wanted(self) -> bool:
        """False once it is closing."""
        return not self.connection.closing

    def due(self, now: int) -> None:
        """Close it, or wait for the time that is left."""
        connection = self.connection
        if connection.closing:
            return
        if connection.paused_because:  # PINGREQs may wait in its socket; `heard_at` is set when they are read
            connection.handlers.wheel.add(now + self._keep_alive, self)
            return
        deadline = connection.heard_at + self._keep_alive
        if now >= deadline:
            connection.read_to_end()  # what is held back (FC-16) has come in time
            connection.close(reason_codes.KEEP_ALIVE_TIMEOUT, "no packet within the keep-alive")
        else:
            connection.handlers.wheel.add(deadline, self)


@final
class RateTimer(Timer):
    """Resumes reading a client whose publish rate was used up (FC-23)."""

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection

    def wanted(self) -> bool:
        """False once it is closing."""
        return not self.connection.closing

    def due(self, now: int) -> None:
        """Resume reading."""
        connection = self.connection
        if connection.session is not None:
            connection.session.throttle(False, now)
            connection.resume_reading(RATE)


HOLD: Final = SECOND
"""Microseconds for which a publisher is not read after each piece, while memory is above the watermark (FC-32)."""


@final
class HoldTimer(Timer):
    """Resumes reading a publisher that was held back because of memory (FC-32)."""

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection

    def wanted(self) -> bool:
        """False once it is closing."""
        return not self.connection.closing

    def due(self, now: int) -> None:
        """Resume reading."""
        self.connection.resume_reading(MEMORY)
