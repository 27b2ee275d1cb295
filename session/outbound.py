"""Deliveries to one session: mailbox, gate, window and mqueue, up to the outbox that is written once per pass.

router -> mailbox -> run_pass -> gate, window -> outbox -> the connection writes it
                              -> mqueue -> drain -> outbox
"""

from typing import Final, final

from protocol.publish import Publish
from session import gate
from session.counters import Counters
from session.host import Host, Nobody
from session.limits import Limits
from session.mqueue import MQueue
from session.outbox import PUBREL_HEAD, Outbox
from session.stopwatch import Stopwatch
from session.window import DONE, UNEXPECTED, WAIT_PUBCOMP, Inflight, Window

PASS_DELIVERIES: Final = 100
"""A pass takes at most this many deliveries, so that no session hogs the loop."""
PASS_BYTES: Final = 65_536
"""A pass also ends when its outbox holds this much, so that congestion shows before more is sent."""

_NOTHING: Final[list[Publish]] = []


@final
class Outbound:
    """The way of deliveries to one session, connected or not."""

    def __init__(self, limits: Limits, host: Host, now: int) -> None:
        self.limits = limits
        self.host = host
        self.counters = Counters(now)
        self.connected = False
        self.mailbox: list[Publish] = []
        """The router appends here. Whoever appends while `idle` is set clears it and wakes the host."""
        self.idle = True
        self.outbox = Outbox()
        self.window = Window()
        self.mqueue: MQueue | None = None
        self.mailbox_busy = False
        self.congested = False
        self.congested_time = Stopwatch()
        self.timer_at = 0
        """When the host is going to call `Session.on_timer`; 0 = it is not."""
        self._taken: list[Publish] = []  # the swapped-out mailbox, taken up to _position
        self._position = 0
        self._sends_to_sample: int = gate.SENDS_PER_SAMPLE
        self._held: list[int] | None = None  # kept packet ids that a smaller new window holds back, last first
        self._overflowing = False

    # -- from the mailbox to the outbox

    def run_pass(self, now: int) -> bool:
        """Take up to 100 deliveries, schedule each, drain the mqueue; returns whether another pass has work to do.

        The caller writes the outbox after each call.
        """
        taken = self._taken
        if self._position >= len(taken):
            taken = self._taken = self.mailbox
            self.mailbox = []
            self._position = 0
        end = min(self._position + PASS_DELIVERIES, len(taken))
        counters = self.counters
        outbox = self.outbox
        while self._position < end and outbox.delivery_bytes < PASS_BYTES:
            publish = taken[self._position]
            self._position += 1
            if publish.qos == 0:
                counters.offered_qos0 += 1
                closed = self._gate()
                if closed == gate.OPEN:
                    self._send(publish, now)
                else:
                    counters.count_gated(closed)
                    self._enqueue(publish, now)
            else:
                counters.count_offered(publish.qos)
                mqueue = self.mqueue
                if self.window.full() or (mqueue is not None and mqueue.waiting_qos12):
                    self._enqueue(publish, now)  # FC-2
                else:
                    self._send(publish, now)
        if self._position >= len(taken):
            self._taken = _NOTHING  # an idle session must not hold on to its last batch
            self._position = 0
        self._sample_mailbox()
        more = self.drain(now)
        return more or self.mailbox_len() > 0

    def ready(self) -> bool:
        """Whether a delivery of any QoS would be sent at once, as far as can be told before the next pass."""
        if not self.connected or self.congested or self.window.full():
            return False
        mqueue = self.mqueue
        return mqueue is None or mqueue.length == 0

    def mailbox_len(self) -> int:
        """Deliveries that the router has handed over and no pass has taken up."""
        return len(self.mailbox) + len(self._taken) - self._position

    def drain(self, now: int) -> bool:
        """FC-4: send the mqueue's head while the way is free, one pass's bytes at most; returns whether more can go."""
        if self._held is not None:
            self._resend_held(now)
        if self.mqueue is None:
            return False
        waited = self.mqueue.length > 0
        while self.outbox.delivery_bytes < PASS_BYTES and self._head_may_go():
            self._send(self.mqueue.pop(), now)
        if self._overflowing and self.mqueue.length == 0:
            # What is too large to wait leaves no trace in the queue: then the episode ends when the way is free.
            self._overflowing = not waited and (self.congested or self.window.full())
        return self._head_may_go()

    def _head_may_go(self) -> bool:
        mqueue = self.mqueue
        return mqueue is not None and mqueue.length > 0 and self._may_go(mqueue.head())

    def _may_go(self, publish: Publish) -> bool:
        if not self.connected or self._held is not None:
            return False  # FC-8: the kept window goes before anything new
        if publish.qos == 0:
            return not self.congested or not self.limits.gate
        return not self.window.full()

    def _send(self, publish: Publish, now: int) -> None:
        counters = self.counters
        if publish.expires_at and now >= publish.expires_at:
            counters.count_drop("expired", publish.qos)  # [MQTT-3.3.2-5]
            return
        if self._too_large(publish):
            counters.count_drop("too_large", publish.qos)  # [MQTT-3.1.2-24]
            return
        if publish.qos == 0:
            self.outbox.add_publish(publish, 0, now)
        else:
            window = self.window
            self.outbox.add_publish(publish, window.add(publish, now), now)
            counters.note_window(len(window.entries))
            if self.outbox.version == 4 and self.limits.retry_interval:
                self.arm(now + self.limits.retry_interval)  # FC-8
        counters.count_sent(publish, now)
        self._sends_to_sample -= 1
        if self._sends_to_sample <= 0:
            self._sample_mailbox()

    def _too_large(self, publish: Publish) -> bool:
        limit = self.outbox.maximum_packet_size
        return limit > 0 and self.outbox.packet_size(publish) > limit

    # -- the gate (FC-3)

    def _gate(self) -> int:
        if not self.limits.gate:
            return gate.OPEN
        mqueue = self.mqueue
        backlog = mqueue is not None and mqueue.length > 0
        return gate.closed_by(self.congested, self.window.full(), self.mailbox_busy, backlog)

    def _sample_mailbox(self) -> None:
        length = self.mailbox_len()
        self.mailbox_busy = gate.mailbox_busy(self.mailbox_busy, length)
        self.counters.count_mailbox(length, self.mailbox_busy)
        self._sends_to_sample = gate.SENDS_PER_SAMPLE

    def pause(self, now: int) -> None:
        """The transport asks for a pause: the send path is congested."""
        self.congested = True
        self.congested_time.start(now)

    def resume(self, now: int) -> None:
        """The transport can take more. The caller wakes the session, whose pass drains the mqueue."""
        self.congested = False
        self.congested_time.stop(now)

    def unread_bytes(self) -> int:
        """Bytes of the deliveries that the client has not acknowledged: what it may have left unread."""
        size = 0
        for inflight in self.window.entries.values():
            if inflight.phase != WAIT_PUBCOMP:
                size += self.outbox.packet_size(inflight.publish)
        return size

    # -- the mqueue (FC-5 to FC-7)

    def _enqueue(self, publish: Publish, now: int) -> None:
        mqueue = self.mqueue
        if mqueue is None:
            mqueue = self.mqueue = MQueue()
        if not mqueue.fits(publish, self.limits) and not self._make_room(mqueue, publish, now):
            return
        mqueue.append(publish)
        self.counters.note_mqueue(mqueue.length, mqueue.bytes)

    def _make_room(self, mqueue: MQueue, newcomer: Publish, now: int) -> bool:
        """Returns whether `newcomer` may join."""
        limits = self.limits
        while not mqueue.fits(newcomer, limits) and self._head_may_go():
            self._send(mqueue.pop(), now)  # FC-6: nothing is dropped while it could be sent
        if mqueue.length == 0 and not mqueue.fits(newcomer, limits) and self._may_go(newcomer):
            self._send(newcomer, now)  # nor is what is too large to wait
            return False
        while not mqueue.fits(newcomer, limits):
            if mqueue.length and _has_expired(mqueue.head(), now):
                self.counters.count_drop("expired", mqueue.pop().qos)  # nothing that lives makes room for it
                continue
            if not self._overflowing:
                self._overflowing = True
                self.host.report("mqueue_full")  # FC-5: once per episode
            waiting = mqueue.length
            victim = mqueue.victim(newcomer, limits)
            self.counters.count_drop("queue_full", victim.qos)
            if mqueue.length == waiting:  # "is newcomer" would not do: the same message may wait already
                return False
        return True

    def store_offline(self, now: int) -> None:
        """FC-7: what the router handed over while the client is away joins the mqueue, QoS 0 only if that is wanted."""
        for publish in self._take_mailbox():
            self.counters.count_offered(publish.qos)
            if publish.qos == 0 and not self.limits.mqueue_store_qos0:
                self.counters.count_drop("offline_qos0", 0)
            else:
                self._enqueue(publish, now)
        self.idle = True

    def _take_mailbox(self) -> list[Publish]:
        waiting = self._taken[self._position :] + self.mailbox
        self._taken = []
        self._position = 0
        self.mailbox = []
        return waiting

    # -- acknowledgements (FC-1, FC-21)

    def acknowledge(self, packet_type: int, packet_id: int, failed: bool, now: int) -> bool:
        """A PUBACK, PUBREC or PUBCOMP came; `failed`: its reason code is 0x80 or above.

        Returns False if the packet id is unknown. One of the wrong kind changes nothing.
        The caller calls `drain` when it has handled the chunk that it is reading.
        """
        inflight = self.window.entries.get(packet_id)
        if inflight is None:
            return False
        phase = self.window.advance(packet_id, inflight, packet_type, failed, now)
        if phase == DONE:
            if self._held is not None and packet_id in self._held:
                self._held.remove(packet_id)  # acknowledged ahead: nothing is left to resend
            self.counters.count_acknowledged(inflight.publish.qos, inflight.sent_at, now)
        elif phase != UNEXPECTED:
            inflight.last_sent_at = now
            self.outbox.add_acknowledgement(PUBREL_HEAD, packet_id)
        return True

    # -- resending (FC-8)

    def retry(self, now: int) -> int:
        """While connected, 3.1.1 only: resend what is `retry_interval` old. Returns when to call again, 0 = no need."""
        interval = self.limits.retry_interval
        if self.outbox.version != 4 or not interval or not self.connected or not self.window.entries:
            return 0
        if self.congested:
            return now + interval  # what was sent last is still on its way: more copies would only pile up behind it
        oldest = now
        for packet_id, inflight in self.window.entries.items():
            if self._is_held(packet_id):
                continue  # not sent on this connection yet
            if inflight.last_sent_at + interval <= now:
                self._resend(packet_id, inflight, now)
            oldest = min(oldest, inflight.last_sent_at)
        return oldest + interval

    def arm(self, at: int) -> None:
        """Ask the host for `Session.on_timer`, unless it is coming early enough anyway."""
        if not self.timer_at or at < self.timer_at:
            self.timer_at = at
            self.host.arm(at)

    def _is_held(self, packet_id: int) -> bool:
        return self._held is not None and packet_id in self._held

    def _resend(self, packet_id: int, inflight: Inflight, now: int) -> None:
        inflight.last_sent_at = now
        if inflight.phase == WAIT_PUBCOMP:
            self.outbox.add_acknowledgement(PUBREL_HEAD, packet_id)
            self.counters.resent_pubrel += 1
        else:
            self.outbox.add_resent_publish(inflight.publish, packet_id, now)
            self.counters.resent_publish += 1

    def _resend_held(self, now: int) -> None:
        """Resend the kept window, first sent first, no more of it than the new window holds (FC-1, FC-8)."""
        held = self._held
        if held is None:
            return
        entries = self.window.entries
        while held and len(entries) - len(held) < self.window.limit:
            packet_id = held.pop()
            inflight = entries[packet_id]
            if inflight.phase != WAIT_PUBCOMP and self._too_large(inflight.publish):
                self.window.remove(packet_id, now)  # [MQTT-3.1.2-25]: as if it had been completed
            else:
                self._resend(packet_id, inflight, now)
        if not held:
            self._held = None

    # -- connecting and disconnecting

    def connect(self, host: Host, outbox: Outbox, window: int, now: int) -> None:
        """A client is there: its kept window is resent (FC-8), then what waits is sent, into the outbox."""
        self.host = host
        self.outbox = outbox
        self.connected = True
        self.congested = False
        self.mailbox_busy = False
        self.window.set_limit(window, now)
        if self.window.entries:
            self._held = list(self.window.entries)
            self._held.reverse()
            if outbox.version == 4 and self.limits.retry_interval:
                self.arm(now + self.limits.retry_interval)
        self.drain(now)

    def disconnect(self, host: Host, now: int) -> None:
        """The client is gone, the session stays: what no pass has taken is stored as FC-7 has it."""
        self.resume(now)
        self.window.full_time.stop(now)
        self.connected = False
        self.host = host
        self.outbox.take()
        self._held = None
        self.store_offline(now)

    def end(self) -> None:
        """The session is over: what waits is dropped, and counted as that."""
        counters = self.counters
        for publish in self._take_mailbox():
            counters.count_offered(publish.qos)
            counters.count_drop("session_ended", publish.qos)
        mqueue = self.mqueue
        if mqueue is not None:
            while mqueue.length:
                counters.count_drop("session_ended", mqueue.pop().qos)
        self.connected = False
        self.timer_at = 0
        self.host = Nobody()

    # -- the books

    def take_counters(self, now: int) -> Counters:
        """The counts of the interval that ends now, gauges filled in; a new interval begins."""
        done = self.counters
        fresh = self.counters = Counters(now)
        done.end_interval(fresh, self.window, self.mqueue, self._taken[self._position :] + self.mailbox)
        done.window_full_us = self.window.full_time.take(now)
        done.congested_us = self.congested_time.take(now)
        return done


def _has_expired(publish: Publish, now: int) -> bool:
    return publish.expires_at > 0 and now >= publish.expires_at
