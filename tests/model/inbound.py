"""From the publisher: FC-20 (Receive Maximum), FC-21 and FC-22 (QoS 2 ids), and the answers that FC-25 withholds."""

from dataclasses import dataclass

from tests.model.books import Books
from tests.model.knobs import Knobs
from tests.model.message import Packet

PROTOCOL_ERROR = 0x82
RECEIVE_MAXIMUM_EXCEEDED = 0x93
QUOTA_EXCEEDED = 0x97
NO_MATCHING_SUBSCRIBERS = 0x10
PACKET_IDENTIFIER_NOT_FOUND = 0x92


class ClosedError(Exception):
    """The connection is to be closed: with 0x93 (FC-20), 0x97 (FC-22), or 0x82 (FC-21)."""

    def __init__(self, code: int) -> None:
        super().__init__(hex(code))
        self.code = code


OVERHEAD = 64


@dataclass(eq=False)
class Pending:
    """A PUBLISH that the client has not got its last word on."""

    qos: int
    packet_id: int
    since: int
    here: bool = True
    """Whether it has come, or come again, on the present connection: only then the client counts it (FC-20)."""


class Inbound:
    """What the session knows of the PUBLISHes of its client."""

    def __init__(self, knobs: Knobs) -> None:
        self.knobs = knobs
        self.connection = 0
        self.awaiting_rel: list[Pending] = []
        self.forgotten: list[int] = []
        """FC-22a: ids that have waited too long for PUBREL."""
        self.parked: list[Pending] = []
        self.waiting: list[tuple[int, int, int]] = []
        """FC-22: packet id, payload bytes and weight of what is past max_awaiting_rel."""
        self.overflowing = False

    def connect(self) -> None:
        """The quota begins anew; QoS 2 ids stay, parked QoS 1 is another connection's matter."""
        self.connection += 1
        self.parked = [pending for pending in self.parked if pending.qos == 2]
        for pending in self.awaiting_rel + self.parked:
            pending.here = False

    def unacknowledged(self) -> int:
        """FC-20: what the client counts as unacknowledged."""
        return len(self.waiting) + sum(pending.here for pending in self.awaiting_rel + self.parked)

    def disconnect(self) -> None:
        """FC-22: what waits for an id is not answered, so the client keeps it."""
        self.waiting = []
        self.overflowing = False

    def has_room(self) -> bool:
        """FC-22: whether one more id may wait for PUBREL."""
        held = len(self.awaiting_rel) + sum(pending.qos == 2 for pending in self.parked)
        return not self.knobs.max_awaiting_rel or held < self.knobs.max_awaiting_rel

    def comes_again(self, packet_id: int, dup: bool, outbox: list[Packet]) -> bool:
        """FC-22a: whether a QoS 2 PUBLISH is one that was routed, though its id has been forgotten since."""
        if packet_id in self.forgotten and dup:
            outbox.append(("PUBREC", packet_id, 0))
            return True
        self.reuse(packet_id)
        return False

    def reuse(self, packet_id: int) -> None:
        """FC-22a: the id is not that of an older PUBLISH any more."""
        self.forgotten = [forgotten for forgotten in self.forgotten if forgotten != packet_id]

    def accept(
        self, qos: int, packet_id: int, size: int, version: int, books: Books, outbox: list[Packet], reports: list[str]
    ) -> bool:
        """A PUBLISH comes; returns whether it is to be routed. What it is answered at once goes to the outbox."""
        for pending in self.parked + self.awaiting_rel:
            if qos and (pending.qos, pending.packet_id) == (qos, packet_id):
                pending.here = True
                if pending in self.awaiting_rel:
                    outbox.append(("PUBREC", packet_id, 0))  # FC-21; of what is parked, the answer is coming (FC-25)
                return False
        if qos == 2 and packet_id in [waiting[0] for waiting in self.waiting]:
            return False  # FC-22: nor is it parked twice
        if qos and version == 5 and self.unacknowledged() >= self.knobs.receive_maximum:  # FC-20
            if not self.knobs.tolerate_receive_maximum:
                raise ClosedError(RECEIVE_MAXIMUM_EXCEEDED)
            books.count("receive_maximum_exceeded")
        if qos == 2 and (self.waiting or not self.has_room()):  # FC-22
            books.count("awaiting_rel_refused")
            if sum(weight for _, _, weight in self.waiting) >= self.knobs.producer_window_size:
                raise ClosedError(QUOTA_EXCEEDED)
            self.waiting.append((packet_id, size, max(size, OVERHEAD + len("in"))))
            if not self.overflowing:
                self.overflowing = True
                reports.append("max_awaiting_rel_reached")
            return False
        return True

    def let_in(self, now: int, books: Books) -> list[Packet]:
        """FC-22: what there is an id for now is routed; the answers."""
        answers: list[Packet] = []
        while self.waiting and self.has_room():
            packet_id, size, _ = self.waiting.pop(0)
            books.count("received_qos2")
            books.count("received_bytes", size)
            self.remember(packet_id, now)
            answers.append(("PUBREC", packet_id, 0))
        return answers

    def end_episode(self) -> None:
        """Corner: when no id waits for PUBREL and nothing for an id, the next PUBLISH that has to is reported."""
        if not self.awaiting_rel and not self.waiting:
            self.overflowing = False

    def answer(self, qos: int, packet_id: int, reason_code: int, version: int) -> Packet:
        """FC-21: the acknowledgement of a PUBLISH of QoS 1 or 2; 3.1.1 has no words but the usual ones."""
        return ("PUBACK" if qos == 1 else "PUBREC", packet_id, reason_code if version == 5 else 0)

    def remember(self, packet_id: int, now: int, here: bool = True) -> None:
        """FC-21: the id of a QoS 2 PUBLISH that has been routed; one that was refused leaves no trace."""
        self.awaiting_rel.append(Pending(2, packet_id, now, here))

    def release(self, packet_id: int, version: int) -> Packet:
        """FC-21: PUBREL is always answered."""
        known = packet_id in self.forgotten or packet_id in [pending.packet_id for pending in self.awaiting_rel]
        self.reuse(packet_id)
        self.awaiting_rel = [pending for pending in self.awaiting_rel if pending.packet_id != packet_id]
        self.end_episode()
        return ("PUBCOMP", packet_id, 0 if known or version == 4 else PACKET_IDENTIFIER_NOT_FOUND)

    def forget_overdue(self, now: int, books: Books) -> None:
        """FC-22: `await_rel_timeout`."""
        timeout = self.knobs.await_rel_timeout
        if timeout:
            kept = [pending for pending in self.awaiting_rel if now < pending.since + timeout]
            books.count("awaiting_rel_expired", len(self.awaiting_rel) - len(kept))
            expired = len(kept) < len(self.awaiting_rel)
            self.forgotten += [pending.packet_id for pending in self.awaiting_rel if pending not in kept]
            self.awaiting_rel = kept
            if expired:
                self.end_episode()

    def deadline(self) -> int | None:
        """When the first id is to be forgotten."""
        if not self.awaiting_rel or not self.knobs.await_rel_timeout:
            return None
        return min(pending.since for pending in self.awaiting_rel) + self.knobs.await_rel_timeout

    # -- answers that are withheld (FC-25)

    def park(self, qos: int, packet_id: int, now: int) -> None:
        """An accepted PUBLISH waits for its answer, and uses up credit meanwhile."""
        if qos:
            self.parked.append(Pending(qos, packet_id, now))

    def expects(self, qos: int, packet_id: int, connection: int) -> bool:
        """Whether the client of the present connection waits for the answer of what came first on `connection`."""
        if qos == 2:
            return any(p.here for p in self.parked if p.qos == 2 and p.packet_id == packet_id)
        return connection == self.connection

    def unpark(self, qos: int, packet_id: int, connection: int) -> None:
        """It waits no longer."""
        if qos == 2 or connection == self.connection:
            self.parked = [p for p in self.parked if (p.qos, p.packet_id) != (qos, packet_id)]
