"""The broker's totals since its start, for the topics under $SYS.

Messages are counted by their sessions. An export, or the end of a session, takes the session's counters; these are
added up here. A total is this sum plus the counters that all sessions still hold. A walk over all sessions computes it
in slices; counters taken from a session that the current walk has already counted are added when the next walk begins.
"""

from typing import final

from session.counters import Counters


@final
class Sums:
    """Sums of the counters of sessions."""

    def __init__(self) -> None:
        self.received = 0
        self.received_qos0 = 0
        self.received_bytes = 0
        self.sent = 0
        """PUBLISHes, with resent ones."""
        self.pubrels_resent = 0
        self.sent_bytes = 0
        """Payload bytes, without those of resent ones."""
        self.acknowledged = 0
        self.dropped = 0
        """Deliveries that were dropped because a queue was full."""
        self.past_awaiting_rel = 0
        """QoS 2 PUBLISHes that were parked because of `max_awaiting_rel` (FC-22)."""

    def add(self, counters: Counters) -> None:
        """Add the counters of one session."""
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
        """Add other sums."""
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
    """All totals, without the counters that sessions still hold."""

    def __init__(self) -> None:
        self.sockets = 0
        """Connections that have been opened."""
        self.connects = 0
        """CONNECTs received."""
        self.most_online = 0
        self.expired = 0
        """Sessions that have expired."""
        self.bytes_received = 0
        self.bytes_sent = 0
        self.packets_received = 0
        self.disconnects_received = 0
        self.disconnects_sent = 0
        self.slow_consumers = 0
        """Reports of slow consumers (FC-14)."""
        self.stalled_windows = 0
        """Reports of stalled windows (FC-14)."""
        self.taken = Sums()
        """Counters that were taken from sessions."""
        self._taken_behind = Sums()  # taken from sessions that the current walk has already counted
        self._walk = 0

    def count_event(self, event: str) -> None:
        """Count an event of a session, if it has a total."""
        if event == "slow_consumer":
            self.slow_consumers += 1
        elif event == "stalled_window":
            self.stalled_windows += 1

    def add(self, walk: int, counters: Counters) -> None:
        """Add counters that an export or the session's end takes; `walk`: the last walk that counted the session."""
        if walk == self._walk:
            self._taken_behind.add(counters)  # the walk's sum already has them
        else:
            self.taken.add(counters)

    def begin_walk(self) -> int:
        """Begin a walk; returns its number, which the walk stores in each client that it counts. One walk at a time."""
        self.taken.include(self._taken_behind)
        self._taken_behind = Sums()
        self._walk += 1
        return self._walk
