"""What the broker has counted since it started, for the topics under $SYS.

What happens to messages is counted by their sessions, and whoever exports those counters takes them away, as does the
end of a session. So what is taken is added up here, and the sum over all sessions is that plus what they hold. Such a
sum is made in slices; counters that are taken from a session which the walk has been at already are for the next one.
"""

from typing import TYPE_CHECKING, final

from session.counters import Counters

if TYPE_CHECKING:
    from broker.sessions import Client


@final
class Sums:
    """Sums of what sessions have counted."""

    def __init__(self) -> None:
        self.received = 0
        self.received_qos0 = 0
        self.received_bytes = 0
        self.sent = 0
        """PUBLISHes, resent ones too."""
        self.pubrels_resent = 0
        self.sent_bytes = 0
        """Payload bytes, without those of resent ones."""
        self.acknowledged = 0
        self.dropped = 0
        """Deliveries that a full queue has dropped."""
        self.past_awaiting_rel = 0
        """QoS 2 PUBLISHes that had to wait for a packet id (FC-22)."""

    def add(self, counters: Counters) -> None:
        """Add what one session has counted."""
        self.received_qos0 += counters.received_qos0
        self.received += counters.received_qos0 + counters.received_qos1 + counters.received_qos2
        self.received_bytes += counters.received_bytes
        self.sent += counters.sent_qos0 + counters.sent_qos1 + counters.sent_qos2 + counters.resent_publish
        self.sent_bytes += counters.sent_bytes
        self.pubrels_resent += counters.resent_pubrel
        self.acknowledged += counters.acknowledged_qos1 + counters.acknowledged_qos2
        self.dropped += counters.dropped_queue_full
        self.past_awaiting_rel += counters.awaiting_rel_refused

    def include(self, other: "Sums") -> None:
        """Add all of another."""
        self.received_qos0 += other.received_qos0
        self.received += other.received
        self.received_bytes += other.received_bytes
        self.sent += other.sent
        self.sent_bytes += other.sent_bytes
        self.pubrels_resent += other.pubrels_resent
        self.acknowledged += other.acknowledged
        self.dropped += other.dropped
        self.past_awaiting_rel += other.past_awaiting_rel


@final
class Totals:
    """Everything that has been counted, but for what live sessions still hold."""

    def __init__(self) -> None:
        self.sockets = 0
        """Connections that were opened."""
        self.connects = 0
        """CONNECTs that have come."""
        self.most_online = 0
        self.expired = 0
        """Sessions that have ended because their client stayed away."""
        self.bytes_received = 0
        self.bytes_sent = 0
        self.packets_received = 0
        self.disconnects_received = 0
        self.disconnects_sent = 0
        self.slow_consumers = 0
        """Reports of sessions that were too slow (FC-14)."""
        self.stalled_windows = 0
        """Reports of windows that were full for too long (FC-14)."""
        self.taken = Sums()
        """What sessions do not hold any more."""
        self._taken_behind = Sums()  # the walk's back
        self._walk = 0

    def count_event(self, event: str) -> None:
        """Count what a session has reported, if it is one of the events that have a total."""
        if event == "slow_consumer":
            self.slow_consumers += 1
        elif event == "stalled_window":
            self.stalled_windows += 1

    def take(self, client: "Client", counters: Counters) -> None:
        """Keep what a session gives away, to an export or because it ends."""
        if client.walk == self._walk:
            self._taken_behind.add(counters)  # it is in the walk's sum
        else:
            self.taken.add(counters)

    def begin_walk(self) -> int:
        """The number of a walk that begins, for the clients that it has been at. One at a time."""
        self.taken.include(self._taken_behind)
        self._taken_behind = Sums()
        self._walk += 1
        return self._walk
