"""FC-15: how much a client leaves undrained, and when reading it is paused for that."""

from typing import Final, final

from session.session import Session

SLACK: Final = 65_536
"""Bytes of control packets that may be undrained, and of deliveries between two checks."""


@final
class Undrained:
    """One episode of congestion. `waiting`: bytes in the transport when it began."""

    def __init__(self, waiting: int) -> None:
        self._may_wait = waiting + SLACK
        """Bytes that may be undrained besides those of the window."""
        self._control = 0
        self._until_check: int = SLACK

    def too_many_answers(self, pieces: list[bytes]) -> bool:
        """Count written control packets; returns whether too many are undrained. None is dropped (FC-15)."""
        for piece in pieces:
            self._control += len(piece)
        return self._control > SLACK

    def exceeds_plausible(self, session: Session, deliveries: int, waiting: int) -> bool:
        """Count `deliveries` written bytes; returns whether the client has acknowledged what it has not drained.

        A client that acknowledges guessed packet ids frees slots of the window (FC-1), and further deliveries would
        pile up in the transport. A slow client has not acknowledged what is undrained: all of it is in the window,
        except what was in the transport when congestion began.
        """
        self._until_check -= deliveries
        if self._until_check > 0:
            return False
        window = session.unacknowledged_bytes()
        self._until_check = max(SLACK, window // 4)  # adding up a large window takes time
        return waiting > self._may_wait + window
