"""What time does to a connection: waiting for CONNECT, keepalive, rates, the end of a close that does not end."""

from typing import TYPE_CHECKING, final

from broker.connection.backpressure import RATE, end_reason
from broker.runtime.timers import Timer
from protocol import reason_codes

if TYPE_CHECKING:
    from broker.connection.connection import Connection


@final
class AbortTimer(Timer):
    """Cuts off a connection that does not finish closing."""

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection

    def due(self, now: int) -> None:
        """Abort, unless it is gone."""
        self.connection.abort()


@final
class LingerTimer(Timer):
    """Closes on a client that has been told why."""

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection

    def wanted(self) -> bool:
        """Not when it is gone."""
        return self.connection.transport is not None

    def due(self, now: int) -> None:
        """Close, unless there is still something to write to it."""
        self.connection.end_lingering()


@final
class HandshakeTimer(Timer):
    """Closes a connection that has not said CONNECT, or not shown who it is, in time."""

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection

    def wanted(self) -> bool:
        """Not when it has a session, or is gone."""
        return self.connection.session is None and not self.connection.closing

    def due(self, now: int) -> None:
        """Close it."""
        if self.wanted():
            self.connection.close(reason="no CONNECT, or no completed authentication, within mqtt.connect_timeout")


@final
class KeepAliveTimer(Timer):
    """Closes a connection whose client has been silent for longer than its keepalive allows [MQTT-3.1.2-22]."""

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection

    def wanted(self) -> bool:
        """Not when it is closed anyway."""
        return not self.connection.closing

    def due(self, now: int) -> None:
        """Close it, or wait for the time that is left."""
        connection = self.connection
        if connection.closing:
            return
        if connection.unread_because:  # its PINGREQs may be waiting for us; `heard_at` is set when they are read
            connection.broker.wheel.add(now + connection.keep_alive, self)
            return
        deadline = connection.heard_at + connection.keep_alive
        if now >= deadline:
            connection.close(reason_codes.KEEP_ALIVE_TIMEOUT, "nothing has come for longer than Keep Alive allows")
        else:
            connection.broker.wheel.add(deadline, self)


@final
class RateTimer(Timer):
    """Lets a client be read again that has published faster than it may (FC-23)."""

    def __init__(self, connection: "Connection") -> None:
        self.connection = connection

    def wanted(self) -> bool:
        """Not when it is closed anyway."""
        return not self.connection.closing

    def due(self, now: int) -> None:
        """Go on reading."""
        connection = self.connection
        if connection.session is not None:
            connection.session.throttle(False, now)
            end_reason(connection, RATE)
