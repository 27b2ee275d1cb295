"""Why a client is not read at the moment, if it is not."""

from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from broker.connection import Connection

LATER: Final = 1
"""Sessions have to catch up first; the rest of the chunk is in the decoder, and the run queue calls `read_on`."""
UNREAD: Final = 2
"""It has to take what waits for it first."""
RATE: Final = 4
"""It publishes faster than it may (FC-23)."""
PARKED: Final = 8
"""Its PUBLISHes wait for room in their addresses (FC-25)."""
CLOSED: Final = 16
"""Nothing that it sends counts any more."""


@final
class Reading:
    """The reasons not to read. Meanwhile TCP holds the client back, and nothing is lost."""

    def __init__(self) -> None:
        self.reasons = 0
        """As a sum; 0 = it is read."""

    def stop(self, reason: int, connection: "Connection", now: int) -> None:
        """Read no more; what has been read already waits in the decoder."""
        self.reasons |= reason
        if connection.session is not None and connection.transport is not None:
            connection.session.reading_paused_time.start(now)
            connection.transport.pause_reading()

    def end(self, reason: int, connection: "Connection") -> None:
        """A reason holds no longer. If it was the last one, the connection gets in line to be read."""
        if self.reasons & reason:
            self.reasons &= ~reason
            if self.reasons == 0:
                self.reasons = LATER
                if reason == UNREAD:
                    connection.broker.run_queue.read_later(connection)
                else:
                    connection.broker.run_queue.resume(connection)

    def go_on(self, connection: "Connection", now: int) -> None:
        """Read again, if nothing speaks against it."""
        if self.reasons == 0 and connection.session is not None and connection.transport is not None:
            connection.session.reading_paused_time.stop(now)
            connection.transport.resume_reading()
