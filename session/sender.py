"""Sending to one client: window, outbox, throttle, watch (FC-1, FC-10, FC-11, FC-14)."""

from typing import Final, cast, final

from mypy_extensions import i64

from protocol import packet_types, reason_codes
from protocol.publish import Publish
from session import qos0_gate
from session.counters import Counters
from session.holder import Holder
from session.host import Host, NoHost
from session.limits import Limits
from session.mailbox import Mailbox
from session.outbox import PUBREL_HEAD, Outbox
from session.pacing import Pacing
from session.packet_ids import KEYS
from session.resending import KeptWindow, resend_overdue
from session.source import Source
from session.stopwatch import Stopwatch
from session.throttle import new_throttle
from session.watch import SLOW, STALLED, Watch
from session.window import DONE, NEXT_PHASE, UNEXPECTED, WAIT_PUBCOMP, Inflight, Restored, Window, wrong_kind

PASS_BYTES: Final = 262_144
"""A pass ends when its outbox holds this many bytes, so that congestion is noticed before more is sent. As much as the
event loop reads at once, about: fewer and larger writes cost the kernel less."""

DRAIN_BYTES: Final = 65_536
"""The same for a client that is behind: little is to be under way to it when its send path is congested again."""


@final
class Sender:
    """Sends deliveries, and tracks them until they are acknowledged. `Outbound` decides which is next."""

    def __init__(self, limits: Limits, host: Host, mailbox: Mailbox, now: int) -> None:
        # Attributes that each delivery reads are adjacent: with many sessions cache misses matter.
        self.limits = limits
        self.host = host
        self.connected = False
        self.congested = False
        """Whether the transport buffer is above its high-water mark, until it is below the low one."""
        self._sets_retry = False  # whether the next delivery sets a timer for `retry`
        self.resends_singly = False
        """FC-8: whether the next connection gets the kept window one by one, after `KeptWindow.release`."""
        self.counters = Counters(now)
        self.counters.away = True
        self.outbox = Outbox()
        self.window = Window()
        self.throttle = new_throttle(limits, now)
        self._mailbox = mailbox
        # Attributes that each delivery reads end here.
        self.watch: Watch | None = None
        """FC-14: None until the first backlog or full window."""
        self.pacing: Pacing | None = None
        """FC-16, as a receiver; None until the mqueue first overflows."""
        self.kept: KeptWindow | None = None
        """The part of the kept window that is still to be resent; None = nothing."""
        self.sources: dict[int, Source] | None = None
        """The sources of unacknowledged deliveries, by packet id; None until a source delivers."""
        self.timer_at = 0
        """When the host will call `Session.on_timer`; 0 = never."""
        self.timers_set: i64 = 0
        """How often `arm` has asked the host: the last time counts, and two may be for the same moment."""
        self.congested_time: Stopwatch | None = None
        """None until the send path is first congested."""
        # Microseconds that a client was connected and no row has yet. While one is connected, the clock's time has to
        # be added. A number takes less memory than a stopwatch: every idle connection has it.
        self._connected_us = 0

    def may_send(self, publish: Publish, now: int) -> bool:
        """Whether window, send path and throttle allow a delivery."""
        if not self.connected or self.kept is not None:
            return False  # FC-8: the kept window is resent before anything new
        if publish.qos == 0:  # FC-4: it needs the send path, and no slot
            if self.congested and self.limits.gate:
                return False
        elif self.window.full:
            return False
        return self.limited_by(publish, now) == qos0_gate.OPEN

    def has_slot(self) -> bool:
        """Whether the window takes a new delivery: it is not full, and what it has kept is resent (FC-8)."""
        return not self.window.full and self.kept is None

    def is_open(self) -> bool:
        """Whether window and send path allow a delivery of any QoS."""
        return self.connected and not self.congested and self.has_slot()

    def has_room(self) -> bool:
        """Whether the pass may write more of what has waited."""
        return self.outbox.delivery_bytes < DRAIN_BYTES

    def send(self, publish: Publish, now: int) -> int:
        """Put a delivery into the outbox, and into the window if its QoS is 1 or 2.

        Returns its packet id; 0 = QoS 0, or not sent because it has expired or is too large.
        """
        counters = self.counters
        packet_id = 0
        if publish.expires_at and now >= publish.expires_at:
            counters.count_drop("expired", publish)  # [MQTT-3.3.2-5]
            return 0
        if self.outbox.maximum_packet_size and self.outbox.too_large(publish):
            counters.count_drop("too_large", publish)  # [MQTT-3.1.2-24]
            return 0
        most = i64(self.outbox.maximum_qos)
        if publish.qos > most:
            publish = publish.at(most, publish.retain)
        if publish.qos == 0:
            self.outbox.add_publish(publish, 0, now)
        else:
            window = self.window
            packet_id = window.add(publish, now)
            self.outbox.add_publish(publish, packet_id, now)
            if publish.holder is not None:
                self.outbox.wait_for(cast("Holder", publish.holder).sent(packet_id, publish.qos))
            if self._sets_retry:
                self._set_retry(now)
            if window.full:
                self.watch_window(now)
        if self.throttle is not None:
            self.throttle.sent(publish, now)
        counters.count_sent(publish, now)
        mailbox = self._mailbox
        mailbox.sends_to_sample -= 1
        if mailbox.sends_to_sample <= 0:
            mailbox.sample(counters)
        return packet_id

    def note_source(self, packet_id: int, source: Source) -> None:
        """FC-13: a delivery of the window has been pulled; `source` may get it back."""
        if self.sources is None:
            self.sources = {}
        self.sources[packet_id] = source

    def limited_by(self, publish: Publish, now: int) -> int:
        """FC-10, FC-11: why a delivery must wait although window and gate allow it, as a reason of the gate."""
        throttle = self.throttle
        if throttle is None:
            return qos0_gate.OPEN
        closed = throttle.closed_by(publish, now)
        if closed == qos0_gate.RATE:
            self.arm(throttle.next_at(now))
        return closed

    def set_congested(self, congested: bool, now: int) -> None:
        """The transport buffer has passed its high-water mark, or is below the low one."""
        self.congested = congested
        time = self.congested_time
        if time is None:
            if not congested:
                return
            time = self.congested_time = Stopwatch()
        time.run(congested, now)

    def unacknowledged_bytes(self) -> int:
        """Bytes of unacknowledged deliveries, which may be undrained."""
        size = 0
        for inflight in self.window.entries.values():
            if inflight.phase != WAIT_PUBCOMP:
                size += self.outbox.packet_size(inflight.publish)
        return size

    # -- acknowledgements (FC-1, FC-21)

    def acknowledge(self, packet_type: int, packet_id: int, reason_code: int, now: int) -> None:
        """A PUBACK, PUBREC or PUBCOMP was received. Raises ProtocolError if the delivery waits for another packet.

        The caller calls `drain` when it has handled the chunk that it is reading.
        """
        window = self.window
        inflight = window.entries.get(KEYS[packet_id])
        if inflight is None:
            if packet_type == packet_types.PUBREC and reason_code < reason_codes.UNSPECIFIED_ERROR:
                self.outbox.add_unknown(PUBREL_HEAD, packet_id)  # so that the exchange completes
            return
        phase: int = NEXT_PHASE[inflight.phase << 4 | packet_type]
        if phase == WAIT_PUBCOMP and reason_code >= reason_codes.UNSPECIFIED_ERROR:
            phase = DONE  # FC-1: a PUBREC that refuses frees the slot [MQTT-4.3.3-4]
        if phase == DONE:
            window.remove(packet_id, inflight, now)
            if self.kept is not None:
                self.kept.forget(packet_id)
            if self.throttle is not None or self.sources is not None:
                self.completed(packet_id, inflight, now)
            if self.watch is not None:
                self.watch.note_acknowledged(True, now)
            if self.pacing is not None:
                self.pacing.note_drained(now)
            self.counters.count_acknowledged(inflight.publish.qos, inflight.sent_at, now)
        elif phase == UNEXPECTED:
            raise wrong_kind(packet_type, packet_id, inflight)  # packets before it in the chunk stay handled
        else:
            inflight.phase = phase
            inflight.last_sent_at = now
            if self.watch is not None:
                self.watch.note_acknowledged(False, now)
            self.outbox.add_acknowledgement(PUBREL_HEAD, packet_id)
            if inflight.publish.holder is not None:
                self.outbox.wait_for(cast("Holder", inflight.publish.holder).received())

    def completed(self, packet_id: int, inflight: Inflight, now: int) -> None:
        """A delivery has left the window: no limit counts it any more, and its source does not get it back."""
        if self.throttle is not None:
            self.throttle.completed(inflight.publish)
        if self.sources:
            source = self.sources.pop(packet_id, None)
            if source is not None and source.listens:
                source.completed(inflight.publish, packet_id, now)

    # -- resending (FC-8)

    def retry(self, now: int) -> int:
        """While connected, 3.1.1 only: resend what is `retry_interval` old. Returns when to call again, 0 = never."""
        interval = self.limits.retry_interval
        window = self.window
        if self.outbox.version != 4 or not interval or not self.connected:
            return 0
        if not window.entries:
            self._sets_retry = True
            return 0
        if self.congested:
            return now + interval  # the PUBLISHes may still be in the send path: do not add copies
        return resend_overdue(window, self.kept, self.outbox, self.counters, interval, now)

    def _set_retry(self, now: int) -> None:
        """The window is no longer empty: have `retry` called."""
        self._sets_retry = False
        self.arm(now + self.limits.retry_interval)

    # -- timers, slow consumers and stalled windows (FC-14)

    def arm(self, at: int) -> None:
        """Have the host call `Session.on_timer` at about `at`, unless it will call earlier."""
        if not self.timer_at or at < self.timer_at:
            self.timer_at = at
            self.timers_set += 1
            self.host.arm(at)

    def watch_backlog(self, now: int) -> None:
        """The mqueue has got its first delivery."""
        if self.limits.slow_threshold and self.connected:
            self.arm(self._watching().begin_backlog(now))

    def watch_window(self, now: int) -> None:
        """The window has filled up."""
        if self.limits.stalled_window:
            self._watching().moved_at = now
            self.arm(now + self.limits.stalled_window)

    def _watching(self) -> Watch:
        watch = self.watch
        if watch is None:
            watch = self.watch = Watch(self.limits)
        return watch

    def check(self, waiting: int, now: int) -> int:
        """Report a slow consumer or stalled window; `waiting`: mqueue length. Returns when to call again, 0 = never."""
        watch = self.watch
        if watch is None or not self.connected:
            return 0
        found = watch.check(self.window, now)
        if found & STALLED:
            self.counters.begin_uncommon().stalled_window += 1
            detail = f"{len(self.window.entries)} unacknowledged, {waiting} waiting behind them"
            self.host.report("stalled_window", detail)
        if found & SLOW:
            self.counters.begin_uncommon().slow_consumer += 1
            pace = f"{watch.rate:.3g} messages a second, {waiting} waiting"
            self.host.report("slow_consumer", pace)
            if self.limits.slow_disconnect:
                self.host.close(reason_codes.QUOTA_EXCEEDED, f"slow consumer: {pace}")
                return 0
        return watch.deadline(self.window, now)

    # -- connecting and disconnecting

    def connect(self, host: Host, outbox: Outbox, window: int, now: int) -> bool:
        """Attach a client; returns whether it has kept a window, which has to be resent (FC-8)."""
        self.host = host
        self.outbox = outbox
        self._set_connected(True, now)
        self.congested = False
        self.window.set_limit(window, now)
        self._sets_retry = outbox.version == 4 and self.limits.retry_interval > 0
        if self.throttle is None:
            self.throttle = new_throttle(self.limits, now)
            if self.throttle is not None:
                self.throttle.begin_with(self.window)
        else:
            self.throttle.use(self.limits, self.window, now)
        if self.window.entries:
            self.kept = KeptWindow(self.window, self.resends_singly)
            if self._sets_retry:
                self._set_retry(now)
        return self.kept is not None

    def restore(self, inflight: list[Restored], now: int) -> None:
        """FC-27: deliveries that were in the window before the process began, in the order first sent."""
        counters = self.counters
        for restored in inflight:
            counters.count_offered(restored.publish.qos)
            counters.count_sent(restored.publish, now)
            if self.throttle is not None:
                self.throttle.restore(restored.publish)
            self.window.restore(restored, now)

    def disconnect(self, host: Host, now: int) -> None:
        """Detach the client: what it has not acknowledged stays in the window."""
        self.set_congested(False, now)
        self.window.stop_time(now)
        self._set_connected(False, now)
        self.host = host
        self.outbox.take()
        self.kept = None
        if self.watch is not None:
            self.watch.end_backlog()
        if self.throttle is not None:
            self.throttle.disconnect(now)

    def _set_connected(self, connected: bool, now: int) -> None:
        if connected != self.connected:
            self.connected = connected
            self.counters.away = not connected
            self._connected_us = self._connected_us - now if connected else self._connected_us + now

    def end(self, now: int) -> None:
        """End the session: groups take back unacknowledged QoS 1 (FC-13)."""
        self._set_connected(False, now)
        self.timer_at = 0
        self.host = NoHost()
        if self.sources:
            self.counters.begin_uncommon().shared_returned += _give_back(self.sources, self.window, now)
        if self.counters.drop_log is not None:
            _tell_unacknowledged(self.counters, self.window, self.sources)
        self.sources = None
        self.window.clear(now)
        if self.throttle is not None:
            self.throttle.end(now)

    def end_interval(self, done: Counters, now: int, interval_end: int) -> None:
        """Fill the gauges and times of the interval that ends into its counters.

        Its row ends at `interval_end`, before `now`: a client is connected for no longer than the row is long.
        """
        uncommon = done.begin_uncommon()
        connected = self._connected_us + interval_end if self.connected else self._connected_us
        uncommon.connected_us = max(0, min(connected, interval_end - done.interval_start))
        self._connected_us -= uncommon.connected_us
        if self.window.full_time is not None:
            uncommon.window_full_us = self.window.full_time.take(now)
        if self.congested_time is not None:
            uncommon.congested_us = self.congested_time.take(now)
        if self.throttle is not None:
            self.throttle.fill(done, now)


def _give_back(sources: dict[int, Source], window: Window, now: int) -> int:
    """Return unacknowledged QoS 1 to its sources; QoS 2 must not be sent to another session [MQTT-4.8.2-5].

    Returns how many deliveries they have taken back; of others `sources` says nothing any more.
    """
    returned: dict[Source, tuple[list[Publish], list[Publish]]] = {}
    for packet_id, inflight in window.entries.items():
        source = sources.get(packet_id)
        if source is not None and (inflight.publish.qos == 1 or source.listens):
            deliveries, lost = returned.setdefault(source, ([], []))
            (deliveries if inflight.publish.qos == 1 else lost).append(inflight.publish)
    taken = {source for source, own in returned.items() if source.take_back(own[0], own[1], now)}
    for packet_id, inflight in window.entries.items():
        if inflight.publish.qos != 1 or sources.get(packet_id) not in taken:
            sources.pop(packet_id, None)
    return sum([len(returned[source][0]) for source in taken])


def _tell_unacknowledged(counters: Counters, window: Window, taken_back: dict[int, Source] | None) -> None:
    """FC-35: tell of what the client has not acknowledged, and no group has taken back."""
    for packet_id, inflight in window.entries.items():
        if inflight.phase != WAIT_PUBCOMP and not (taken_back and packet_id in taken_back):
            counters.tell_lost("unacknowledged", inflight.publish)
