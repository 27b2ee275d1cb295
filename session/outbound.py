"""What may be sent to one session next: mailbox, gate and mqueue (FC-2 to FC-7, FC-16). `Sender` sends it.

router -> mailbox -> run_pass -> gate, window -> sender -> outbox, which the connection writes
                              -> mqueue -> drain -> sender
          shared queues of groups (FC-13) -> drain -> sender
"""

from typing import Final, final

from protocol.publish import Publish
from session import qos0_gate
from session.holder import hold, release
from session.host import Host
from session.journal import SessionJournal
from session.limits import Limits
from session.mailbox import Mailbox
from session.mqueue import MQueue, never_fits
from session.outbox import Outbox
from session.overflow import drop_expired, drop_newcomer, make_room
from session.pacing import Pacing, Publisher, end_pacing, has_relief
from session.priority_mqueue import new_mqueue
from session.sender import PASS_BYTES, Sender
from session.source import Consumer, Source

PASS_DELIVERIES: Final = 100
"""A pass takes at most this many deliveries, so that no session monopolises the event loop."""

MOST_WAITING: Final = 250_000
"""The mailbox's limit. A session that is in thousands of groups with the same filter gets thousands of deliveries for
each message: more than its passes take before the publisher is read again."""


@final
class Outbound(Consumer):
    """Decides about the deliveries to one session, connected or not."""

    def __init__(self, limits: Limits, host: Host, now: int) -> None:
        super().__init__()
        # Attributes that each delivery reads are adjacent: with many sessions cache misses matter.
        self.awake = False
        """Whether the host has been woken and passes follow: further deliveries need not wake it."""
        self.paced = False
        """Whether publishers are paced for the mqueue (FC-16)."""
        self.journal: SessionJournal | None = None
        """FC-27; None = its deliveries do not survive the process."""
        self.mailbox = Mailbox()
        self.sender = Sender(limits, host, self.mailbox, now)
        self.mqueue: MQueue | None = None
        self.pacing: Pacing | None = None
        """FC-16, as a receiver; None until the first overflow."""
        self.publisher: Publisher | None = None
        """FC-16, as a publisher; None until it is first paced."""

    # -- from the router to the sender

    def offer(self, publish: Publish, publisher: "Outbound | None") -> None:
        """Put a delivery into the mailbox; `publisher` is None for the broker's own messages and wills."""
        if self.paced and not self._admits(publish, publisher, publish.received_at):
            return
        arrived = self.mailbox.arrived
        if len(arrived) >= MOST_WAITING:
            self.sender.counters.count_offered(publish.qos)
            self.sender.counters.count_drop("queue_full", publish.qos)
            return
        if self.journal is not None and publish.qos:
            publish = self.journal.add(publish)
        arrived.append(publish)
        if publish.holder is not None:
            hold(publish)  # FC-24
        if not self.awake:
            self.wake()

    def wake(self) -> None:
        """Have the host run passes."""
        if not self.awake:
            self.awake = True
            self.sender.host.wake()

    def run_pass(self, now: int) -> bool:
        """Take up to 100 deliveries, send or queue each, drain the mqueue; returns whether another pass has work to do.

        The caller writes the outbox after each call. If it returns False, `wake` is called when there is work again.
        """
        mailbox = self.mailbox
        sender = self.sender
        counters = sender.counters
        outbox = sender.outbox
        taken = mailbox.begin_pass()
        end = min(mailbox.position + PASS_DELIVERIES, len(taken))
        throttle = sender.throttle
        limited = throttle is not None
        if throttle is not None:
            throttle.note_written(outbox, sender.congested)
        blocked = False
        while mailbox.position < end and outbox.delivery_bytes < PASS_BYTES:
            publish = taken[mailbox.position]
            qos = publish.qos
            closed = self._closed_to(qos)
            if limited and closed == qos0_gate.OPEN:
                closed = sender.limited_by(publish, now)
            if closed != qos0_gate.OPEN and self._stays(publish, now):
                blocked = True
                break
            mailbox.position += 1
            if qos == 0:
                counters.offered_qos0 += 1
            else:
                counters.count_offered(qos)
            if closed == qos0_gate.OPEN:
                sender.send(publish, now)
            else:
                if qos == 0:
                    counters.count_gated(closed)
                self._enqueue(publish, now)
            if publish.holder is not None:
                release(publish)  # FC-24: now that the window or the mqueue holds it
        mailbox.end_pass()
        mailbox.sample(counters)
        more = self.drain(now)
        self.awake = more or (mailbox.length() > 0 and not blocked)
        return self.awake

    def drain(self, now: int) -> bool:
        """FC-4: send what waits and may be sent, at most one pass's bytes; returns whether more can be sent.

        First the mqueue from its head, then what sources such as groups have for this session (FC-13).
        """
        sender = self.sender
        throttle = sender.throttle
        if throttle is not None:
            throttle.note_written(sender.outbox, sender.congested)
        if sender.kept is not None:
            sender.resend_kept(sender.kept, now)
        more = False
        mqueue = self.mqueue
        if mqueue is not None:
            more = self._drain_mqueue(mqueue, now)
            if self.paced:
                more = self._check_pacing(mqueue, now) or more
        if self.pending_sources is not None and sender.connected:
            more = self.pending_sources.pull(self, now) or more
        if throttle is not None:
            closed: int = qos0_gate.OPEN
            if mqueue is not None and mqueue.is_ready() and sender.connected:
                closed = sender.limited_by(mqueue.head(), now)
            throttle.note_head(closed, now)
            more = throttle.opens_when_written(sender.congested) or more
        return more

    def _drain_mqueue(self, mqueue: MQueue, now: int) -> bool:
        sender = self.sender
        outbox = sender.outbox
        waited = mqueue.length
        more = True
        while more and outbox.delivery_bytes < PASS_BYTES:
            more = self._send_head(mqueue, now)
        if mqueue.length == 0:
            if mqueue.overflowing:
                # A delivery too large for the queue never enters it: then the episode ends once sending is possible.
                mqueue.overflowing = waited == 0 and (sender.congested or sender.window.full())
            if self.pacing is not None:
                self.pacing.note_empty()
            if sender.watch is not None:
                sender.watch.end_backlog()
        if mqueue.length and sender.connected:
            mqueue.read_ahead()
        return self._head_may_go(mqueue, now)

    def _head_may_go(self, mqueue: MQueue, now: int) -> bool:
        return mqueue.is_ready() and self.sender.may_send(mqueue.head(), now)

    def _send_head(self, mqueue: MQueue, now: int) -> bool:
        """Send the mqueue's head if it may be sent; pop it when the window holds it (FC-24). Returns whether."""
        sender = self.sender
        if not mqueue.is_ready():
            return False
        publish = mqueue.head()
        if not sender.may_send(publish, now):
            return False
        sender.send(publish, now)
        mqueue.pop()
        if sender.watch is not None:
            sender.watch.drained += 1
        if self.pacing is not None:
            self.pacing.moved_at = now
        return True

    # -- the gate and the mqueue (FC-2 to FC-7)

    def _closed_to(self, qos: int) -> int:
        """Why a delivery must be queued, as a reason of the gate; OPEN if it may be sent."""
        sender = self.sender
        mqueue = self.mqueue
        if qos:  # FC-2: it needs a slot, and must not overtake
            if sender.window.full():
                return qos0_gate.WINDOW_FULL
            return qos0_gate.BACKLOG if mqueue is not None and mqueue.waiting_qos12 else qos0_gate.OPEN
        if not self.sender.limits.gate:
            if sender.kept is not None:
                return qos0_gate.WINDOW_FULL  # FC-8: the kept window is resent before anything new
            return qos0_gate.BACKLOG if mqueue is not None and mqueue.waiting_qos0 else qos0_gate.OPEN  # FC-9
        backlog = mqueue is not None and mqueue.length > 0
        return qos0_gate.closed_by(sender.congested, sender.window.full(), self.mailbox.busy, backlog)

    def _enqueue(self, publish: Publish, now: int) -> None:
        mqueue = self.mqueue
        limits = self.sender.limits
        sender = self.sender
        if mqueue is None:
            mqueue = self.mqueue = new_mqueue(limits)
        waited = mqueue.length
        if not mqueue.fits(publish, limits):
            while not mqueue.fits(publish, limits) and self._send_head(mqueue, now):
                pass  # FC-6: nothing is dropped while it could be sent
            if mqueue.length == 0 and not mqueue.fits(publish, limits) and sender.may_send(publish, now):
                sender.send(publish, now)  # FC-6: too large for the queue, but it can be sent
                return
            if not make_room(mqueue, publish, limits, sender.counters, sender.host, now, "mqueue_full"):
                return
        if self.journal is not None and mqueue.tail is None and self.journal.evicts(mqueue.length, mqueue.bytes):
            mqueue.begin_tail(publish, self.journal, self.wake)
        mqueue.append(publish)
        sender.counters.note_mqueue(mqueue.length, mqueue.bytes)
        if waited == 0:
            if self.pacing is not None:
                self.pacing.moved_at = now  # it was empty before
            sender.watch_backlog(now)

    def store_offline(self, now: int) -> None:
        """FC-7: what was offered while the client is offline joins the mqueue, QoS 0 only with `mqueue_store_qos0`."""
        counters = self.sender.counters
        for publish in self.mailbox.take_all():
            counters.count_offered(publish.qos)
            if publish.qos == 0 and not self.sender.limits.mqueue_store_qos0:
                counters.count_drop("offline_qos0", 0)
            else:
                self._enqueue(publish, now)
            if publish.holder is not None:
                release(publish)  # FC-24
        self.awake = False

    # -- pacing publishers (FC-16)

    def _stays(self, publish: Publish, now: int) -> bool:
        """Whether a delivery that has to be queued stays in the mailbox, because it would overflow the mqueue."""
        mqueue = self.mqueue
        limits = self.sender.limits
        if mqueue is None or mqueue.fits(publish, limits) or not limits.overflow_patience:
            return False
        if self._head_may_go(mqueue, now) or never_fits(publish, limits):
            return False  # sending makes room, or nothing can
        if drop_expired(mqueue, publish, limits, self.sender.counters, now):
            return False
        pacing = self.pacing
        if pacing is None:
            pacing = self.pacing = Pacing(limits.overflow_patience, now)
        paced = pacing.begin(self.sender.host, now)
        if paced and not self.paced:
            self.sender.host.read_acknowledgements()
        self.paced = paced
        return paced

    def _check_pacing(self, mqueue: MQueue, now: int) -> bool:
        """End pacing if there is relief; returns whether a pass can take something from the mailbox."""
        pacing = self.pacing
        assert pacing is not None  # `paced` implies it
        waiting = self.mailbox.length()
        if has_relief(mqueue, waiting, self.sender.limits):
            pacing.end(now)
        self.paced = pacing.active
        if waiting == 0 or not self.paced:
            return waiting > 0
        publish = self.mailbox.first()
        if mqueue.fits(publish, self.sender.limits):
            return True
        return self._closed_to(publish.qos) == qos0_gate.OPEN and self.sender.limited_by(publish, now) == qos0_gate.OPEN

    def _admits(self, publish: Publish, publisher: "Outbound | None", now: int) -> bool:
        """A delivery is offered while publishers are paced: pace its publisher too, or drop the delivery.

        Returns False if it was dropped. A delivery whose publisher cannot be paced, such as a will, is accepted while
        the mailbox has room.
        """
        pacing = self.pacing
        assert pacing is not None  # `paced` implies it
        if publisher is not None and publisher.pace(pacing, now):
            return True
        self.paced = pacing.active
        if not self.paced or self.mailbox.has_room(publish, self.sender.limits):
            return True
        sender = self.sender
        sender.counters.count_offered(publish.qos)
        if self.mqueue is not None:
            drop_newcomer(self.mqueue, publish, self.sender.limits, sender.counters, sender.host, "mqueue_full")
        return False

    def pace(self, pacing: Pacing, now: int) -> bool:
        """Pace the client as a publisher, for one more queue; False if that is not possible."""
        sender = self.sender
        if not sender.connected:
            return False
        publisher = self.publisher
        if publisher is None:
            publisher = self.publisher = Publisher(sender.host, self.sender.limits.overflow_patience, now)
        if not pacing.pause(publisher, now):
            return False
        sender.arm(publisher.check_at(pacing, now))
        return True

    # -- pulling from shared queues (FC-13) and retained messages

    def is_online(self) -> bool:
        """Whether its client is connected."""
        return self.sender.connected

    def is_open(self) -> bool:
        """Whether window and send path allow a delivery of any QoS, and the mqueue is empty."""
        return self.sender.is_open() and (self.mqueue is None or self.mqueue.length == 0)

    def has_room(self) -> bool:
        """Whether the pass may write more."""
        return self.sender.has_room()

    def has_spare_room(self) -> bool:
        """Whether this pass has room for more than the session's own deliveries."""
        return self.sender.has_room() and self.mailbox.length() == 0

    def can_send(self, publish: Publish, now: int) -> bool:
        """Whether a source's delivery can be sent at once; if not, it stays in the source."""
        return self.is_open() and self.sender.limited_by(publish, now) == qos0_gate.OPEN

    def send_pulled(self, publish: Publish, source: Source | None, now: int) -> None:
        """Send a delivery. `source` may get it back if the session ends before it is acknowledged."""
        sender = self.sender
        sender.counters.count_offered(publish.qos)
        if self.journal is not None and publish.qos:
            publish = self.journal.add(publish)
            hold(publish)
            packet_id = sender.send(publish, now)
            release(publish)
        else:
            packet_id = sender.send(publish, now)
        if packet_id and source is not None:
            if sender.sources is None:
                sender.sources = {}
            sender.sources[packet_id] = source

    def room(self) -> int:
        """How many more deliveries of any QoS would be sent and not queued; at most one pass's."""
        window = self.sender.window
        free: int = window.limit - len(window.entries) - self.mailbox.length()
        return max(min(free, PASS_DELIVERIES), 0) if self.is_open() else 0

    # -- connecting and disconnecting

    def connect(self, host: Host, outbox: Outbox, window: int, now: int) -> None:
        """Attach a client: its kept window (FC-8), then what waits, goes into the outbox."""
        sender = self.sender
        if self.publisher is not None:
            self.publisher.host = host
        self.mailbox.busy = False
        sender.connect(host, outbox, window, now)
        self.drain(now)
        if sender.window.full():
            sender.watch_window(now)
        if self.mqueue is not None and self.mqueue.length:
            sender.watch_backlog(now)
        if self.pacing is not None:
            self.pacing.moved_at = now  # without a connection it could not drain

    def disconnect(self, host: Host, now: int) -> None:
        """Detach the client: the mailbox is stored as FC-7 says."""
        self.paced = False
        end_pacing(self.pacing, self.publisher, now)
        self.sender.disconnect(host, now)
        self.store_offline(now)

    def end(self, now: int) -> None:
        """End the session: what waits is dropped and counted."""
        counters = self.sender.counters
        self.paced = False
        end_pacing(self.pacing, self.publisher, now)
        for publish in self.mailbox.take_all():
            counters.count_offered(publish.qos)
            counters.count_drop("session_ended", publish.qos)
            if publish.holder is not None:
                release(publish)  # FC-24
        mqueue = self.mqueue
        if mqueue is not None:
            while mqueue.length:
                counters.count_drop("session_ended", mqueue.drop_head())
        self.sender.end(now)
        self.pending_sources = None
