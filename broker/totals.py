"""The broker's totals since its start, for the topics under $SYS and for Prometheus.

Messages are counted by their sessions. An export, or the end of a session, takes the session's counters; these are
added up here. A total is this sum plus the counters that all sessions still hold. A walk over all sessions computes it
in slices; counters taken from a session that the current walk has already counted are added when the next walk begins.
"""

from typing import Final, final

from mypy_extensions import i64

from broker.disconnects import Disconnects
from session.counters import Counters
from session.histogram import BUCKETS, Histogram
from session.uncommon_counts import NOTHING

Distribution = list[int]
"""Counts by bucket of `session.histogram`, each of BUCKETS."""

MISSING: Final = "missing"
UNKNOWN: Final = "unknown"
ROLE: Final = "role"
"""What is wrong with the token of a request to the admin API."""


@final
class Sums:
    """Sums of the counters of sessions. The attributes are named as those of `Counters`."""

    def __init__(self) -> None:
        self.received_qos0 = 0
        self.received_qos1 = 0
        self.received_qos2 = 0
        self.received_bytes = 0
        self.offered_qos0 = 0
        self.offered_qos1 = 0
        self.offered_qos2 = 0
        self.sent_qos0 = 0
        self.sent_qos1 = 0
        self.sent_qos2 = 0
        self.sent_bytes = 0
        self.acknowledged_qos1 = 0
        self.acknowledged_qos2 = 0
        self.gated_congested = 0
        self.gated_window_full = 0
        self.gated_mailbox_busy = 0
        self.gated_backlog = 0
        self.gated_rate = 0
        self.superseded_qos0 = 0
        self.superseded_qos1 = 0
        self.superseded_qos2 = 0
        self.resent_publish = 0
        self.resent_pubrel = 0
        self.shared_returned = 0
        self.slow_consumer = 0
        self.stalled_window = 0
        self.awaiting_rel_refused = 0
        self.awaiting_rel_expired = 0
        self.receive_maximum_exceeded = 0
        self.publish_refused = 0
        self.publish_parked = 0
        self.publish_paged = 0
        self.publish_discarded = 0
        self.drops: dict[str, int] = {}
        """By reason and QoS, such as `dropped_queue_full_qos1`."""
        self.drops_away: dict[str, int] = {}
        """Those of sessions whose clients were not connected."""
        self.wait_qos0: Distribution = [0] * BUCKETS
        self.wait_qos1: Distribution = [0] * BUCKETS
        self.wait_qos2: Distribution = [0] * BUCKETS
        self.ack_qos1: Distribution = [0] * BUCKETS
        self.ack_qos2: Distribution = [0] * BUCKETS

    @property
    def received(self) -> int:
        """PUBLISHes received."""
        return self.received_qos0 + self.received_qos1 + self.received_qos2

    @property
    def sent(self) -> int:
        """PUBLISHes sent, with resent ones."""
        return self.sent_qos0 + self.sent_qos1 + self.sent_qos2 + self.resent_publish

    @property
    def acknowledged(self) -> int:
        """Deliveries acknowledged."""
        return self.acknowledged_qos1 + self.acknowledged_qos2

    @property
    def dropped_queue_full(self) -> int:
        """Deliveries that were dropped because a queue was full."""
        return sum([self.drops.get(f"dropped_queue_full_qos{qos}", 0) for qos in range(3)])

    def add(self, counters: Counters) -> None:
        """Add the counters of one session, without its distributions."""
        drops = counters.drops
        if drops is not None:
            _merge_drops(self.drops, drops)
            away = counters.drops_away
            if away is not None:
                _merge_drops(self.drops_away, away)
        self.received_qos0 += counters.received_qos0
        self.received_qos1 += counters.received_qos1
        self.received_qos2 += counters.received_qos2
        self.received_bytes += counters.received_bytes
        self.offered_qos0 += counters.offered_qos0
        self.offered_qos1 += counters.offered_qos1
        self.offered_qos2 += counters.offered_qos2
        self.sent_qos0 += counters.sent_qos0
        self.sent_qos1 += counters.sent_qos1
        self.sent_qos2 += counters.sent_qos2
        self.sent_bytes += counters.sent_bytes
        self.acknowledged_qos1 += counters.acknowledged_qos1
        self.acknowledged_qos2 += counters.acknowledged_qos2
        uncommon = counters.uncommon
        if uncommon is NOTHING:
            return
        self.gated_congested += uncommon.gated_congested
        self.gated_window_full += uncommon.gated_window_full
        self.gated_mailbox_busy += uncommon.gated_mailbox_busy
        self.gated_backlog += uncommon.gated_backlog
        self.gated_rate += uncommon.gated_rate
        self.superseded_qos0 += uncommon.superseded_qos0
        self.superseded_qos1 += uncommon.superseded_qos1
        self.superseded_qos2 += uncommon.superseded_qos2
        self.resent_publish += uncommon.resent_publish
        self.resent_pubrel += uncommon.resent_pubrel
        self.shared_returned += uncommon.shared_returned
        self.slow_consumer += uncommon.slow_consumer
        self.stalled_window += uncommon.stalled_window
        self.awaiting_rel_refused += uncommon.awaiting_rel_refused
        self.awaiting_rel_expired += uncommon.awaiting_rel_expired
        self.receive_maximum_exceeded += uncommon.receive_maximum_exceeded
        self.publish_refused += uncommon.publish_refused
        self.publish_parked += uncommon.publish_parked
        self.publish_paged += uncommon.publish_paged
        self.publish_discarded += uncommon.publish_discarded

    def add_distributions(self, counters: Counters) -> None:
        """Add the distributions of one session."""
        _merge(self.wait_qos0, counters.wait_qos0_buckets)
        _merge(self.wait_qos1, counters.wait_qos1_buckets)
        _merge(self.wait_qos2, counters.wait_qos2_buckets)
        _merge(self.ack_qos1, counters.ack_qos1_buckets)
        _merge(self.ack_qos2, counters.ack_qos2_buckets)

    def include(self, other: "Sums", sign: int = 1) -> None:
        """Add other sums; a `sign` of -1 takes them away."""
        _merge_drops(self.drops, other.drops, sign)
        _merge_drops(self.drops_away, other.drops_away, sign)
        self.received_qos0 += sign * other.received_qos0
        self.received_qos1 += sign * other.received_qos1
        self.received_qos2 += sign * other.received_qos2
        self.received_bytes += sign * other.received_bytes
        self.offered_qos0 += sign * other.offered_qos0
        self.offered_qos1 += sign * other.offered_qos1
        self.offered_qos2 += sign * other.offered_qos2
        self.sent_qos0 += sign * other.sent_qos0
        self.sent_qos1 += sign * other.sent_qos1
        self.sent_qos2 += sign * other.sent_qos2
        self.sent_bytes += sign * other.sent_bytes
        self.acknowledged_qos1 += sign * other.acknowledged_qos1
        self.acknowledged_qos2 += sign * other.acknowledged_qos2
        self.gated_congested += sign * other.gated_congested
        self.gated_window_full += sign * other.gated_window_full
        self.gated_mailbox_busy += sign * other.gated_mailbox_busy
        self.gated_backlog += sign * other.gated_backlog
        self.gated_rate += sign * other.gated_rate
        self.superseded_qos0 += sign * other.superseded_qos0
        self.superseded_qos1 += sign * other.superseded_qos1
        self.superseded_qos2 += sign * other.superseded_qos2
        self.resent_publish += sign * other.resent_publish
        self.resent_pubrel += sign * other.resent_pubrel
        self.shared_returned += sign * other.shared_returned
        self.slow_consumer += sign * other.slow_consumer
        self.stalled_window += sign * other.stalled_window
        self.awaiting_rel_refused += sign * other.awaiting_rel_refused
        self.awaiting_rel_expired += sign * other.awaiting_rel_expired
        self.receive_maximum_exceeded += sign * other.receive_maximum_exceeded
        self.publish_refused += sign * other.publish_refused
        self.publish_parked += sign * other.publish_parked
        self.publish_paged += sign * other.publish_paged
        self.publish_discarded += sign * other.publish_discarded
        _include(self.wait_qos0, other.wait_qos0, sign)
        _include(self.wait_qos1, other.wait_qos1, sign)
        _include(self.wait_qos2, other.wait_qos2, sign)
        _include(self.ack_qos1, other.ack_qos1, sign)
        _include(self.ack_qos2, other.ack_qos2, sign)


def _merge_drops(into: dict[str, int], drops: dict[str, int], sign: int = 1) -> None:
    for name, count in drops.items():
        into[name] = into.get(name, 0) + sign * count


def _merge(into: Distribution, histogram: Histogram | None) -> None:
    if histogram is not None:
        histogram.add_to(into)


def _include(into: Distribution, counts: Distribution, sign: int) -> None:
    for bucket, count in enumerate(counts):
        if count:
            into[bucket] += sign * count


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
        self.bytes_received: i64 = 0
        self.bytes_sent: i64 = 0
        self.packets_received: i64 = 0
        self.disconnects_received = 0
        self.disconnects_sent = 0
        self.slow_consumers = 0
        """Reports of slow consumers (FC-14)."""
        self.stalled_windows = 0
        """Reports of stalled windows (FC-14)."""
        self.quotas_reached: dict[str, int] = {}
        """How often limits of quotas were reached (FC-31), by key."""
        self.disconnects = Disconnects()
        self.clients_refused: dict[str, dict[int, int]] = {}
        """Refused CONNECTs and broken protocols, by listener and reason code."""
        self.admin_refused: dict[str, int] = dict.fromkeys((MISSING, UNKNOWN, ROLE), 0)
        """Refused requests to the admin API, by what is wrong with their token."""
        self.taken: dict[str, Sums] = {}
        """Counters that were taken from sessions, by the listener of their last connection."""
        self._taken_behind: dict[str, Sums] = {}  # taken from sessions that the current walk has already counted
        self._walk = 0

    def count_event(self, event: str) -> None:
        """Count an event of a session, if it has a total."""
        if event == "slow_consumer":
            self.slow_consumers += 1
        elif event == "stalled_window":
            self.stalled_windows += 1

    def count_refused(self, listener: str, reason_code: int) -> None:
        """Count a client that is refused, or closed for an error of its own."""
        counts = self.clients_refused.setdefault(listener, {})
        counts[reason_code] = counts.get(reason_code, 0) + 1

    def count_quota(self, key: str) -> None:
        """Count that a limit of a quota is reached."""
        self.quotas_reached[key] = self.quotas_reached.get(key, 0) + 1

    def add(self, listener: str, walk: int, counters: Counters) -> None:
        """Add counters that an export or the session's end takes; `walk`: the last walk that counted the session."""
        sums = self._sums(listener, walk)
        sums.add(counters)
        sums.add_distributions(counters)

    def move(self, listener: str, to: str, walk: int, counters: Counters) -> None:
        """A session that still holds these counters has another listener: what they say stays with the one before.

        Else a total of that listener would go down, which Prometheus takes for a restart of the broker.
        """
        self.add(listener, walk, counters)
        held = Sums()
        held.add(counters)
        held.add_distributions(counters)
        self._sums(to, walk).include(held, -1)

    def _sums(self, listener: str, walk: int) -> Sums:
        """Where to count for a session; `walk`: the last one that counted it, whose sum already has its counters."""
        into = self._taken_behind if walk == self._walk else self.taken
        sums = into.get(listener)
        if sums is None:
            sums = into[listener] = Sums()
        return sums

    def begin_walk(self) -> int:
        """Begin a walk; returns its number, which the walk stores in each client that it counts. One walk at a time."""
        for listener, sums in self._taken_behind.items():
            taken = self.taken.get(listener)
            if taken is None:
                self.taken[listener] = sums
            else:
                taken.include(sums)
        self._taken_behind = {}
        self._walk += 1
        return self._walk
