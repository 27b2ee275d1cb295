"""Deliveries to one session: mailbox, gate, window and mqueue, up to the outbox that is written once per pass.

router -> mailbox -> run_pass -> gate, window -> outbox -> the connection writes it
                              -> mqueue -> drain -> outbox
          shared queues of groups (FC-13) -> drain -> outbox
"""

from typing import TYPE_CHECKING, Final, final

from protocol.publish import Publish
from session import gate
from session.address import release
from session.counters import Counters
from session.host import Host, Nobody
from session.limits import Limits
from session.membership import Membership
from session.mqueue import MQueue, too_big
from session.outbox import PUBREL_HEAD, Outbox
from session.overflow import drop_expired, drop_newcomer, make_room
from session.pacing import TIMER_DELAY, Pacing, Publisher, has_relief
from session.priority_mqueue import new_mqueue
from session.resending import resend_held, retry
from session.source import Source
from session.stopwatch import Stopwatch
from session.throttle import new_throttle
from session.watch import Watch, look
from session.window import DONE, UNEXPECTED, WAIT_PUBCOMP, Inflight, Window, wrong_kind

if TYPE_CHECKING:
    from session.shared_queue import SharedQueue

PASS_DELIVERIES: Final = 100
"""A pass takes at most this many deliveries, so that no session hogs the loop."""
PASS_BYTES: Final = 65_536
"""A pass also ends when its outbox holds this much, so that congestion shows before more is sent."""

MAILBOX_ROOM: Final = 1_024
"""Deliveries in a mailbox from which on only publishers that are held back may add to it (FC-16)."""

_NOTHING: Final[list[Publish]] = []


@final
class Outbound:
    """The way of deliveries to one session, connected or not."""

    def __init__(self, limits: Limits, host: Host, now: int) -> None:
        self.limits = limits
        self.host = host
        # What the router looks at for each delivery lies side by side: with many sessions each cache line counts.
        self.mailbox: list[Publish] = []
        """The router appends here. Whoever appends while `idle` is set clears it and wakes the host."""
        self.idle = True
        self.paced = False
        """Whether publishers are held back for the mqueue (FC-16): then the router asks `admits` before it appends."""
        self.connected = False
        self.congested = False
        self.mailbox_busy = False
        self.counters = Counters(now)
        self.outbox = Outbox()
        self.window = Window()
        self.mqueue: MQueue | None = None
        self.congested_time = Stopwatch()
        self.timer_at = 0
        """When the host is going to call `Session.on_timer`; 0 = it is not."""
        self._taken: list[Publish] = []  # the swapped-out mailbox, taken up to _position
        self._position = 0
        self.held: list[int] | None = None
        """Kept packet ids that a smaller new window holds back, last first."""
        self.throttle = new_throttle(limits, now)
        self._watch: Watch | None = None  # FC-14: from the first backlog or full window on
        self.membership: Membership | None = None
        """None until the session first pulls from a source."""
        self._sends_to_sample: int = gate.SENDS_PER_SAMPLE
        self._pacing: Pacing | None = None  # FC-16, as a receiver: from the first overflow on
        self._publisher: Publisher | None = None  # and as a publisher: from the first time that it is held back

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
        throttle = self.throttle
        limited = throttle is not None
        if throttle is not None:
            throttle.note_written(outbox, self.congested)
        blocked = False
        while self._position < end and outbox.delivery_bytes < PASS_BYTES:
            publish = taken[self._position]
            qos = publish.qos
            closed = self._gate() if qos == 0 else self._gate_qos12()
            if limited and closed == gate.OPEN:
                closed = self._limited_by(publish, now)
            if closed != gate.OPEN and self._stays(publish, now):
                blocked = True
                break
            self._position += 1
            if publish.address is not None:
                release(publish)  # FC-24: where it goes from here counts it again
            if qos == 0:
                counters.offered_qos0 += 1
            else:
                counters.count_offered(qos)
            if closed == gate.OPEN:
                self._send(publish, now)
                continue
            if qos == 0:
                counters.count_gated(closed)
            self._enqueue(publish, now)
        if self._position >= len(taken):
            self._taken = _NOTHING  # an idle session must not hold on to its last batch
            self._position = 0
        self._sample_mailbox()
        more = self.drain(now)
        return more or (self.mailbox_len() > 0 and not blocked)

    def mailbox_len(self) -> int:
        """Deliveries that the router has handed over and no pass has taken up."""
        return len(self.mailbox) + len(self._taken) - self._position

    def in_mailbox(self) -> list[Publish]:
        """Those deliveries, as they came (FC-9)."""
        return self._taken[self._position :] + self.mailbox

    def drain(self, now: int) -> bool:
        """FC-4: send what waits while the way is free, one pass's bytes at most; returns whether more can go.

        First the mqueue, head first, then what groups have for this session (FC-13).
        """
        throttle = self.throttle
        if throttle is not None:
            throttle.note_written(self.outbox, self.congested)
        if self.held is not None:
            resend_held(self, now)
        more = False
        mqueue = self.mqueue
        if mqueue is not None:
            more = self._drain_mqueue(mqueue, now)
            if self.paced:
                more = self._look_at_pacing(mqueue, now) or more
        if self.membership is not None and self.connected:
            more = self.membership.pull(self, now) or more
        if throttle is not None:
            self._note_head(now)
            more = throttle.opens_when_written(self.congested) or more
        return more

    def _drain_mqueue(self, mqueue: MQueue, now: int) -> bool:
        waited = mqueue.length
        while self.outbox.delivery_bytes < PASS_BYTES and self._head_may_go(now):
            self._send(mqueue.pop(), now)
        if mqueue.length == 0:
            if mqueue.overflowing:
                # What is too large to wait leaves no trace in the queue: then the episode ends when the way is free.
                mqueue.overflowing = waited == 0 and (self.congested or self.window.full())
            if self._pacing is not None:
                self._pacing.note_empty()
            if self._watch is not None:
                self._watch.end_backlog()
        if self._watch is not None:
            self._watch.drained += waited - mqueue.length
        if self._pacing is not None and mqueue.length < waited:
            self._pacing.moved_at = now
        return self._head_may_go(now)

    def _head_may_go(self, now: int) -> bool:
        mqueue = self.mqueue
        return mqueue is not None and mqueue.length > 0 and self._may_go(mqueue.head(), now)

    def _may_go(self, publish: Publish, now: int) -> bool:
        if not self.connected or self.held is not None:
            return False  # FC-8: the kept window goes before anything new
        if publish.qos == 0:  # FC-4: it needs the send path, and no window
            if self.congested and self.limits.gate:
                return False
        elif self.window.full():
            return False
        return self._limited_by(publish, now) == gate.OPEN

    def _send(self, publish: Publish, now: int) -> int:
        """Returns the packet id; 0 = QoS 0, or not sent at all."""
        counters = self.counters
        packet_id = 0
        if publish.expires_at and now >= publish.expires_at:
            counters.count_drop("expired", publish.qos)  # [MQTT-3.3.2-5]
            return 0
        if self.too_large(publish):
            counters.count_drop("too_large", publish.qos)  # [MQTT-3.1.2-24]
            return 0
        if publish.qos == 0:
            self.outbox.add_publish(publish, 0, now)
        else:
            window = self.window
            packet_id = window.add(publish, now)
            self.outbox.add_publish(publish, packet_id, now)
            counters.note_window(len(window.entries))
            if self.outbox.version == 4 and self.limits.retry_interval:
                self.arm(now + self.limits.retry_interval)  # FC-8
            if window.full_time.running:
                self._watch_window(now)
        if self.throttle is not None:
            self.throttle.sent(publish, now)
        counters.count_sent(publish, now)
        self._sends_to_sample -= 1
        if self._sends_to_sample <= 0:
            self._sample_mailbox()
        return packet_id

    def too_large(self, publish: Publish) -> bool:
        """Whether the client takes no packet as large as this one [MQTT-3.1.2-24]."""
        limit = self.outbox.maximum_packet_size
        return limit > 0 and self.outbox.packet_size(publish) > limit

    # -- the gate (FC-3)

    def _gate(self) -> int:
        mqueue = self.mqueue
        if not self.limits.gate:
            if self.held is not None:
                return gate.WINDOW_FULL  # FC-8: the kept window goes before anything new
            return gate.BACKLOG if mqueue is not None and mqueue.waiting_qos0 else gate.OPEN  # FC-9
        backlog = mqueue is not None and mqueue.length > 0
        return gate.closed_by(self.congested, self.window.full(), self.mailbox_busy, backlog)

    def _gate_qos12(self) -> int:
        """FC-2: a QoS 1 or 2 delivery needs room in the window, and overtakes none."""
        if self.window.full():
            return gate.WINDOW_FULL
        mqueue = self.mqueue
        return gate.BACKLOG if mqueue is not None and mqueue.waiting_qos12 else gate.OPEN

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
        limits = self.limits
        if mqueue is None:
            mqueue = self.mqueue = new_mqueue(limits)
        waited = mqueue.length
        if not mqueue.fits(publish, limits):
            while mqueue.length and not mqueue.fits(publish, limits) and self._head_may_go(now):
                self._send(mqueue.pop(), now)  # FC-6: nothing is dropped while it could be sent
            if self._watch is not None:
                self._watch.drained += waited - mqueue.length
            if self._pacing is not None and mqueue.length < waited:
                self._pacing.moved_at = now
            if mqueue.length == 0 and not mqueue.fits(publish, limits) and self._may_go(publish, now):
                self._send(publish, now)  # nor is what is too large to wait
                return
            if not make_room(mqueue, publish, limits, self.counters, self.host, now, "mqueue_full"):
                return
        mqueue.append(publish)
        self.counters.note_mqueue(mqueue.length, mqueue.bytes)
        if waited == 0:
            if self._pacing is not None:
                self._pacing.moved_at = now  # it had nothing to drain before
            self._watch_backlog(now)

    # -- holding publishers back (FC-16)

    def _stays(self, publish: Publish, now: int) -> bool:
        """Whether a delivery that has to be queued stays in the mailbox, because it would overflow the mqueue."""
        mqueue = self.mqueue
        limits = self.limits
        if mqueue is None or mqueue.fits(publish, limits) or not limits.overflow_patience:
            return False
        if self._head_may_go(now) or too_big(publish, limits):
            return False  # it makes room without a loss, or nothing would
        if drop_expired(mqueue, publish, limits, self.counters, now):
            return False
        pacing = self._pacing
        if pacing is None:
            pacing = self._pacing = Pacing(limits.overflow_patience, now)
        self.paced = pacing.begin(self.host, now)
        return self.paced

    def _look_at_pacing(self, mqueue: MQueue, now: int) -> bool:
        """End it if there is relief; returns whether a pass can take something from the mailbox."""
        pacing = self._pacing
        assert pacing is not None  # it is what made `paced` true
        waiting = self.mailbox_len()
        if has_relief(mqueue, waiting, self.limits):
            pacing.end(now)
        self.paced = pacing.active
        return waiting > 0 and (not self.paced or self._can_take_up(mqueue, now))

    def _can_take_up(self, mqueue: MQueue, now: int) -> bool:
        """Whether what is first in the mailbox fits into the mqueue, or need not wait there (FC-2)."""
        publish = self._taken[self._position] if self._position < len(self._taken) else self.mailbox[0]
        if mqueue.fits(publish, self.limits):
            return True
        closed = self._gate() if publish.qos == 0 else self._gate_qos12()
        return closed == gate.OPEN and self._limited_by(publish, now) == gate.OPEN

    def admits(self, publish: Publish, publisher: "Outbound | None", now: int) -> bool:
        """A publisher brings a delivery while publishers are held back: hold it back too, or drop what it brings.

        Returns False if the delivery has been dropped. One that comes from nobody who could be held back, such as a
        will, is let in as long as the mailbox is short.
        """
        pacing = self._pacing
        assert pacing is not None  # it is what made `paced` true
        if publisher is not None and publisher.connected and pacing.hold(publisher.as_publisher(now), now):
            publisher.arm_publisher(pacing, now)
            return True
        self.paced = pacing.active
        if not self.paced or self._has_mailbox_room(publish):
            return True
        self.counters.count_offered(publish.qos)
        if self.mqueue is not None:
            drop_newcomer(self.mqueue, publish, self.limits, self.counters, self.host, "mqueue_full")
        return False

    def _has_mailbox_room(self, publish: Publish) -> bool:
        """Whether the mailbox is short, and holds no more bytes than the mqueue may."""
        most = self.limits.max_mqueue_bytes
        if self.mailbox_len() >= MAILBOX_ROOM:
            return False
        return not most or sum([waiting.size for waiting in self.in_mailbox()]) + publish.size <= most

    def as_publisher(self, now: int) -> Publisher:
        """The session as a publisher that may be held back."""
        publisher = self._publisher
        if publisher is None:
            publisher = self._publisher = Publisher(self.host, self.limits.overflow_patience, now)
        return publisher

    def arm_publisher(self, pacing: Pacing, now: int) -> None:
        """One more queue holds it back: have that looked at in time. Others have seen to theirs, however many."""
        if self._publisher is not None:
            self.arm(min(self._publisher.patience.lasts_until(TIMER_DELAY, now), pacing.ends_at(now)))

    def paced_for(self, now: int) -> int:
        """Microseconds of this interval for which the session has held back publishers."""
        return self._pacing.patience.used_time.so_far(now) if self._pacing is not None else 0

    def _end_pacing(self, now: int) -> None:
        """The connection is gone: the session paces no publisher, and no queue paces it."""
        self.paced = False
        if self._pacing is not None:
            self._pacing.end(now)
        if self._publisher is not None:
            self._publisher.release_all(now)

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
        waiting = self.in_mailbox()
        self._taken = []
        self._position = 0
        self.mailbox = []
        for publish in waiting:
            if publish.address is not None:
                release(publish)
        return waiting

    # -- the throttle (FC-10, FC-11)

    def _limited_by(self, publish: Publish, now: int) -> int:
        """Why a delivery that window and gate let go must wait nevertheless, as a reason of the gate."""
        throttle = self.throttle
        if throttle is None:
            return gate.OPEN
        closed = throttle.closed_by(publish, now)
        if closed == gate.RATE:
            self.arm(throttle.next_at(now))
        return closed

    def _note_head(self, now: int) -> None:
        mqueue = self.mqueue
        closed: int = gate.OPEN
        if self.connected and mqueue is not None and mqueue.length:
            closed = self._limited_by(mqueue.head(), now)
        if self.throttle is not None:
            self.throttle.note_head(closed, now)

    # -- what is pulled: from shared queues (FC-13), and retained messages

    def wake(self) -> None:
        """Have the host run passes."""
        if self.idle:
            self.idle = False
            self.host.wake()

    def is_open(self) -> bool:
        """Whether window and send path would let a delivery of any QoS go, and nothing of the session's own waits."""
        if not self.connected or self.congested or self.held is not None or self.window.full():
            return False
        mqueue = self.mqueue
        return mqueue is None or mqueue.length == 0

    def can_take(self, publish: Publish, now: int) -> bool:
        """Whether a source's delivery could be sent at once: what could not waits with the source."""
        return self.is_open() and self._limited_by(publish, now) == gate.OPEN

    def at_ease(self) -> bool:
        """Whether this pass has room for more than the session's own deliveries."""
        return self.outbox.delivery_bytes < PASS_BYTES and self.mailbox_len() == 0

    def has_room(self) -> bool:
        """Whether the pass may write more."""
        return self.outbox.delivery_bytes < PASS_BYTES

    def take(self, publish: Publish, now: int) -> int:
        """Send a delivery from a source; returns its packet id, 0 = QoS 0, or it was not sent at all."""
        self.counters.count_offered(publish.qos)
        return self._send(publish, now)

    def note_taken(self, packet_id: int, group: "SharedQueue") -> None:
        """Remember where a delivery came from until it is acknowledged."""
        self._member().taken[packet_id] = group

    def room(self) -> int:
        """How many deliveries more, of whatever QoS, would be sent and not queued; at most a pass's."""
        free: int = self.window.limit - len(self.window.entries) - self.mailbox_len()
        return max(min(free, PASS_DELIVERIES), 0) if self.is_open() else 0

    def miss(self, source: Source) -> None:
        """A source has something, or may have: pull when the way is free."""
        self._member().missed.append(source)

    def forget(self, source: Source) -> None:
        """The session has no more to do with a source that it has missed something of."""
        self._member().missed.remove(source)

    def _member(self) -> Membership:
        membership = self.membership
        if membership is None:
            membership = self.membership = Membership()
        return membership

    # -- what is slow (FC-14)

    def _watching(self) -> Watch:
        watch = self._watch
        if watch is None:
            watch = self._watch = Watch(self.limits)
        return watch

    def _watch_backlog(self, now: int) -> None:
        if self.limits.slow_threshold and self.connected:
            self.arm(self._watching().begin_backlog(now))

    def _watch_window(self, now: int) -> None:
        if self.limits.stalled_window:
            self._watching().moved_at = now
            self.arm(now + self.limits.stalled_window)

    # -- acknowledgements (FC-1, FC-21)

    def acknowledge(self, packet_type: int, packet_id: int, failed: bool, now: int) -> bool:
        """A PUBACK, PUBREC or PUBCOMP came; `failed`: its reason code is 0x80 or above.

        Returns False if the packet id is unknown. Raises ProtocolError if the delivery does not wait for such a packet.
        The caller calls `drain` when it has handled the chunk that it is reading.
        """
        inflight = self.window.entries.get(packet_id)
        if inflight is None:
            return False
        phase = self.window.advance(packet_id, inflight, packet_type, failed, now)
        if phase == DONE:
            if self.held is not None and packet_id in self.held:
                self.held.remove(packet_id)  # acknowledged ahead: nothing is left to resend
            if self.throttle is not None or self.membership is not None:
                self._completed(packet_id, inflight)
            if self._watch is not None:
                self._watch.note_acknowledged(True, now)
            self.counters.count_acknowledged(inflight.publish.qos, inflight.sent_at, now)
            if self._pacing is not None:
                self._pacing.moved_at = now
        elif phase == UNEXPECTED:
            raise wrong_kind(packet_type, packet_id, inflight)  # what has come before it in the chunk counts
        else:
            inflight.last_sent_at = now
            if self._watch is not None:
                self._watch.note_acknowledged(False, now)
            self.outbox.add_acknowledgement(PUBREL_HEAD, packet_id)
        return True

    def give_back_place(self, packet_id: int, inflight: Inflight, now: int) -> None:
        """Take a delivery out of the window that will not be acknowledged."""
        self.window.remove(packet_id, inflight, now)
        self._completed(packet_id, inflight)

    def _completed(self, packet_id: int, inflight: Inflight) -> None:
        if self.throttle is not None:
            self.throttle.completed(inflight.publish)
        if self.membership is not None:
            taken = self.membership.taken
            if taken:
                taken.pop(packet_id, None)

    # -- timers

    def on_timer(self, now: int) -> int:
        """Resend what is due (FC-8), look for what is slow (FC-14). Returns when to call again, 0 = no need."""
        again = retry(self, now)
        watch = self._watch
        if watch is not None and self.connected:
            look_at = look(self, watch, now)
            again = min(again or look_at, look_at or again)
        if self._publisher is not None:
            look_at = self._publisher.look(now)
            again = min(again or look_at, look_at or again)
        return again

    def arm(self, at: int) -> None:
        """Ask the host for `Session.on_timer`, unless it is coming early enough anyway."""
        if not self.timer_at or at < self.timer_at:
            self.timer_at = at
            self.host.arm(at)

    # -- connecting and disconnecting

    def connect(self, host: Host, outbox: Outbox, window: int, now: int) -> None:
        """A client is there: its kept window is resent (FC-8), then what waits is sent, into the outbox."""
        self.host = host
        if self._publisher is not None:
            self._publisher.host = host
        self.outbox = outbox
        self.connected = True
        self.congested = False
        self.mailbox_busy = False
        self.window.set_limit(window, now)
        if self.window.entries:
            self.held = list(self.window.entries)
            self.held.reverse()
            if outbox.version == 4 and self.limits.retry_interval:
                self.arm(now + self.limits.retry_interval)
        self.drain(now)
        if self.window.full():
            self._watch_window(now)
        if self.mqueue is not None and self.mqueue.length:
            self._watch_backlog(now)
        if self._pacing is not None:
            self._pacing.moved_at = now  # without a connection it could not drain

    def disconnect(self, host: Host, now: int) -> None:
        """The client is gone, the session stays: what no pass has taken is stored as FC-7 has it."""
        self._end_pacing(now)
        self.resume(now)
        self.window.full_time.stop(now)
        self.connected = False
        self.host = host
        self.outbox.take()
        self.held = None
        if self._watch is not None:
            self._watch.reset()
        if self.throttle is not None:
            self.throttle.disconnect(now)
        self.store_offline(now)

    def end(self, now: int) -> None:
        """The session is over: what waits is dropped, and counted as that; groups take back what they may (FC-13)."""
        counters = self.counters
        self._end_pacing(now)
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
        if self.membership is not None:
            counters.shared_returned += self.membership.give_back(self.window, now)
            self.membership.missed.clear()
        self.window.clear(now)
        if self.throttle is not None:
            self.throttle.end(now)

    # -- the books

    def take_counters(self, now: int) -> Counters:
        """The counts of the interval that ends now, gauges filled in; a new interval begins."""
        done = self.counters
        fresh = self.counters = Counters(now)
        done.end_interval(fresh, self.window, self.mqueue, self.in_mailbox())
        done.window_full_us = self.window.full_time.take(now)
        done.congested_us = self.congested_time.take(now)
        if self._pacing is not None:
            done.paced_for_us = self._pacing.patience.used_time.take(now)
        if self._publisher is not None:
            done.publish_paced_us = self._publisher.patience.used_time.take(now)
        if self.throttle is not None:
            self.throttle.fill(done, now)
        return done
