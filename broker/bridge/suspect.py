"""Finds the message because of which the remote broker ends the connection each time."""

from typing import Final, final

from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubrec
from protocol.publish import Publish
from session.session import Session
from session.window import WAIT_PUBACK, WAIT_PUBCOMP, WAIT_PUBREC, Inflight

ABOUT_MESSAGES: Final = frozenset(
    (
        reason_codes.TOPIC_NAME_INVALID,
        reason_codes.PACKET_TOO_LARGE,
        reason_codes.PAYLOAD_FORMAT_INVALID,
        reason_codes.RETAIN_NOT_SUPPORTED,
        reason_codes.QOS_NOT_SUPPORTED,
    )
)
"""Reason codes of a DISCONNECT that one message has caused. 0x81 and 0x82 may be about any packet."""
OFTEN: Final = 3
"""So many connections have to end in a row, with nothing acknowledged, before anything is done about it."""


@final
class Suspect:
    """What the ends of one bridge's connections say about the messages in its window."""

    def __init__(self) -> None:
        self.ends = 0
        """Connections in a row that have ended with the same first message unacknowledged."""
        self._first: Inflight | None = None
        """That message."""
        self._blames = 0
        """Connections in a row that have ended by a DISCONNECT about a message."""
        self._blamed = False
        """Whether this connection ends by one."""
        self._gave_up = False
        """Whether a message has been given up on this connection."""
        self._acknowledged = 0
        """Messages that were acknowledged when the connection began."""

    def forget(self) -> None:
        """The configuration has changed: the remote broker may be another one."""
        self.ends = self._blames = 0
        self._first = None

    def begin(self, session: Session, now: int) -> None:
        """A connection is about to get the session: is the kept window resent one by one?"""
        session.sender.resends_singly = self._blames >= OFTEN
        self._acknowledged = session.totals(now).acknowledged
        self._blamed = self._gave_up = False

    def refusal(self, session: Session, code: int) -> Puback | Pubrec | None:
        """What a DISCONNECT with this code says of the only message under way; None: nothing, or there are several."""
        kept = session.sender.kept
        self._blamed = code in ABOUT_MESSAGES
        if kept is None or not self._blamed:
            return None
        packet_id = kept.alone(session.sender.window)
        phase = session.sender.window.entries[packet_id].phase if packet_id else WAIT_PUBCOMP
        self._gave_up = phase != WAIT_PUBCOMP
        if phase == WAIT_PUBACK:
            return Puback(packet_id, code)
        return Pubrec(packet_id, code) if phase == WAIT_PUBREC else None

    def ended(self, session: Session, now: int) -> Publish | None:
        """A connection has ended; returns the first message if connections often end with it unacknowledged."""
        goes_on = session.totals(now).acknowledged != self._acknowledged
        if goes_on and not self._gave_up:  # after one that was given up, others are to be found as fast
            self._blames = 0
        elif self._blamed:
            self._blames += 1
        first = _first(session)
        self.ends = self.ends + 1 if first is self._first and not goes_on else 1
        self._first = first
        return first.publish if first is not None and self.ends >= OFTEN else None


def _first(session: Session) -> Inflight | None:
    """The first message that the remote broker has not taken."""
    for inflight in session.sender.window.entries.values():
        if inflight.phase != WAIT_PUBCOMP:
            return inflight
    return None
