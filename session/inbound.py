"""The receiving side of QoS 1 and 2: the client's quota and the packet ids that wait for PUBREL (FC-20 to FC-22)."""

from typing import Final, final

from protocol import reason_codes
from protocol.errors import MQTTError
from session.counters import Counters
from session.limits import Limits
from session.parked import ParkedIds

ROUTE: Final = 0
DUPLICATE: Final = 1
"""Answer it again, do not route it again."""
QUOTA_EXCEEDED: Final = 2
"""MQTT 5: answer PUBREC 0x97."""
IGNORE: Final = 3
"""Neither route nor acknowledge it: 3.1.1 has no word for QUOTA_EXCEEDED, so the client keeps it; or it is parked, and
its answer is coming (FC-25)."""


@final
class Inbound:
    """What the server must remember of the PUBLISHes that one client sends."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.unwritten = 0
        """QoS 1 PUBLISHes whose PUBACK the client cannot have seen yet, because it has not been written."""
        self.connection = 0
        """The number of the present connection, or else of the last."""
        self._parked: ParkedIds | None = None
        self._awaiting_rel: dict[int, int] | None = None  # packet id -> microseconds when it came, oldest first
        self._earlier: set[int] | None = None  # those among them that came on earlier connections

    def connect(self) -> None:
        """A new connection: the client's quota begins anew (section 4.9)."""
        self.unwritten = 0
        self.connection += 1
        if self._parked is not None:
            self._parked.connect()
        awaiting = self._awaiting_rel
        self._earlier = set(awaiting) if awaiting else None

    @property
    def awaiting_rel_len(self) -> int:
        """How many QoS 2 packet ids wait for PUBREL."""
        awaiting = self._awaiting_rel
        return len(awaiting) if awaiting is not None else 0

    def accept_qos1(self, packet_id: int, version: int, counters: Counters) -> int:
        """Decide on a QoS 1 PUBLISH, DUP or not (FC-21): ROUTE, or IGNORE where it is parked already (FC-25).

        Raises MQTTError 0x93 past the Receive Maximum (FC-20).
        """
        if self._parked is not None and self._parked.has_qos1(packet_id):
            return IGNORE
        self.unwritten += 1
        if version == 5 and self._unacknowledged() > self.limits.receive_maximum:
            self._past_receive_maximum(counters)
        return ROUTE

    def accept_qos2(self, packet_id: int, version: int, counters: Counters) -> int:
        """Decide on a QoS 2 PUBLISH: ROUTE, DUPLICATE, QUOTA_EXCEEDED or IGNORE. `remember` it once it is routed.

        Raises MQTTError 0x93 past the Receive Maximum (FC-20).
        """
        awaiting = self._awaiting_rel
        if awaiting is None:
            awaiting = self._awaiting_rel = {}
        if packet_id in awaiting:
            self._not_earlier(packet_id)
            return DUPLICATE  # FC-21
        parked = self._parked
        if parked is not None and parked.sees_qos2(packet_id):
            return IGNORE  # FC-25
        if version == 5 and self._unacknowledged() >= self.limits.receive_maximum:
            self._past_receive_maximum(counters)
        bound = self.limits.max_awaiting_rel
        if bound and len(awaiting) + (parked.qos2 if parked is not None else 0) >= bound:  # FC-22
            counters.awaiting_rel_refused += 1
            return QUOTA_EXCEEDED if version == 5 else IGNORE
        return ROUTE

    def remember(self, packet_id: int, now: int, here: bool = True) -> None:
        """A QoS 2 PUBLISH has been routed: its id waits for PUBREL (FC-21). One that was refused leaves no trace.

        `here`: it has come on the present connection.
        """
        awaiting = self._awaiting_rel
        if awaiting is None:
            awaiting = self._awaiting_rel = {}
        awaiting[packet_id] = now
        if not here:
            earlier = self._earlier
            if earlier is None:
                earlier = self._earlier = set()
            earlier.add(packet_id)

    def park(self, qos: int, packet_id: int) -> None:
        """A PUBLISH of QoS 1 or 2 that was accepted just now waits for its answer (FC-25): it uses up credit."""
        if qos == 1:
            self.unwritten -= 1
        parked = self._parked
        if parked is None:
            parked = self._parked = ParkedIds()
        parked.add(qos, packet_id)

    def is_here(self, qos: int, packet_id: int, connection: int) -> bool:
        """Whether a parked PUBLISH has come on the present connection; `connection` is the first on which it came."""
        if qos == 2 and self._parked is not None:
            return self._parked.has_seen(packet_id)
        return connection == self.connection

    def unpark(self, qos: int, packet_id: int, connection: int) -> None:
        """It waits no longer."""
        parked = self._parked
        if parked is None:
            return
        if qos == 2:
            parked.remove_qos2(packet_id)
        elif connection == self.connection:
            parked.remove_qos1(packet_id)

    def release(self, packet_id: int) -> bool:
        """A PUBREL came: forget the id. False if it was unknown (FC-21)."""
        awaiting = self._awaiting_rel
        self._not_earlier(packet_id)
        return awaiting is not None and awaiting.pop(packet_id, -1) >= 0

    def deadline(self) -> int:
        """When the oldest packet id is due to be forgotten (FC-22), in microseconds; 0 = never."""
        awaiting = self._awaiting_rel
        timeout = self.limits.await_rel_timeout
        if not awaiting or not timeout:
            return 0
        for since in awaiting.values():
            return since + timeout
        return 0

    def forget_overdue(self, now: int, counters: Counters) -> None:
        """FC-22: forget, and count, the ids that have waited for PUBREL longer than `await_rel_timeout`."""
        awaiting = self._awaiting_rel
        timeout = self.limits.await_rel_timeout
        if not awaiting or not timeout:
            return
        overdue: list[int] = []
        for packet_id, since in awaiting.items():
            if now - since < timeout:
                break
            overdue.append(packet_id)
        for packet_id in overdue:
            del awaiting[packet_id]
            self._not_earlier(packet_id)
        counters.awaiting_rel_expired += len(overdue)

    def _unacknowledged(self) -> int:
        """PUBLISHes of this connection that the client counts as unacknowledged (FC-20)."""
        earlier = self._earlier
        parked = self._parked
        count = self.unwritten + self.awaiting_rel_len + (parked.here if parked is not None else 0)
        return count - (len(earlier) if earlier is not None else 0)

    def _not_earlier(self, packet_id: int) -> None:
        if self._earlier is not None:
            self._earlier.discard(packet_id)

    def _past_receive_maximum(self, counters: Counters) -> None:
        if not self.limits.tolerate_receive_maximum:  # [MQTT-3.3.4-7]
            raise MQTTError(
                reason_codes.RECEIVE_MAXIMUM_EXCEEDED,
                f"more than {self.limits.receive_maximum} QoS 1 and 2 PUBLISHes unacknowledged; the CONNACK's Receive "
                "Maximum is the limit",
            )
        counters.receive_maximum_exceeded += 1
