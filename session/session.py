"""One client's session: its identity, its subscriptions, and both directions of its flow control."""

from typing import final

from protocol import packet_types, reason_codes
from protocol.subscribe import Subscription
from session.aliases import Aliases
from session.counters import Counters, Gauges, SessionTotals
from session.holder import is_blocking
from session.host import Host
from session.inbound import Inbound
from session.journal import SessionJournal
from session.limits import Limits
from session.outbound import Outbound
from session.outbox import PUBREL_HEAD, Outbox
from session.priority_mqueue import new_mqueue
from session.stopwatch import Stopwatch
from session.watch import earlier
from session.window import DONE, UNEXPECTED, Restored


@final
class Session:
    """State that outlives a connection if the client wishes so [MQTT-3.1.2-23] (3.1.1: [MQTT-3.1.2-4]).

    `inbound` handles the client's PUBLISHes. The router offers deliveries to `outbound`, whose passes send them. All
    other packets go through this class. What is to be written is in `outbox`. The session acts through its `Host`.
    """

    def __init__(self, client_id: str, limits: Limits, host: Host, now: int) -> None:
        self.client_id = client_id
        self.created_at = now
        self.limits = limits
        self.outbound = Outbound(limits, host, now)
        self.outbox: Outbox = self.outbound.sender.outbox
        """What the host has to write after each pass, and when it has handled a chunk."""
        self.inbound = Inbound(limits, self.outbound.sender)
        self.subscriptions: dict[str, Subscription] | None = None
        """By topic filter; None until the first."""
        self.version = 4
        self.listener = ""
        self.refused_until = 0
        """The time until which refused PUBLISHes belong to an episode that is already logged."""
        self.reading_paused_time = Stopwatch()
        self._throttled_time: Stopwatch | None = None
        """None until the client first exceeds `producer_max_rate` (FC-23)."""
        self._past: SessionTotals | None = None  # the totals of the finished intervals

    # -- connecting

    def keep(self, journal: SessionJournal | None) -> None:
        """FC-27: write what comes from now on to the journal, so that it survives the process; None = no longer."""
        self.outbound.journal = journal
        self.inbound.journal = journal

    def restore(self, journal: SessionJournal, inflight: list[Restored], packet_ids: list[int], now: int) -> None:
        """FC-27: keep what the journal has, deliveries of the window, and the client's ids that wait for PUBREL."""
        outbound = self.outbound
        outbound.sender.restore(inflight, now)
        mqueue = new_mqueue(self.limits)
        mqueue.restore(journal, outbound.wake)
        if mqueue.length:
            outbound.mqueue = mqueue
            outbound.sender.counters.restore_mqueue(mqueue)
        self.inbound.restore(packet_ids, now)
        self.keep(journal)

    def connect(
        self,
        host: Host,
        version: int,
        receive_maximum: int,
        maximum_packet_size: int,
        now: int,
        topic_alias_maximum: int = 0,
        problem_information: bool = True,
    ) -> None:
        """Attach a client; the outbox then holds what must be sent at once (FC-8).

        `receive_maximum`, `maximum_packet_size` and `topic_alias_maximum` are the client's, 0 where it stated none.
        """
        self.version = version
        self.inbound.connect(problem_information)
        outbox = self.outbox = Outbox()
        outbox.version = version
        outbox.maximum_packet_size = maximum_packet_size
        aliases = min(topic_alias_maximum, self.limits.max_topic_alias_out)
        if aliases:
            outbox.aliases = Aliases(aliases)  # [MQTT-3.1.2-26, -27]
        self.outbound.connect(host, outbox, self.limits.window(receive_maximum), now)

    def disconnect(self, host: Host, now: int) -> None:
        """Detach the client; `host` replaces its connection."""
        self.reading_paused_time.stop(now)
        self.throttle(False, now)
        self.inbound.disconnect()
        self.outbound.disconnect(host, now)

    def end(self, now: int) -> None:
        """End the session: what waits is dropped and counted; groups take back unacknowledged QoS 1 (FC-13)."""
        self.outbound.end(now)

    @property
    def connected(self) -> bool:
        """Whether its client is connected."""
        return self.outbound.sender.connected

    def store_offline(self, now: int) -> None:
        """FC-7: move what was offered while the client is offline into the mqueue."""
        self.outbound.store_offline(now)

    # -- from the client

    def acknowledge(self, packet_type: int, packet_id: int, reason_code: int, now: int) -> None:
        """A PUBACK, PUBREC or PUBCOMP was received. Send PUBREL for an unknown PUBREC, so that it completes (FC-21).

        The caller calls `drain` when it has handled the chunk that it is reading.
        """
        phase = self.outbound.sender.acknowledge(packet_type, packet_id, reason_code >= 0x80, now)
        if phase == DONE:
            pacing = self.outbound.pacing
            if pacing is not None:
                pacing.moved_at = now
        elif phase == UNEXPECTED and packet_type == packet_types.PUBREC and reason_code < 0x80:
            if self.version == 5:
                self.outbox.add_code(PUBREL_HEAD, packet_id, reason_codes.PACKET_IDENTIFIER_NOT_FOUND)
            else:
                self.outbox.add_acknowledgement(PUBREL_HEAD, packet_id)

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
        outbox.add_control(packet)
        return True

    def set_congested(self, congested: bool, now: int) -> None:
        """The transport buffer has passed a water mark. At the low one, wake the host: its pass drains the mqueue."""
        self.outbound.sender.set_congested(congested, now)

    def unacknowledged_bytes(self) -> int:
        """Bytes of unacknowledged deliveries, which may be undrained."""
        return self.outbound.sender.unacknowledged_bytes()

    def wake(self) -> None:
        """Have the host write what is in the outbox."""
        self.outbound.sender.host.wake()

    def close(self, reason_code: int, reason: str) -> None:
        """Have the host close the client's connection, if there is one."""
        self.outbound.sender.host.disconnect(reason_code, reason)

    # -- time

    @property
    def timer_at(self) -> int:
        """When the host will call `on_timer`; 0 = never."""
        return self.outbound.sender.timer_at

    def on_timer(self, now: int) -> None:
        """Resend and forget what is due (FC-8, FC-22). The caller then writes the outbox if a client is connected."""
        sender = self.outbound.sender
        if not sender.timer_at or now < sender.timer_at:
            return  # the session has ended, or an earlier call has replaced this one
        sender.timer_at = 0
        self.inbound.on_timer(now)
        outbound = self.outbound
        mqueue = outbound.mqueue
        publisher = outbound.publisher
        at = sender.retry(now)
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
        return self.outbound.sender.counters

    def active(self) -> bool:
        """Whether the interval has something to report: events, mailbox, full window or congestion."""
        sender = self.outbound.sender
        return (
            not sender.counters.quiet()
            or self.outbound.mailbox.length() > 0
            or sender.window.full_time.running
            or sender.congested
        )

    def take_counters(self, now: int, interval_end: int = 0) -> Counters:
        """The counters of the interval that ends now; a new one begins. `interval_end`: nominal end, if not `now`."""
        outbound = self.outbound
        sender = self.outbound.sender
        counters = sender.counters
        following = sender.counters = Counters(interval_end or now)
        counters.end_interval(following, sender.window, outbound.mqueue, outbound.mailbox.waiting())
        sender.end_interval(counters, now)
        if outbound.pacing is not None:
            counters.paced_for_us = outbound.pacing.patience.used_time.take(now)
        if outbound.publisher is not None:
            counters.publish_paced_us = outbound.publisher.patience.used_time.take(now)
        counters.reading_paused_us = self.reading_paused_time.take(now)
        counters.awaiting_rel_len = self.inbound.awaiting_rel_len
        if self._throttled_time is not None:
            counters.publish_throttled_us = self._throttled_time.take(now)
        if self._past is None:
            self._past = SessionTotals()
        self._past.add(counters)
        return counters

    def gauges(self) -> Gauges:
        """What it holds now."""
        sender = self.outbound.sender
        return Gauges(sender.window, self.outbound.mqueue, self.outbound.mailbox.length(), sender.congested)

    def totals(self, now: int) -> SessionTotals:
        """The totals since the session began; no counter is reset."""
        totals = SessionTotals()
        totals.add(self.outbound.sender.counters)
        totals.window_full_us = self.outbound.sender.window.full_time.so_far(now)
        pacing = self.outbound.pacing
        if pacing is not None:
            totals.paced_for_us = pacing.patience.used_time.so_far(now)
        if self._past is not None:
            totals.include(self._past)
        return totals

    def paces_publishers(self) -> bool:
        """FC-16: whether publishers are paced until the client has taken some of what waits for it."""
        return self.outbound.paced

    def blocks_others(self) -> bool:
        """FC-25: whether it holds deliveries of an address in which PUBLISHes wait for room."""
        mqueue = self.outbound.mqueue
        return (
            any(is_blocking(inflight.publish) for inflight in self.outbound.sender.window.entries.values())
            or (mqueue is not None and mqueue.is_blocking())
            or any(is_blocking(publish) for publish in self.outbound.mailbox.waiting())
        )
