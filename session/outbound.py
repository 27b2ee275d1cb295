"""What may be sent to one session next: mailbox and gate (FC-2 to FC-7, FC-16). `Sender` sends it.

router -> mailbox -> run_pass -> gate, window -> sender -> outbox, which the connection writes
                              -> backlog -> drain -> sender
          shared queues of groups (FC-13) -> drain -> sender
"""

from typing import Final, final

from mypy_extensions import i64

from protocol.publish import Publish
from session import qos0_gate
from session.backlog import Backlog
from session.holder import hold, release
from session.host import Host
from session.journal import QueueJournal
from session.limits import Limits
from session.mailbox import Mailbox
from session.mqueue import MQueue
from session.outbox import Outbox
from session.pacing import Pacer, Publisher, end_pacing
from session.sender import DRAIN_BYTES, PASS_BYTES, Sender
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
        # Attributes that each delivery reads are adjacent: with many sessions cache misses matter.
        self.backlog: Backlog | None = None
        """What waits besides the mailbox; None until something has to wait for the first time."""
        self.journal: QueueJournal | None = None
        """FC-27; None = its deliveries do not survive the process."""
        self.mailbox = Mailbox()
        self.host = host
        """The sender's, for `offer`."""
        self.sender = Sender(limits, host, self.mailbox, now)
        self.publisher: Publisher | None = None
        """FC-16, as a publisher; None until it is first paced."""
        if self.sender.throttle is not None or limits.backpressure:
            self.begin_backlog()

    def begin_backlog(self) -> Backlog:
        """The backlog, for something that has to wait: only what is in it is sent later, by `drain`."""
        backlog = self.backlog
        if backlog is None:
            backlog = self.backlog = Backlog(self.sender, self.mailbox)
        return backlog

    @property
    def mqueue(self) -> MQueue | None:
        """The session's mqueue; None until a delivery has to wait in it."""
        return None if self.backlog is None else self.backlog.mqueue

    # -- from the router to the sender

    def offer(self, publish: Publish, publisher: "Outbound | None") -> None:
        """Put a delivery into the mailbox; `publisher` is None for the broker's own messages and wills."""
        if (
            self.backlog is not None
            and self.backlog.asks
            and not self.backlog.admits(publish, publisher, _is_link(publisher), publish.received_at)
        ):
            return
        mailbox = self.mailbox
        deliveries = mailbox.deliveries
        if len(deliveries) >= MOST_WAITING:
            self.sender.counters.count_offered(publish.qos)
            self.sender.counters.count_drop("queue_full", publish)
            return
        if self.journal is not None and publish.qos:
            publish = self.journal.add(publish)
        if deliveries:  # like `Mailbox.add`, without the call
            deliveries.append(publish)
        else:
            mailbox.deliveries = [publish]
        if publish.holder is not None:
            hold(publish)  # FC-24
        if not self.host.awake:
            self.host.wake()

    def wake(self) -> None:
        """Have the host run passes."""
        self.sender.host.wake()

    def run_pass(self, now: int) -> bool:  # noqa: C901, PLR0912, PLR0915 - it runs for each delivery: calls cost more
        """Take up to 100 deliveries, send or queue each, drain what waits; returns whether another pass has work to do.

        The caller writes the outbox after each call. If it returns False, the host is woken when there is work again.
        """
        mailbox = self.mailbox
        sender = self.sender
        counters = sender.counters
        outbox = sender.outbox
        window = sender.window
        throttle = sender.throttle
        if throttle is not None:
            throttle.note_written(outbox, sender.congested)
        backlog = self.backlog
        gate = sender.limits.gate
        most: i64 = PASS_BYTES if backlog is None or backlog.queued() == 0 else DRAIN_BYTES
        blocked = False
        for _taken in range(PASS_DELIVERIES):  # compiled code makes objects of the numbers if it is called `_`
            if mailbox.position == len(mailbox.deliveries) or outbox.delivery_bytes >= most:
                break
            publish = mailbox.deliveries[mailbox.position]
            qos = publish.qos
            if backlog is not None:
                closed = backlog.closed_to(publish, now)
                if closed != qos0_gate.OPEN and backlog.blocks(publish, now):
                    blocked = True
                    break
            elif qos == 0 and gate:
                closed = qos0_gate.closed_by(sender.congested, window.full, mailbox.busy, False)
            else:
                closed = qos0_gate.WINDOW_FULL if qos and window.full else qos0_gate.OPEN
            mailbox.position += 1
            if qos == 0:
                counters.offered_qos0 += 1
            elif qos == 1:
                counters.offered_qos1 += 1
            else:
                counters.offered_qos2 += 1
            if closed == qos0_gate.OPEN:
                sender.send(publish, now)
            else:
                if qos == 0:
                    counters.begin_uncommon().count_gated(closed)
                if backlog is None:
                    backlog = self.begin_backlog()
                backlog.add(publish, self.journal, now)
            if publish.holder is not None:
                release(publish)  # FC-24: now that the window or the mqueue holds it
        waiting = mailbox.sample(counters)
        more = self.backlog is not None and self.backlog.drain(self, now)
        awake = sender.host.awake = more or (waiting > 0 and not blocked)
        return awake

    def drain(self, now: int) -> bool:
        """FC-4: send what waits and may be sent, at most one pass's bytes; returns whether more can be sent.

        First the mqueue from its head, then what sources such as groups have for this session (FC-13).
        """
        return self.backlog is not None and self.backlog.drain(self, now)

    def store_offline(self, now: int) -> None:
        """FC-7: what was offered while the client is offline joins the mqueue, QoS 0 only with `mqueue_store_qos0`."""
        counters = self.sender.counters
        for publish in self.mailbox.take_all():
            counters.count_offered(publish.qos)
            if publish.qos == 0 and not self.sender.limits.mqueue_store_qos0:
                counters.count_drop("offline_qos0", publish)
            else:
                self.begin_backlog().add(publish, self.journal, now)
            if publish.holder is not None:
                release(publish)  # FC-24

    # -- pacing publishers (FC-16)

    def paces(self) -> bool:
        """Whether publishers are paced until the client has taken some of what waits for it."""
        return self.backlog is not None and self.backlog.paced

    def pace(self, pacing: Pacer, now: int) -> bool:
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

    def may_get_more(self) -> bool:
        """Whether a source has, or may have, deliveries."""
        backlog = self.backlog
        return backlog is not None and backlog.sources is not None and len(backlog.sources.sources) > 0

    def pull_later(self, source: Source) -> None:
        """A source has, or may have, deliveries: pull from it when the session can send."""
        self.begin_backlog().add_source(source)

    def forget(self, source: Source) -> None:
        """Do not pull from a source any more that `pull_later` has added."""
        if self.backlog is not None:
            self.backlog.forget_source(source)

    def is_online(self) -> bool:
        """Whether its client is connected."""
        return self.sender.connected

    def is_open(self) -> bool:
        """Whether window and send path allow a delivery of any QoS, and the mqueue is empty."""
        return self.sender.is_open() and (self.backlog is None or self.backlog.queued() == 0)

    def has_room(self) -> bool:
        """Whether the pass may write more of what has waited."""
        return self.sender.has_room()

    def has_spare_room(self) -> bool:
        """Whether this pass has room for more than the session's own deliveries."""
        return self.sender.has_room() and self.mailbox.length() == 0

    def can_send(self, publish: Publish, now: int) -> bool:
        """Whether a source's delivery can be sent at once; if not, it stays in the source."""
        if not self.is_open() or self.sender.limited_by(publish, now) != qos0_gate.OPEN:
            return False
        return self.journal is None or self.may_pull(publish, now)

    def may_pull(self, publish: Publish, now: int) -> bool:
        """FC-29: whether a delivery that is in a source may be written for this session; if not, ask again later."""
        pause = self.journal.pull_pause() if self.journal is not None and publish.qos else 0
        if pause:
            self.sender.arm(now + pause)
        return pause == 0

    def send_pulled(self, publish: Publish, source: Source | None, now: int) -> int:
        """Send a delivery. Returns its packet id, 0 = it is not in the window. `source` may get it back."""
        sender = self.sender
        sender.counters.count_offered(publish.qos)
        if self.journal is not None and publish.qos:
            origin = None if source is None else source.journal
            publish = self.journal.add(publish) if origin is None else self.journal.add_pulled(publish, origin)
            hold(publish)
            packet_id = sender.send(publish, now)
            release(publish)
        else:
            packet_id = sender.send(publish, now)
        if packet_id and source is not None:
            sender.note_source(packet_id, source)
        return packet_id

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
        self.host = host
        if sender.connect(host, outbox, window, now) or sender.throttle is not None:
            self.begin_backlog()  # FC-8: the kept window is resent by `drain`; a throttle has it asked
        if self.backlog is not None and self.backlog.backpressure is not None:
            self.backlog.backpressure.note_presence(True, now)
        self.drain(now)
        if sender.window.full:
            sender.watch_window(now)
        if self.backlog is not None and self.backlog.queued():
            self.backlog.since = now
            sender.watch_backlog(now)
        if sender.pacing is not None:
            sender.pacing.note_connected()

    def disconnect(self, host: Host, now: int) -> None:
        """Detach the client: the mailbox is stored as FC-7 says."""
        self._end_pacing(now)
        self.host = host
        self.sender.disconnect(host, now)
        if self.backlog is not None and self.backlog.backpressure is not None:
            self.backlog.backpressure.note_presence(False, now)
        self.store_offline(now)

    def _end_pacing(self, now: int) -> None:
        if self.backlog is not None:
            self.backlog.set_paced(False)
        end_pacing(self.sender.pacing, self.publisher, now)

    def end(self, now: int) -> None:
        """End the session: what waits is dropped and counted."""
        counters = self.sender.counters
        self._end_pacing(now)
        for publish in self.mailbox.take_all():
            counters.count_offered(publish.qos)
            counters.count_drop("session_ended", publish)
            if publish.holder is not None:
                release(publish)  # FC-24
        if self.backlog is not None:
            self.backlog.drop_all()
        self.sender.end(now)
        self.host = self.sender.host
        self.backlog = None


def _is_link(publisher: Outbound | None) -> bool:
    return publisher is not None and publisher.sender.limits.of_cell
