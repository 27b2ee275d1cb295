"""What waits for one session: its mqueue, sources of more, the kept window (FC-4 to FC-6, FC-8, FC-13, FC-16).

Only `drain` sends what waits. So a session that has no `Backlog` has nothing to drain.
"""

from typing import final

from mypy_extensions import i64

from protocol.publish import Publish
from session import qos0_gate
from session.backpressure import Backpressure
from session.flows import FIFO
from session.journal import QueueJournal
from session.mailbox import Mailbox
from session.mqueue import NEAR, MQueue, never_fits
from session.new_mqueue import new_mqueue
from session.overflow import (
    begin_episode,
    drop_all,
    drop_arrival,
    drop_expired,
    has_aged,
    has_expired,
    looks_every,
    make_room,
    supersede,
)
from session.pacing import Pacing, has_relief
from session.resending import KeptWindow, resend
from session.room import has_any_room, has_room
from session.sender import DRAIN_BYTES, Sender
from session.source import Consumer, PendingSources, Source
from session.window import WAIT_PUBCOMP


@final
class Backlog:
    """The deliveries that `Outbound` may not send yet, and the rules by which they are sent, dropped or paced."""

    def __init__(self, sender: Sender, mailbox: Mailbox) -> None:
        self.paced = False
        """Whether publishers are paced for the mqueue (FC-16)."""
        self.asks = sender.limits.of_cell
        """Whether `admits` decides about each delivery: publishers are paced, or it is a link (CL-2)."""
        self.mqueue: MQueue | None = None
        """None until the first delivery that has to wait."""
        self.sources: PendingSources | None = None
        """What groups and retained messages have for the session (FC-13); None until the first of them."""
        self.since: i64 = 0
        """While something waits in the mqueue: since when, at the earliest since the client has connected."""
        self.backpressure = Backpressure() if sender.limits.backpressure else None
        """FC-34; None = publishers are not told."""
        self._sender = sender
        self._mailbox = mailbox

    def restore(self, queue: QueueJournal, now: int) -> None:
        """FC-27: take over what waited before the process began."""
        if self.backpressure is not None:
            self.backpressure.note_presence(False, now)  # FC-34: its client is away since then
        mqueue = new_mqueue(self._sender.limits)
        mqueue.restore(queue, self._on_read)
        if mqueue.length:
            self.mqueue = mqueue
            self._sender.counters.restore_mqueue(mqueue)

    def queued(self) -> int:
        """How many deliveries wait in the mqueue."""
        return self.mqueue.length if self.mqueue is not None else 0

    def add_source(self, source: Source) -> None:
        """Pull from this source too, when the session can send."""
        if self.sources is None:
            self.sources = PendingSources()
        self.sources.sources[source] = None

    def forget_source(self, source: Source) -> None:
        """Pull no more from a source that `add_source` has added."""
        if self.sources is not None:
            del self.sources.sources[source]

    def drop_all(self) -> None:
        """The session ends: drop and count what waits."""
        drop_all(self.mqueue, self._sender.counters)

    def drop_aged(self, now: int) -> int:
        """FC-36: drop what has waited too long; returns when to look again, 0 = nothing waits."""
        mqueue = self.mqueue
        age = self._sender.limits.max_mqueue_age
        if not age or mqueue is None:
            return 0
        for publish in mqueue.drop_aged(now - age):
            self._sender.counters.count_drop("aged", publish)
        return now + looks_every(age) if mqueue.length else 0

    # -- sending what waits (FC-4)

    def drain(self, consumer: Consumer, now: int) -> bool:
        """Send what may be sent to `consumer`, the session, at most one pass's bytes; returns whether there is more."""
        sender = self._sender
        throttle = sender.throttle
        if throttle is not None:
            throttle.note_written(sender.outbox, sender.congested)
        more = sender.kept is not None and self._resend(sender.kept, now)
        mqueue = self.mqueue
        backpressure = self.backpressure
        waited = self.queued() if backpressure is not None else 0
        if mqueue is not None:
            more = self._drain_mqueue(mqueue, now) or more
            if self.paced:
                more = self._check_pacing(mqueue, now) or more
        if self.sources is not None and sender.connected:
            more = self.sources.pull(consumer, now) or more
        if throttle is not None:
            closed: int = qos0_gate.OPEN
            head = None if mqueue is None else mqueue.head()
            if head is not None and sender.connected:
                closed = sender.limited_by(head, now)
            throttle.note_head(closed, now)
            more = throttle.opens_when_written(sender.congested) or more
        if backpressure is not None and sender.connected:
            has_any = mqueue is None or has_any_room(sender, self._mailbox, mqueue, now)
            backpressure.note_drained(has_any, self.queued() < waited, now)
        return more

    def _resend(self, kept: KeptWindow, now: int) -> bool:
        """FC-8, FC-38: resend the kept window, as far as the new window, the pass and the rate allow.

        Returns whether another pass can go on.
        """
        sender = self._sender
        window, throttle = sender.window, sender.throttle
        packet_id = kept.next(window)
        while packet_id and sender.has_room():
            inflight = window.entries[packet_id]
            is_publish = inflight.phase != WAIT_PUBCOMP
            if is_publish and sender.outbox.too_large(inflight.publish):
                window.remove(packet_id, inflight, now)  # [MQTT-3.1.2-25]: as if it had been completed
                sender.completed(packet_id, inflight, now)
                sender.counters.tell_lost("too_large", inflight.publish)
            elif not is_publish or throttle is None or throttle.may_resend(now):
                resend(packet_id, inflight, sender.outbox, sender.counters, now)
                if is_publish and inflight.publish.qos == 0:  # that is all that a server takes: nothing acknowledges it
                    window.remove(packet_id, inflight, now)
                    sender.completed(packet_id, inflight, now)
            else:
                sender.arm(throttle.next_at(now))
                return False
            kept.done()
            packet_id = kept.next(window)
        if kept.is_over(window):
            sender.kept = None
        return packet_id > 0

    def _drain_mqueue(self, mqueue: MQueue, now: int) -> bool:
        sender = self._sender
        outbox = sender.outbox
        waited = mqueue.length
        more = True
        while more and outbox.delivery_bytes < DRAIN_BYTES:
            more = self._send_head(mqueue, now)
        if mqueue.length == 0:
            mqueue.permits = None
            if mqueue.overflowing:
                # A delivery too large for the queue never enters it: then the episode ends once sending is possible.
                mqueue.overflowing = waited == 0 and (sender.congested or not sender.has_slot())
            if sender.pacing is not None:
                sender.pacing.note_empty()
            if sender.watch is not None:
                sender.watch.end_backlog()
        if mqueue.length and sender.connected:
            mqueue.read_ahead()
        return more and self._head_may_go(mqueue, now)

    def _head_may_go(self, mqueue: MQueue, now: int) -> bool:
        head = mqueue.head()
        return head is not None and self._sender.may_send(head, now)

    def _send_head(self, mqueue: MQueue, now: int) -> bool:
        """Send the mqueue's head if it may be sent; pop it when the window holds it (FC-24). Returns whether."""
        sender = self._sender
        publish = mqueue.head()
        if publish is None or not sender.may_send(publish, now):
            return False
        if mqueue.permits is not None and not mqueue.permits(publish):
            sender.counters.count_drop("not_permitted", publish)
        elif sender.limits.max_mqueue_age and has_aged(publish, now, sender.limits) and not has_expired(publish, now):
            sender.counters.count_drop("aged", publish)
        else:
            sender.send(publish, now)
        mqueue.pop()
        if sender.watch is not None:
            sender.watch.drained += 1
        if sender.pacing is not None:
            sender.pacing.note_drained(now)
        return True

    # -- joining the mqueue (FC-2 to FC-7)

    def closed_to(self, publish: Publish, now: int) -> int:
        """Why a delivery from the mailbox must be queued, as a reason of the gate; OPEN if it may be sent."""
        sender = self._sender
        mqueue = self.mqueue
        if publish.qos:  # FC-2: it needs a slot, and must not overtake
            if not sender.has_slot():
                return qos0_gate.WINDOW_FULL
            waits = mqueue is not None and mqueue.waiting_qos1 + mqueue.waiting_qos2 > 0
            closed = qos0_gate.BACKLOG if waits else qos0_gate.OPEN
        elif sender.limits.gate:
            waits = mqueue is not None and mqueue.length > 0
            closed = qos0_gate.closed_by(sender.congested, not sender.has_slot(), self._mailbox.busy, waits)
        elif sender.kept is not None:
            return qos0_gate.WINDOW_FULL  # FC-8: the kept window is resent before anything new
        else:
            closed = qos0_gate.BACKLOG if mqueue is not None and mqueue.waiting_qos0 else qos0_gate.OPEN  # FC-9
        if mqueue is not None and mqueue.newest is not None and mqueue.newest.older(publish) is not None:
            return closed or qos0_gate.BACKLOG  # FC-37: it takes the place of what waits, and does not overtake it
        return sender.limited_by(publish, now) if closed == qos0_gate.OPEN else closed

    def add(self, publish: Publish, journal: QueueJournal | None, now: int) -> None:
        """Queue a delivery, or send or drop what makes room for it. The caller releases its place afterwards (FC-24).

        `journal`: the session's, where the end of a long queue is kept (FC-30).
        """
        sender = self._sender
        mqueue = self.mqueue
        limits = sender.limits
        if mqueue is None:
            mqueue = self.mqueue = new_mqueue(limits)
        waited = mqueue.length
        if not mqueue.fits(publish, limits):
            while self._send_head(mqueue, now) and not mqueue.fits(publish, limits):
                pass  # FC-6: nothing is dropped while it could be sent
            if mqueue.length == 0 and not mqueue.fits(publish, limits) and sender.may_send(publish, now):
                sender.send(publish, now)  # FC-6: too large for the queue, but it can be sent
                return
            if not self._may_join(mqueue, publish, now):
                return
        if mqueue.newest is not None and supersede(mqueue, publish, sender.counters):
            return  # FC-37
        if journal is not None and mqueue.tail is None:
            if journal.evicts(mqueue.length, mqueue.bytes):
                mqueue.begin_tail(publish, journal, self._on_read)
            elif publish.rest5 is not None and (not sender.connected or waited >= NEAR) and publish.qos:
                publish.forget_frames()  # FC-30: it is a delivery of its own
        mqueue.append(publish)
        sender.counters.note_mqueue(mqueue.length, mqueue.bytes)
        if waited == 0:
            self.since = now
            sender.watch_backlog(now)
            if limits.max_mqueue_age:
                sender.arm(now + looks_every(limits.max_mqueue_age))

    def _may_join(self, mqueue: MQueue, publish: Publish, now: int) -> bool:
        """Whether a delivery joins a full queue, because others make room or more may wait; if not, it is dropped."""
        sender = self._sender
        limits = sender.limits
        if self.backpressure is not None:  # or the limits have just begun to ask for it
            tells = self.backpressure.tells(limits, sender.connected, now)
            mqueue.keeps = limits.backpressure and (tells or publish.qos == 0)
            if mqueue.keeps and limits.fairness != FIFO and publish.qos and mqueue.fits(publish, limits, 2):
                return True  # FC-34: its publisher has been told that there is room
        return self._waits_beyond(mqueue, publish, now) or make_room(
            mqueue, publish, limits, sender.counters, sender.host, now, "mqueue_full"
        )

    def _has_room(self, publish: Publish) -> bool:
        """Whether a delivery of a publisher that cannot be paced has room, while others are paced."""
        limits = self._sender.limits
        if limits.fairness == FIFO:
            return self._mailbox.has_room(publish, limits)
        return self.mqueue is None or self.mqueue.fits(publish, limits, 2)

    def _on_read(self) -> None:
        """FC-30: the head of the mqueue is in memory again."""
        self._sender.host.wake()

    # -- telling publishers (FC-34)

    def lacking(self, publish: Publish, places: i64, arriving: bool, now: int) -> Backpressure | None:
        """The queue, if it tells its publishers and has no room for so many QoS 1 or 2 deliveries; None = it has.

        `arriving`: the PUBLISH has not waited yet, so those that wait already go first.
        """
        sender = self._sender
        backpressure = self.backpressure
        if backpressure is None:  # the limits have changed
            backpressure = self.backpressure = Backpressure()
        mqueue = self.mqueue
        if mqueue is None:
            mqueue = self.mqueue = new_mqueue(sender.limits)
        if not mqueue.fits(publish, sender.limits):
            waited = mqueue.length
            drop_expired(mqueue, publish, sender.limits, sender.counters, now)  # FC-5: expired deliveries first
            if mqueue.length < waited and self._mailbox.length():
                sender.host.wake()
        if has_room(sender, self._mailbox, mqueue, publish, places, now):
            if has_any_room(sender, self._mailbox, mqueue, now):
                backpressure.note_room()  # else it joins a full queue (FC-33), or takes another one's place (FC-37)
            return backpressure if arriving and backpressure.waiters else None
        backpressure.note_full(now)
        begin_episode(mqueue, publish, sender.limits, sender.host, "mqueue_full", coming=self._mailbox.length())
        return backpressure if backpressure.tells(sender.limits, sender.connected, now) else None

    def is_waited_for(self) -> bool:
        """Whether PUBLISHes wait for room in the mqueue."""
        return self.backpressure is not None and len(self.backpressure.waiters) > 0

    # -- pacing publishers (FC-16)

    def set_paced(self, paced: bool) -> None:
        """Whether publishers are paced from now on."""
        self.paced = paced
        self.asks = paced or self._sender.limits.of_cell

    def blocks(self, publish: Publish, now: int) -> bool:
        """Whether a delivery that has to be queued stays in the mailbox, because it would overflow the mqueue."""
        sender = self._sender
        mqueue = self.mqueue
        limits = sender.limits
        if mqueue is None or mqueue.fits(publish, limits) or not limits.overflow_patience:
            return False
        if limits.fairness != FIFO:
            return False  # FC-33: a quiet publisher does not wait behind a loud one in the mailbox
        if self._head_may_go(mqueue, now) or never_fits(publish, limits):
            return False  # sending makes room, or nothing can
        if drop_expired(mqueue, publish, limits, sender.counters, now):
            return False
        return self._begin_pacing(now)

    def _waits_beyond(self, mqueue: MQueue, publish: Publish, now: int) -> bool:
        """FC-33: whether a delivery joins a full mqueue all the same: while publishers are paced for a fair one."""
        sender = self._sender
        limits = sender.limits
        if limits.fairness == FIFO or not limits.overflow_patience or not sender.connected:
            return False
        if never_fits(publish, limits) or drop_expired(mqueue, publish, limits, sender.counters, now):
            return False
        return self._begin_pacing(now)

    def _begin_pacing(self, now: int) -> bool:
        """The mqueue is full: pace the publishers of what comes; returns whether there is patience for that."""
        sender = self._sender
        pacing = sender.pacing
        if pacing is None:
            pacing = sender.pacing = Pacing(sender.limits.overflow_patience, now)
        paced = pacing.begin(sender.host, now)
        if paced and not self.paced:
            sender.host.read_acknowledgements()
        self.set_paced(paced)
        return paced

    def _check_pacing(self, mqueue: MQueue, now: int) -> bool:
        """End pacing if there is relief; returns whether a pass can take something from the mailbox."""
        sender = self._sender
        pacing = sender.pacing
        assert pacing is not None  # `paced` implies it
        waiting = self._mailbox.length()
        if has_relief(mqueue, waiting, sender.limits):
            pacing.end(now)
        self.set_paced(pacing.active)
        if waiting == 0 or not self.paced or sender.limits.fairness != FIFO:
            return waiting > 0
        publish = self._mailbox.first()
        if mqueue.fits(publish, sender.limits):
            return True
        return self.closed_to(publish, now) == qos0_gate.OPEN

    def admits(self, publish: Publish, publisher: Consumer | None, by_link: bool, now: int) -> bool:
        """A delivery is offered while publishers are paced: pace its publisher too, or drop the delivery.

        Returns False if it was dropped, or has come by a link and would go by one (CL-2). A delivery whose publisher
        cannot be paced, such as a will, is accepted while there is room. A publisher below its share is not paced
        (FC-33).
        """
        sender = self._sender
        if by_link and sender.limits.of_cell:
            return False
        if not self.paced:
            return True
        pacing = sender.pacing
        assert pacing is not None  # `paced` implies it
        if self.mqueue is not None and not self.mqueue.exceeds_share(publish, sender.limits):
            return True  # FC-33
        if publisher is not None and publisher.pace(pacing, now):
            return True
        self.set_paced(pacing.active)
        if not pacing.active or self._has_room(publish):
            return True
        sender.counters.count_offered(publish.qos)
        if self.mqueue is not None:
            drop_arrival(self.mqueue, publish, sender.limits, sender.counters, sender.host, "mqueue_full")
        return False
