"""The receiving side of QoS 1 and 2: the client's quota and the packet ids that wait for PUBREL (FC-20 to FC-22)."""

from typing import Final, final

from protocol import reason_codes
from protocol.errors import MQTTError
from session.counters import Counters
from session.limits import Limits

ROUTE: Final = 0
DUPLICATE: Final = 1
"""Answer it again, do not route it again."""
QUOTA_EXCEEDED: Final = 2
"""MQTT 5: answer PUBREC 0x97."""
IGNORE: Final = 3
"""3.1.1 has no such answer: neither routed nor acknowledged, so the client keeps it."""


@final
class Inbound:
    """What the server must remember of the PUBLISHes that one client sends."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.unwritten = 0
        """QoS 1 PUBLISHes whose PUBACK the client cannot have seen yet, because it has not been written."""
        self._awaiting_rel: dict[int, int] | None = None  # packet id -> microseconds when it came, oldest first
        self._earlier: set[int] | None = None  # those among them that came on earlier connections

    def connect(self) -> None:
        """A new connection: the client's quota begins anew (section 4.9)."""
        self.unwritten = 0
        awaiting = self._awaiting_rel
        self._earlier = set(awaiting) if awaiting else None

    @property
    def awaiting_rel_len(self) -> int:
        """How many QoS 2 packet ids wait for PUBREL."""
        awaiting = self._awaiting_rel
        return len(awaiting) if awaiting is not None else 0

    def accept_qos1(self, version: int, counters: Counters) -> None:
        """Take a QoS 1 PUBLISH, DUP or not (FC-21). Raises MQTTError 0x93 past the Receive Maximum (FC-20)."""
        self.unwritten += 1
        if version == 5 and self._unacknowledged() > self.limits.receive_maximum:
            self._past_receive_maximum(counters)

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
        if version == 5 and self._unacknowledged() >= self.limits.receive_maximum:
            self._past_receive_maximum(counters)
        bound = self.limits.max_awaiting_rel
        if bound and len(awaiting) >= bound:  # FC-22
            counters.awaiting_rel_refused += 1
            return QUOTA_EXCEEDED if version == 5 else IGNORE
        return ROUTE

    def remember(self, packet_id: int, now: int) -> None:
        """A QoS 2 PUBLISH has been routed: its id waits for PUBREL (FC-21). One that was refused leaves no trace."""
        awaiting = self._awaiting_rel
        if awaiting is None:
            awaiting = self._awaiting_rel = {}
        awaiting[packet_id] = now

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
        return self.unwritten + self.awaiting_rel_len - (len(earlier) if earlier is not None else 0)

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
