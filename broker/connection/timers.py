"""Timers of a connection: CONNECT, keep-alive, publish rate, a close that does not finish."""

from typing import TYPE_CHECKING, final

from broker.runtime.endpoint import RATE
from broker.runtime.timers import Timer
from protocol import reason_codes

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
    """Closes a connection whose client has not completed CONNECT and authentication in time."""

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection

    def wanted(self) -> bool:
        """False once it has a session, or is closing."""
        return self.connection.session is None and not self.connection.closing

    def due(self, now: int) -> None:
        """Close it."""
        if self.wanted():
            self.connection.close(reason="no CONNECT, or no completed authentication, within mqtt.connect_timeout")


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
