"""What a client leaves unread while its send path is congested, and when that is more than it can have to."""

from typing import Final, final

from session.outbound import Outbound

SLACK: Final = 65_536
"""Bytes of acknowledgements that may wait, and of deliveries between two looks at what waits."""


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
