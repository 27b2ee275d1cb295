"""The counters of one session in one metrics interval ("Where to see it" in FLOW-CONTROL.md).

The attributes are named as the columns of the exported files. At the end of an interval a new object replaces the old
one, so the hot path only adds to integers.
"""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from protocol.publish import Publish
from session.drops import DropLog
from session.histogram import Histogram
from session.mqueue import MQueue
from session.uncommon_counts import NOTHING, UncommonCounts
from session.window import Window

DROP_REASONS: Final = ("queue_full", "expired", "offline_qos0", "session_ended", "too_large", "not_permitted", "aged")

_DROP_COLUMNS: Final = {reason: [f"dropped_{reason}_qos{qos}" for qos in range(3)] for reason in DROP_REASONS}


@mypyc_attr(acyclic=True)
@final
class Counters:
    """One session's counts since `interval_start` (microseconds of the monotonic clock)."""

    # Attributes that each message updates come first, so that they share few cache lines.
    received_qos0: i64 = 0
    received_bytes: i64 = 0
    offered_qos0: i64 = 0
    sent_qos0: i64 = 0
    sent_bytes: i64 = 0
    mailbox_max: i64 = 0
    mailbox_samples: i64 = 0
    mailbox_busy_samples: i64 = 0
    wait_qos0_buckets: Histogram | None = None
    received_qos1: i64 = 0
    offered_qos1: i64 = 0
    sent_qos1: i64 = 0
    acknowledged_qos1: i64 = 0
    wait_qos1_buckets: Histogram | None = None
    ack_qos1_buckets: Histogram | None = None
    received_qos2: i64 = 0
    offered_qos2: i64 = 0
    sent_qos2: i64 = 0
    acknowledged_qos2: i64 = 0
    wait_qos2_buckets: Histogram | None = None
    ack_qos2_buckets: Histogram | None = None
    mailbox_buckets: Histogram | None = None
    """Without the samples of an empty mailbox until the interval ends."""
    interval_start: i64 = 0

    mqueue_max: i64 = 0
    mqueue_bytes_max: i64 = 0

    def __init__(self, interval_start: int) -> None:
        self.interval_start = interval_start
        self.uncommon = NOTHING
        """To be read; `begin_uncommon` returns what may be changed."""
        self.drops: dict[str, int] | None = None
        """Counts by column name, `dropped_<reason>_qos<n>`; None until the first drop: most sessions have none."""
        self.drops_away: dict[str, int] | None = None
        """Those of `drops` that happened while no client was connected."""
        self.away = False
        """Whether the session waits for its client; a group never does."""
        self.drop_log: DropLog | None = None
        """FC-35; None = nobody is told of drops."""

    def begin_uncommon(self) -> UncommonCounts:
        """The uncommon counts, to be changed."""
        uncommon = self.uncommon
        if uncommon is NOTHING:
            uncommon = self.uncommon = UncommonCounts()
        return uncommon

    def column(self, name: str) -> int:
        """A column of the exported files, by its name."""
        return int(getattr(self if hasattr(self, name) else self.uncommon, name))

    def count_offered(self, qos: i64) -> None:
        """Count one delivery that the router offered."""
        if qos == 0:
            self.offered_qos0 += 1
        elif qos == 1:
            self.offered_qos1 += 1
        else:
            self.offered_qos2 += 1

    def count_sent(self, publish: Publish, now: i64) -> None:
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
        waited: i64 = now - publish.received_at
        if hist.low <= waited < hist.high:
            hist.run += 1
        else:
            hist.start_run(waited)

    def count_handed_over(self, qos: i64, step: i64) -> None:
        """Count one delivery that a group has handed to a member, or with a `step` of -1 taken back (FC-13)."""
        if qos == 0:
            self.sent_qos0 += step
        elif qos == 1:
            self.sent_qos1 += step
        else:
            self.sent_qos2 += step

    def count_drop(self, reason: str, publish: Publish) -> None:
        """Count one dropped delivery by QoS and reason (FC-5), and tell of it (FC-35)."""
        qos = publish.qos
        uncommon = self.begin_uncommon()
        if qos == 0:
            uncommon.dropped_qos0 += 1
        elif qos == 1:
            uncommon.dropped_qos1 += 1
        else:
            uncommon.dropped_qos2 += 1
        drops = self.drops
        if drops is None:
            drops = self.drops = {}
        column = _DROP_COLUMNS[reason][qos]
        drops[column] = drops.get(column, 0) + 1
        if self.away:
            away = self.drops_away
            if away is None:
                away = self.drops_away = {}
            away[column] = away.get(column, 0) + 1
        if self.drop_log is not None:
            self.drop_log.tell(reason, publish)

    def tell_lost(self, reason: str, publish: Publish) -> None:
        """FC-35: tell of a delivery that was sent, and is given up without an acknowledgement: it counts as sent."""
        if self.drop_log is not None:
            self.drop_log.tell(reason, publish)

    def count_superseded(self, qos: i64) -> None:
        """Count one delivery whose place a newer one of its topic has taken (FC-37)."""
        uncommon = self.begin_uncommon()
        if qos == 0:
            uncommon.superseded_qos0 += 1
        elif qos == 1:
            uncommon.superseded_qos1 += 1
        else:
            uncommon.superseded_qos2 += 1

    def count_acknowledged(self, qos: i64, sent_at: i64, now: i64) -> None:
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
        took: i64 = now - sent_at
        if hist.low <= took < hist.high:
            hist.run += 1
        else:
            hist.start_run(took)

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
        self, following: "Counters", window: Window | None, mqueue: MQueue | None, mailbox: list[Publish]
    ) -> None:
        """Fill in the gauges of this interval and the initial values of the `following` one.

        `window`: None of a group.

        Deliveries in the mailbox were offered in this interval, but a pass counts them as offered when it takes them.
        So this interval counts them, and the following one starts below zero by their number.
        """
        if self.mailbox_samples:
            if self.mailbox_buckets is None:
                self.mailbox_buckets = Histogram()
            self.mailbox_buckets.fill(self.mailbox_samples)
        gauges = self.begin_uncommon()
        if window is not None:
            gauges.window_len = len(window.entries)
            gauges.window_limit = window.limit
            gauges.window_max = window.most
            window.most = gauges.window_len
        if mqueue is not None:
            gauges.mqueue_len = mqueue.length
            gauges.mqueue_bytes = mqueue.bytes
            gauges.waiting_qos0 = mqueue.waiting_qos0
            gauges.waiting_qos1 = mqueue.waiting_qos1
            gauges.waiting_qos2 = mqueue.waiting_qos2
        for publish in mailbox:
            if publish.qos == 0:
                gauges.waiting_qos0 += 1
                self.offered_qos0 += 1
                following.offered_qos0 -= 1
            elif publish.qos == 1:
                gauges.waiting_qos1 += 1
                self.offered_qos1 += 1
                following.offered_qos1 -= 1
            else:
                gauges.waiting_qos2 += 1
                self.offered_qos2 += 1
                following.offered_qos2 -= 1
        if gauges.waiting_qos0 + gauges.waiting_qos1 + gauges.waiting_qos2:
            next_gauges = following.begin_uncommon()
            next_gauges.waiting_start_qos0 = gauges.waiting_qos0
            next_gauges.waiting_start_qos1 = gauges.waiting_qos1
            next_gauges.waiting_start_qos2 = gauges.waiting_qos2
        following.mqueue_max = gauges.mqueue_len
        following.mqueue_bytes_max = gauges.mqueue_bytes

    def offer_again(self) -> None:
        """FC-13: if members have returned more than they were handed in this interval, the rest counts as offered."""
        if self.sent_qos0 < 0:
            self.offered_qos0 -= self.sent_qos0
            self.sent_qos0 = 0
        if self.sent_qos1 < 0:
            self.offered_qos1 -= self.sent_qos1
            self.sent_qos1 = 0
        if self.sent_qos2 < 0:
            self.offered_qos2 -= self.sent_qos2
            self.sent_qos2 = 0

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
            and self.uncommon.quiet()
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
        self.received = 0
        self.received_bytes = 0
        self.offered = 0
        self.sent = 0
        self.acknowledged = 0
        self.dropped = 0
        self.overflowed = 0
        """Those of `dropped` for which a queue was full."""
        self.superseded = 0
        self.window_full_us = 0
        self.paced_for_us = 0

    def add(self, counters: Counters) -> None:
        """Add the counters of one interval."""
        self.received += counters.received_qos0 + counters.received_qos1 + counters.received_qos2
        self.received_bytes += counters.received_bytes
        self.offered += counters.offered_qos0 + counters.offered_qos1 + counters.offered_qos2
        self.sent += counters.sent_qos0 + counters.sent_qos1 + counters.sent_qos2
        self.acknowledged += counters.acknowledged_qos1 + counters.acknowledged_qos2
        self.dropped += counters.uncommon.dropped()
        self.overflowed += counters.dropped_queue_full
        self.superseded += counters.uncommon.superseded()
        self.window_full_us += counters.uncommon.window_full_us
        self.paced_for_us += counters.uncommon.paced_for_us

    def include(self, other: "SessionTotals") -> None:
        """Add other totals."""
        self.received += other.received
        self.received_bytes += other.received_bytes
        self.offered += other.offered
        self.sent += other.sent
        self.acknowledged += other.acknowledged
        self.dropped += other.dropped
        self.overflowed += other.overflowed
        self.superseded += other.superseded
        self.window_full_us += other.window_full_us
        self.paced_for_us += other.paced_for_us
