"""One client's session: its identity, its subscriptions, and both directions of its flow control."""

from typing import final

from mypy_extensions import i64

from protocol.publish import Publish
from protocol.subscribe import Subscription
from session.aliases import Aliases
from session.counters import Counters, Gauges, SessionTotals
from session.holder import is_blocking
from session.host import Host
from session.inbound import Inbound
from session.journal import QueueJournal, ReceivedJournal
from session.limits import Limits
from session.outbound import Outbound
from session.outbox import Outbox, Rewriter
from session.overflow import looks_every
from session.stopwatch import Stopwatch
from session.watch import earlier
from session.window import Restored


@final
class Session:
    """State that outlives a connection if the client wishes so [MQTT-3.1.2-23] (3.1.1: [MQTT-3.1.2-4]).

    `inbound` handles the client's PUBLISHes and PUBRELs. The router offers deliveries to `outbound`, whose passes send
    them. `sender` handles their acknowledgements. What is to be written is in `outbox`. The session acts through its
    `Host`.
    """

    def __init__(self, client_id: str, limits: Limits, host: Host, now: int) -> None:
        # Attributes that each chunk reads come first: with many sessions cache misses matter.
        self.outbound = Outbound(limits, host, now)
        self.sender = self.outbound.sender
        self.outbox: Outbox = self.sender.outbox
        """What the host has to write after each pass, and when it has handled a chunk."""
        self.inbound = Inbound(limits, self.sender)
        self.client_id = client_id
        self.created_at = now
        self.subscriptions: dict[str, Subscription] | None = None
        """By topic filter; None until the first."""
        self.version = 4
        self.flow: i64 = 0
        """FC-33: whose its client's PUBLISHes are, for queues that are fair between flows; 0 = none is."""
        self.listener = ""
        self.refused_until = 0
        """The time until which refused PUBLISHes and SUBSCRIBEs belong to an episode that is already logged."""
        # Made when they are needed: a connection that does nothing is small.
        self._reading_paused_time: Stopwatch | None = None
        self._throttled_time: Stopwatch | None = None
        """None until the client first exceeds `producer_max_rate` (FC-23)."""
        self._past: SessionTotals | None = None  # the totals of the finished intervals

    # -- connecting

    def keep(self, queue: QueueJournal | None, received: ReceivedJournal | None) -> None:
        """FC-27: write what comes from now on to the journal, so that it survives the process; None = no longer."""
        self.outbound.journal = queue
        self.inbound.journal = received

    def restore(self, queue: QueueJournal, inflight: list[Restored], packet_ids: list[int], now: int) -> None:
        """FC-27: take over what the journal has: the queue, the window, the client's ids that wait for PUBREL."""
        outbound = self.outbound
        outbound.sender.restore(inflight, now)
        outbound.begin_backlog().restore(queue, now)
        _watch_age(self.outbound, now)
        self.inbound.restore(packet_ids, now)

    def connect(  # noqa: PLR0913, PLR0917 - what CONNECT says of a client, or CONNACK of a server
        self,
        host: Host,
        version: int,
        receive_maximum: int,
        maximum_packet_size: int,
        now: int,
        topic_alias_maximum: int = 0,
        problem_information: bool = True,
        rewriter: Rewriter | None = None,
        maximum_qos: int = 2,
    ) -> None:
        """Attach a client; the outbox then holds what must be sent at once (FC-8).

        `receive_maximum`, `maximum_packet_size` and `topic_alias_maximum` are the client's, 0 where it stated none.
        `rewriter`: what changes PUBLISHes on their way to it; None = nothing does. `maximum_qos`: a server's.
        """
        self.version = version
        self.inbound.connect(problem_information)
        outbox = self.outbox = Outbox()
        outbox.version = version
        outbox.maximum_packet_size = maximum_packet_size
        outbox.rewriter = rewriter
        outbox.maximum_qos = maximum_qos
        aliases = min(topic_alias_maximum, self.limits.max_topic_alias_out)
        if aliases:
            outbox.aliases = Aliases(aliases)  # [MQTT-3.1.2-26, -27]
        self.outbound.connect(host, outbox, self.limits.window(receive_maximum), now)
        _watch_age(self.outbound, now)

    def disconnect(self, host: Host, now: int) -> None:
        """Detach the client; `host` replaces its connection."""
        self.note_reading_paused(False, now)
        self.throttle(False, now)
        self.inbound.disconnect()
        self.outbound.disconnect(host, now)

    def end(self, now: int) -> None:
        """End the session: what waits is dropped and counted; groups take back unacknowledged QoS 1 (FC-13)."""
        self.outbound.end(now)

    @property
    def limits(self) -> Limits:
        """Those of its configuration."""
        return self.sender.limits

    @property
    def connected(self) -> bool:
        """Whether its client is connected."""
        return self.sender.connected

    def store_offline(self, now: int) -> None:
        """FC-7: move what was offered while the client is offline into the mqueue."""
        self.outbound.store_offline(now)

    # -- from the client

    def note_reading_paused(self, on: bool, now: int) -> None:
        """Reading the client is paused, for whatever reason, or no longer."""
        time = self._reading_paused_time
        if time is None:
            if not on:
                return
            time = self._reading_paused_time = Stopwatch()
        time.run(on, now)

    def throttle(self, on: bool, now: int) -> None:
        """FC-23: reading the client is paused because of its rate, or no longer."""
        time = self._throttled_time
        if time is None:
            if not on:
                return
            time = self._throttled_time = Stopwatch()
        time.run(on, now)

    # -- to the client

    def reply(self, packet: bytes) -> bool:
        """Send a control packet; False if it exceeds the client's Maximum Packet Size [MQTT-3.1.2-24]."""
        outbox = self.outbox
        if not outbox.fits(packet):
            return False
        outbox.add_packet(packet)
        return True

    def set_congested(self, congested: bool, now: int) -> None:
        """The transport buffer has passed a water mark. At the low one, wake the host: its pass drains the mqueue."""
        self.sender.set_congested(congested, now)

    def unacknowledged_bytes(self) -> int:
        """Bytes of unacknowledged deliveries, which may be undrained."""
        return self.sender.unacknowledged_bytes()

    def wake(self) -> None:
        """Have the host write what is in the outbox."""
        self.sender.host.wake()

    def close(self, reason_code: int, reason: str) -> None:
        """Have the host close the client's connection, if there is one."""
        self.sender.host.close(reason_code, reason)

    # -- time

    @property
    def timer_at(self) -> int:
        """When the host will call `on_timer`; 0 = never."""
        return self.sender.timer_at

    def on_timer(self, now: int) -> None:
        """Resend and forget what is due (FC-8, FC-22). The caller then writes the outbox if a client is connected."""
        sender = self.sender
        if not sender.timer_at or now < sender.timer_at:
            return  # the session has ended, or an earlier call has replaced this one
        sender.timer_at = 0
        self.inbound.on_timer(now)
        outbound = self.outbound
        mqueue = outbound.mqueue
        publisher = outbound.publisher
        at = sender.retry(now)
        if outbound.backlog is not None:
            at = earlier(at, outbound.backlog.drop_aged(now))
        at = earlier(at, sender.check(mqueue.length if mqueue is not None else 0, now))
        if publisher is not None:
            at = earlier(at, publisher.check(now))
        at = earlier(at, self.inbound.deadline())
        if at:
            sender.arm(at)

    # -- counters

    @property
    def counters(self) -> Counters:
        """The counters of the current interval."""
        return self.sender.counters

    def active(self) -> bool:
        """Whether the interval has something to report: events, mailbox, full window or congestion."""
        sender = self.sender
        return (
            not sender.counters.quiet()
            or self.outbound.mailbox.length() > 0
            or sender.window.is_timed()
            or sender.congested
        )

    def take_counters(self, now: int, interval_end: int = 0) -> Counters:
        """The counters of the interval that ends now; a new one begins. `interval_end`: nominal end, if not `now`."""
        outbound = self.outbound
        sender = self.sender
        counters = sender.counters
        following = sender.counters = Counters(interval_end or now)
        following.away = counters.away
        following.drop_log = counters.drop_log
        counters.end_interval(following, sender.window, outbound.mqueue, outbound.mailbox.waiting())
        sender.end_interval(counters, now, following.interval_start)
        uncommon = counters.begin_uncommon()
        if sender.pacing is not None:
            uncommon.paced_for_us = sender.pacing.patience.used_time.take(now)
        if outbound.publisher is not None:
            uncommon.publish_paced_us = outbound.publisher.patience.used_time.take(now)
        if self._reading_paused_time is not None:
            uncommon.reading_paused_us = self._reading_paused_time.take(now)
        uncommon.awaiting_rel_len = self.inbound.awaiting_rel_len
        uncommon.max_inflight = sender.limits.window(0)
        if self._throttled_time is not None:
            uncommon.publish_throttled_us = self._throttled_time.take(now)
        if self._past is None:
            self._past = SessionTotals()
        self._past.add(counters)
        return counters

    def gauges(self) -> Gauges:
        """What it holds now."""
        sender = self.sender
        return Gauges(sender.window, self.outbound.mqueue, self.outbound.mailbox.length(), sender.congested)

    def totals(self, now: int) -> SessionTotals:
        """The totals since the session began; no counter is reset."""
        totals = SessionTotals()
        totals.add(self.sender.counters)
        full_time = self.sender.window.full_time
        if full_time is not None:
            totals.window_full_us = full_time.so_far(now)
        pacing = self.sender.pacing
        if pacing is not None:
            totals.paced_for_us = pacing.patience.used_time.so_far(now)
        if self._past is not None:
            totals.include(self._past)
        return totals

    def paces_publishers(self) -> bool:
        """FC-16: whether publishers are paced until the client has taken some of what waits for it."""
        return self.outbound.paces()

    def blocks_others(self) -> bool:
        """Whether PUBLISHes wait for its queue (FC-34), or for an address of which it holds deliveries (FC-25)."""
        mqueue = self.outbound.mqueue
        backlog = self.outbound.backlog
        return (
            (backlog is not None and backlog.is_waited_for())
            or any(is_blocking(inflight.publish) for inflight in self.sender.window.entries.values())
            or (mqueue is not None and mqueue.is_blocking())
            or any(is_blocking(publish) for publish in self.outbound.mailbox.waiting())
        )


def use_limits(session: Session, limits: Limits) -> None:
    """FC-31, FC-39: those of its user and listener, at once.

    Window, byte window and rate are of its next connection.
    """
    sender = session.sender
    sender.limits = limits
    if sender.watch is not None:
        sender.watch.limits = limits
    session.inbound.use_limits(limits)


def tell_refused(session: Session, packet_id: int) -> Publish | None:
    """FC-35: tell that the client has refused a delivery, which is lost for it; returns it. `acknowledge` follows."""
    inflight = session.sender.window.entries.get(packet_id)
    if inflight is None:
        return None
    session.counters.tell_lost("refused", inflight.publish)
    return inflight.publish


def _watch_age(outbound: Outbound, now: int) -> None:
    """FC-36: something may wait that nobody looks at."""
    backlog, age = outbound.backlog, outbound.sender.limits.max_mqueue_age
    if backlog is not None and backlog.queued() and age:
        outbound.sender.arm(now + looks_every(age))
