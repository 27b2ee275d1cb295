"""The counters of one session in one metrics interval ("Where to see it" in FLOW-CONTROL.md).

The attributes are named as the columns of the exported files. At the end of an interval a new object replaces the old
one, so the hot path only adds to integers.
"""

from typing import final

from mypy_extensions import mypyc_attr

from protocol.publish import Publish
from session import qos0_gate
from session.histogram import Histogram
from session.mqueue import MQueue
from session.window import Window


@mypyc_attr(acyclic=True)
@final
class Counters:
    """One session's counts since `interval_start` (microseconds of the monotonic clock)."""

    # Attributes that each message updates come first, so that they share few cache lines.
    offered_qos0: int = 0
    offered_qos1: int = 0
    offered_qos2: int = 0
    sent_qos0: int = 0
    sent_qos1: int = 0
    sent_qos2: int = 0
    sent_bytes: int = 0
    acknowledged_qos1: int = 0
    acknowledged_qos2: int = 0
    window_max: int = 0
    mailbox_max: int = 0
    mailbox_samples: int = 0
    mailbox_busy_samples: int = 0
    mailbox_buckets: Histogram | None = None
    wait_qos0_buckets: Histogram | None = None
    wait_qos1_buckets: Histogram | None = None
    wait_qos2_buckets: Histogram | None = None
    ack_qos1_buckets: Histogram | None = None
    ack_qos2_buckets: Histogram | None = None
    received_qos0: int = 0
    received_qos1: int = 0
    received_qos2: int = 0
    received_bytes: int = 0
    interval_start: int = 0

    dropped_qos0: int = 0
    dropped_qos1: int = 0
    dropped_qos2: int = 0
    gated_congested: int = 0
    gated_window_full: int = 0
    gated_mailbox_busy: int = 0
    gated_backlog: int = 0
    gated_rate: int = 0
    resent_publish: int = 0
    resent_pubrel: int = 0
    mqueue_max: int = 0
    mqueue_bytes_max: int = 0
    window_full_us: int = 0
    congested_us: int = 0
    reading_paused_us: int = 0
    rate_limited_us: int = 0
    window_bytes_full_us: int = 0
    slow_consumer: int = 0
    stalled_window: int = 0
    shared_returned: int = 0
    awaiting_rel_refused: int = 0
    awaiting_rel_expired: int = 0
    receive_maximum_exceeded: int = 0
    publish_refused: int = 0
    publish_parked: int = 0
    publish_paged: int = 0
    publish_parked_us: int = 0
    publish_discarded: int = 0
    publish_throttled_us: int = 0
    publish_paced_us: int = 0
    paced_for_us: int = 0

    waiting_start_qos0: int = 0
    waiting_start_qos1: int = 0
    waiting_start_qos2: int = 0

    # Gauges at the end of the interval.
    window_len: int = 0
    window_limit: int = 0
    window_bytes: int = 0
    mqueue_len: int = 0
    mqueue_bytes: int = 0
    awaiting_rel_len: int = 0
    waiting_qos0: int = 0
    waiting_qos1: int = 0
    waiting_qos2: int = 0

    def __init__(self, interval_start: int) -> None:
        self.interval_start = interval_start
        self.drops: dict[str, int] | None = None
        """Counts by column name, `dropped_<reason>_qos<n>`; None until the first drop: most sessions have none."""

    def count_received(self, qos: int, size: int) -> None:
        """Count one PUBLISH accepted from the client, of `size` payload bytes."""
        if qos == 0:
            self.received_qos0 += 1
        elif qos == 1:
            self.received_qos1 += 1
        else:
            self.received_qos2 += 1
        self.received_bytes += size

    def count_offered(self, qos: int) -> None:
        """Count one delivery that the router offered."""
        if qos == 0:
            self.offered_qos0 += 1
        elif qos == 1:
            self.offered_qos1 += 1
        else:
            self.offered_qos2 += 1

    def count_gated(self, closed: int) -> None:
        """Count one QoS 0 delivery that the gate queued, under the first reason that held (FC-3)."""
        if closed == qos0_gate.CONGESTED:
            self.gated_congested += 1
        elif closed == qos0_gate.WINDOW_FULL:
            self.gated_window_full += 1
        elif closed == qos0_gate.MAILBOX_BUSY:
            self.gated_mailbox_busy += 1
        elif closed == qos0_gate.BACKLOG:
            self.gated_backlog += 1
        else:
            self.gated_rate += 1

    def count_sent(self, publish: Publish, now: int) -> None:
        """Count one first transmission, and the time since its message was received."""
        qos = publish.qos
        if qos == 0:
            self.sent_qos0 += 1
            hist = self.wait_qos0_buckets
            if hist is None:
                hist = self.wait_qos0_buckets = Histogram()
        elif qos == 1:
            self.sent_qos1 += 1
            hist = self.wait_qos1_buckets
            if hist is None:
                hist = self.wait_qos1_buckets = Histogram()
        else:
            self.sent_qos2 += 1
            hist = self.wait_qos2_buckets
            if hist is None:
                hist = self.wait_qos2_buckets = Histogram()
        self.sent_bytes += publish.size
        hist.add(now - publish.received_at)

    def count_handed_over(self, qos: int, step: int) -> None:
        """Count one delivery that a group has handed to a member, or with a `step` of -1 taken back (FC-13)."""
        if qos == 0:
            self.sent_qos0 += step
        elif qos == 1:
            self.sent_qos1 += step
        else:
            self.sent_qos2 += step

    def count_drop(self, reason: str, qos: int) -> None:
        """Count one dropped delivery by QoS and reason (FC-5)."""
        if qos == 0:
            self.dropped_qos0 += 1
        elif qos == 1:
            self.dropped_qos1 += 1
        else:
            self.dropped_qos2 += 1
        drops = self.drops
        if drops is None:
            drops = self.drops = {}
        column = f"dropped_{reason}_qos{qos}"
        drops[column] = drops.get(column, 0) + 1

    def count_mailbox(self, length: int, busy: bool) -> None:
        """Count one sample of the mailbox length (FC-3)."""
        self.mailbox_samples += 1
        if busy:
            self.mailbox_busy_samples += 1
        if length > self.mailbox_max:
            self.mailbox_max = length
        hist = self.mailbox_buckets
        if hist is None:
            hist = self.mailbox_buckets = Histogram()
        hist.add(length)

    def count_acknowledged(self, qos: int, sent_at: int, now: int) -> None:
        """Count one delivery that the client has completed, and the time since it was first sent."""
        if qos == 1:
            self.acknowledged_qos1 += 1
            hist = self.ack_qos1_buckets
            if hist is None:
                hist = self.ack_qos1_buckets = Histogram()
        else:
            self.acknowledged_qos2 += 1
            hist = self.ack_qos2_buckets
            if hist is None:
                hist = self.ack_qos2_buckets = Histogram()
        hist.add(now - sent_at)

    def note_window(self, length: int) -> None:
        """Remember the highest window length."""
        if length > self.window_max:
            self.window_max = length

    def note_mqueue(self, length: int, size: int) -> None:
        """Remember the highest mqueue length and payload bytes."""
        if length > self.mqueue_max:
            self.mqueue_max = length
        if size > self.mqueue_bytes_max:
            self.mqueue_bytes_max = size

    def restore_mqueue(self, mqueue: MQueue) -> None:
        """FC-27: count what waited before the process began."""
        self.offered_qos1 += mqueue.waiting_qos1
        self.offered_qos2 += mqueue.waiting_qos2
        self.note_mqueue(mqueue.length, mqueue.bytes)

    def end_interval(
        self, following: "Counters", window: Window, mqueue: MQueue | None, mailbox: list[Publish]
    ) -> None:
        """Fill in the gauges of this interval and the initial values of the `following` one.

        Deliveries in the mailbox were offered in this interval, but a pass counts them as offered when it takes them.
        So this interval counts them, and the following one starts below zero by their number.
        """
        self.window_len = len(window.entries)
        self.window_limit = window.limit
        if mqueue is not None:
            self.mqueue_len = mqueue.length
            self.mqueue_bytes = mqueue.bytes
            self.waiting_qos0 = mqueue.waiting_qos0
            self.waiting_qos1 = mqueue.waiting_qos1
            self.waiting_qos2 = mqueue.waiting_qos2
        for publish in mailbox:
            if publish.qos == 0:
                self.waiting_qos0 += 1
                self.offered_qos0 += 1
                following.offered_qos0 -= 1
            elif publish.qos == 1:
                self.waiting_qos1 += 1
                self.offered_qos1 += 1
                following.offered_qos1 -= 1
            else:
                self.waiting_qos2 += 1
                self.offered_qos2 += 1
                following.offered_qos2 -= 1
        following.waiting_start_qos0 = self.waiting_qos0
        following.waiting_start_qos1 = self.waiting_qos1
        following.waiting_start_qos2 = self.waiting_qos2
        following.window_max = self.window_len
        following.mqueue_max = self.mqueue_len
        following.mqueue_bytes_max = self.mqueue_bytes

    @property
    def dropped_queue_full(self) -> int:
        """Deliveries of any QoS that were dropped on overflow."""
        drops = self.drops
        if drops is None:
            return 0
        return sum([drops.get(f"dropped_queue_full_qos{qos}", 0) for qos in range(3)])

    def quiet(self) -> bool:
        """Whether nothing has happened since the interval began that needs a row."""
        return (
            self.offered_qos0 + self.offered_qos1 + self.offered_qos2 == 0
            and self.received_qos0 + self.received_qos1 + self.received_qos2 == 0
            and self.sent_qos0 + self.sent_qos1 + self.sent_qos2 == 0
            and self.acknowledged_qos1 + self.acknowledged_qos2 == 0
            and self.dropped_qos0 + self.dropped_qos1 + self.dropped_qos2 == 0
            and self.resent_publish + self.resent_pubrel == 0
            and self.awaiting_rel_refused + self.awaiting_rel_expired + self.receive_maximum_exceeded == 0
            and self.publish_refused + self.publish_parked + self.publish_paged + self.publish_discarded == 0
            and self.publish_parked_us == 0
            and self.slow_consumer + self.stalled_window == 0
        )


@final
class Gauges:
    """What a session holds at one moment."""

    def __init__(self, window: Window, mqueue: MQueue | None, mailbox_len: int, congested: bool) -> None:
        self.mailbox_len = mailbox_len
        self.congested = congested
        self.mqueue_len = 0
        self.mqueue_bytes = 0
        self.window_len = len(window.entries)
        self.window_limit = window.limit
        if mqueue is not None:
            self.mqueue_len = mqueue.length
            self.mqueue_bytes = mqueue.bytes


@mypyc_attr(acyclic=True)
@final
class SessionTotals:
    """Totals of a session since it began, or over its finished intervals."""

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged = 0
        self.dropped = 0
        self.window_full_us = 0
        self.paced_for_us = 0

    def add(self, counters: Counters) -> None:
        """Add the counters of one interval."""
        self.sent += counters.sent_qos0 + counters.sent_qos1 + counters.sent_qos2
        self.acknowledged += counters.acknowledged_qos1 + counters.acknowledged_qos2
        self.dropped += counters.dropped_qos0 + counters.dropped_qos1 + counters.dropped_qos2
        self.window_full_us += counters.window_full_us
        self.paced_for_us += counters.paced_for_us

    def include(self, other: "SessionTotals") -> None:
        """Add other totals."""
        self.sent += other.sent
        self.acknowledged += other.acknowledged
        self.dropped += other.dropped
        self.window_full_us += other.window_full_us
        self.paced_for_us += other.paced_for_us
