"""Why a client is not read at the moment, if it is not. Meanwhile TCP holds it back, and nothing is lost."""

from typing import TYPE_CHECKING, Final

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
PACED: Final = 32
"""Queues that drain have no room for what it publishes (FC-16), and it has sent as much meanwhile as may wait."""
CLOSED: Final = 16
"""Nothing that it sends counts any more."""


def stop_reading(connection: "Connection", reason: int, now: int) -> None:
    """Read no more; what has been read already waits in the decoder."""
    connection.unread_because |= reason
    if connection.session is not None and connection.transport is not None:
        connection.session.reading_paused_time.start(now)
        connection.transport.pause_reading()


def end_reason(connection: "Connection", reason: int) -> None:
    """A reason holds no longer. If it was the last one, the connection gets in line to be read."""
    if connection.unread_because & reason:
        connection.unread_because &= ~reason
        if connection.unread_because == 0:
            connection.unread_because = LATER
            if reason == UNREAD:
                connection.broker.run_queue.read_later(connection)
            else:
                connection.broker.run_queue.resume(connection)


def go_on_reading(connection: "Connection", now: int) -> None:
    """Read again, if nothing speaks against it."""
    if connection.unread_because == 0 and connection.session is not None and connection.transport is not None:
        connection.session.reading_paused_time.stop(now)
        connection.transport.resume_reading()
