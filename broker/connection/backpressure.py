"""Why a client is not read at the moment, if it is not. Meanwhile TCP holds it back, and nothing is lost."""

from typing import TYPE_CHECKING, Final, final

from session.outbound import Outbound

if TYPE_CHECKING:
    from broker.connection.connection import Connection

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


SLACK: Final = 65_536
"""Bytes of acknowledgements that may wait, and of deliveries between two looks at what waits."""


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


@final
class Unread:
    """One episode of congestion. `waiting`: bytes in the transport when it asked for a pause."""

    def __init__(self, waiting: int) -> None:
        self._may_wait = waiting + SLACK
        """Bytes that may wait besides those of the window."""
        self._control = 0
        self._until_look: int = SLACK

    def too_many_answers(self, pieces: list[bytes]) -> bool:
        """Note that only control packets have been written: none is dropped (FC-15), but there is an end to it."""
        for piece in pieces:
            self._control += len(piece)
        return self._control > SLACK

    def cannot_be(self, outbound: Outbound, deliveries: int, waiting: int) -> bool:
        """Note that `deliveries` bytes have been written; whether the client has acknowledged what it has not read.

        Who guesses packet ids and acknowledges them gets places in the window back (FC-1), and what then takes them
        would pile up in the transport. Who is only slow has not acknowledged what waits there: it is in the window,
        but for what was there already when the transport asked for a pause.
        """
        self._until_look -= deliveries
        if self._until_look > 0:
            return False
        window = outbound.unread_bytes()
        self._until_look = max(SLACK, window // 4)  # a large window takes a while to add up
        return waiting > self._may_wait + window
