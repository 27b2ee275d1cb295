"""The model of the way to the client: FC-2 to FC-9 and FC-16, from the mailbox to the outbox.

mailbox -> a pass: gate, window, mqueue -> outbox -> `flush`, which is what the client gets
"""

from typing import Final

from tests.model.message import Message, Packet
from tests.model.state import PACKET_IDS, Inflight, State
from tests.model.waiting import older_in

PASS_DELIVERIES: Final = 100
PASS_BYTES: Final = 262_144
DRAIN_BYTES: Final = 65_536
SENDS_PER_SAMPLE: Final = 100
BUSY_ABOVE: Final = 10
BUSY_UP_TO: Final = 5


class Sending(State):
    """What a session sends, and what it keeps back."""

    # -- a pass

    def run_pass(self) -> None:
        """Take up to 100 deliveries from the mailbox, schedule each, drain.

        Corner: a pass ends early when its outbox holds 256 KiB of deliveries, 64 KiB if any waited in the mqueue.
        """
        self._note_written()
        taken = 0
        most = DRAIN_BYTES if self.mqueue.waiting else PASS_BYTES
        while self.mailbox and taken < PASS_DELIVERIES and self._outbox_bytes() < most:
            reason = self._closed(self.mailbox[0])
            if reason and self._stays(self.mailbox[0]):
                break
            message = self.mailbox.pop(0)
            taken += 1
            self._schedule(message, reason)
        self._sample_mailbox()
        self.drain()

    def _schedule(self, message: Message, reason: str) -> None:
        if reason and message.qos == 0:
            self.books.count(f"gated_{reason}")
        if reason:
            self._queue(message)
        else:
            self._send(message)

    def _closed(self, message: Message) -> str:
        """What keeps a delivery from being sent at once: the gate for QoS 0, what is ahead of QoS 1 and 2 (FC-2)."""
        replaces = "backlog" if older_in(self.mqueue, message) is not None else ""  # FC-37: it does not overtake that
        if message.qos == 0:
            return self._gate() or replaces or self._throttle(message)
        if self.no_slot() or any(waiting.qos for waiting in self.mqueue.waiting):
            return "window_full"
        return replaces or self._throttle(message)

    def _stays(self, message: Message) -> bool:
        """FC-16: whether it stays in the mailbox, and what is behind it too, because it would overflow the mqueue."""
        if self.knobs.fair or not self._overflows(message) or self.pacer.too_big(message):
            return False  # FC-33: what is quiet does not wait behind what is loud
        if self.mqueue.drop_expired(message, self.now, self.books):
            return False
        return self.pacer.begin()

    def _overflows(self, message: Message) -> bool:
        """Whether it has to wait, and would push out something that waits already and may not go."""
        if not self.knobs.overflow_patience or not self._closed(message) or self.mqueue.fits(message):
            return False
        return not (self.mqueue.waiting and self.may_go(self.mqueue.head()))

    def _drop_arrival(self, message: Message) -> None:
        if self.mqueue.begin_episode():
            self.reports.append("mqueue_full")
        self.books.drop("queue_full", message.qos)

    def _gate(self) -> str:
        """FC-3: the first reason that holds."""
        if not self.knobs.gate:
            return self._without_gate()
        if self.congested:
            return "congested"
        if self.no_slot():
            return "window_full"
        if self.mailbox_busy:
            return "mailbox_busy"
        return "backlog" if self.mqueue.waiting else ""

    def _without_gate(self) -> str:
        """Corner: without the gate QoS 0 still goes after the kept window (FC-8) and after older QoS 0 (FC-9)."""
        if self._kept():
            return "window_full"
        return "backlog" if any(waiting.qos == 0 for waiting in self.mqueue.waiting) else ""

    def _sample_mailbox(self) -> None:
        """FC-3: every 100 sends and at the end of each pass; corner: at its end means before it drains."""
        length = len(self.mailbox)
        if length > BUSY_ABOVE:
            self.mailbox_busy = True
        elif length <= BUSY_UP_TO:
            self.mailbox_busy = False
        self.sends = 0
        self.books.count("mailbox_samples")
        self.books.count("mailbox_busy_samples", int(self.mailbox_busy))
        self.books.highest("mailbox_max", length)
        self.books.value("mailbox_buckets", length)

    # -- sending

    def _send(self, message: Message) -> None:
        if message.expired(self.now):
            self.books.drop("expired", message.qos)
            return
        if self._too_large(message):
            self.books.drop("too_large", message.qos)  # [MQTT-3.1.2-24]
            return
        packet_id = 0
        if message.qos:
            packet_id = self._free_id()
            waits_for = "PUBACK" if message.qos == 1 else "PUBREC"
            self.window.append(Inflight(packet_id, message, self.now, self.now, waits_for))
            self.books.highest("window_max", len(self.window))
            if self.window_full():
                self.slow.moved_at = self.now
        elif self.knobs.consumer_window_size >= 0:
            self.unwritten_qos0.append(message)
        # Corner: what a pass may write counts the packet identifier of a resent PUBLISH, and not that of a first one.
        size = message.packet_length(self.version) - (2 if packet_id else 0)
        self.outbox.append((message.packet(packet_id, False, self.now, self.version), size))
        if self.rate is not None:
            self.rate.spend(self.now)
        self.books.count(f"sent_qos{message.qos}")
        self.books.count("sent_bytes", message.size)
        self.books.value(f"wait_qos{message.qos}_buckets", self.now - max(message.routed_at, message.restored_at))
        self.sends += 1
        if self.sends == SENDS_PER_SAMPLE:
            self._sample_mailbox()

    def _free_id(self) -> int:
        """[MQTT-2.2.1-4]; corner: one after the other, and not the lowest that is free."""
        used = [inflight.packet_id for inflight in self.window]
        while True:
            self.last_id = self.last_id % PACKET_IDS + 1
            if self.last_id not in used:
                return self.last_id

    def _too_large(self, message: Message) -> bool:
        return 0 < self.maximum_packet_size < message.packet_length(self.version)

    def _answer(self, packet: Packet) -> None:
        """FC-15: no limit counts or delays a control packet."""
        self.outbox.append((packet, 0))

    # -- the mqueue

    def _queue(self, message: Message) -> None:
        """FC-5, after FC-6: what may be sent is sent before anything is dropped."""
        had_backlog = bool(self.mqueue.waiting)
        while self.mqueue.waiting and not self.mqueue.fits(message) and self.may_go(self.mqueue.head()):
            self._send_head()
        if not self.mqueue.waiting and not self.mqueue.fits(message) and self.may_go(message):
            self._send(message)  # too large to wait, and need not
            return
        if not self.mqueue.fits(message):
            self.mqueue.keeps = self.telling.applies() and (
                message.qos == 0 or self.telling.tells(self.connected, self.now)
            )
        joins, began = self._is_promised(message) or self._waits_beyond(message), False
        if not joins:
            joins, began = self.mqueue.make_room(message, self.now, self.books)
        if began:
            self.reports.append("mqueue_full")
        if not joins:
            return
        self.mqueue.join(message, self.books)
        if not had_backlog:
            self.looked_at = self.now
        if self.connected and not had_backlog:
            self.slow.begin_backlog(self.now)

    # -- telling publishers (FC-34)

    def _has_place(self, message: Message | None, times: int = 1) -> bool:
        """Whether the window or the mqueue has room, behind what is in the mailbox; None: for one byte.

        Corner: what is in the mailbox counts as if none of it had QoS 0.
        """
        at_once = 0
        if self.connected and not self.congested and not self.no_slot() and not self.mqueue.waiting:
            at_once = self.window_limit - len(self.window)
            if self.knobs.consumer_window_size >= 0 or self.rate is not None:
                at_once = int(message is None or not self._throttle(message))
        if len(self.mailbox) < at_once:
            return True
        older = None if message is None else older_in(self.mqueue, message)  # FC-37: it goes
        ahead = [waiting for waiting in self.mqueue.waiting if waiting is not older] + self.mailbox[at_once:]
        length, size = times * self.knobs.max_mqueue_len, times * self.knobs.max_mqueue_bytes
        own = 1 if message is None else message.size
        return (not length or len(ahead) < length) and (not size or sum(m.size for m in ahead) + own <= size)

    def _is_promised(self, message: Message) -> bool:
        """FC-33: a fair queue has told a quiet publisher that there is room, up to twice its limits."""
        return (
            self.knobs.fair
            and message.qos > 0
            and self.mqueue.keeps
            and not self.mqueue.fits(message)
            and self.mqueue.fits(message, 2)
        )

    def _send_head(self) -> None:
        head = self.mqueue.pop()
        if head.overdue(self.now, self.knobs.max_mqueue_age) == "aged":  # FC-36
            self.books.drop("aged", head.qos)
        else:
            self._send(head)
        self.slow.drained += 1
        self.pacer.moved()

    def _waits_beyond(self, message: Message) -> bool:
        """FC-16, FC-33: while it holds back publishers, a fair queue takes what comes, as another's mailbox does."""
        if not self.knobs.fair or not self.knobs.overflow_patience or not self.connected:
            return False
        if self.mqueue.fits(message) or self.pacer.too_big(message):
            return False
        return not self.mqueue.drop_expired(message, self.now, self.books) and self.pacer.begin()

    def drain(self) -> None:
        """FC-4, after FC-8: the kept window goes before anything new.

        Corner: an episode of overflowing ends when a drain leaves nothing waiting, unless nothing waited before and
        the way is closed: what is too large to wait leaves no trace in the queue.
        """
        self._note_written()
        self._resend_kept()
        waited = len(self.mqueue.waiting)
        while self._outbox_bytes() < DRAIN_BYTES and self.mqueue.waiting and self.may_go(self.mqueue.head()):
            self._send_head()
        if not self.mqueue.waiting:
            self.pacer.empty()
            if waited or not (self.congested or self.no_slot()):
                self.mqueue.overflowing = False
            self.slow.end_backlog()
        if self.pacer.on and self.pacer.relieved(self.mqueue, len(self.mailbox)):
            self.pacer.end()
        if self.telling.applies() and self.connected:
            self.telling.drained(self._has_place(None), len(self.mqueue.waiting) < waited, self.now)
        self.head_waits_for = self._throttle(self.mqueue.head()) if self.connected and self.mqueue.waiting else ""

    def has_work(self) -> bool:
        """Whether a pass would find something to do once the outbox has been written."""
        if self.mailbox and not (self.pacer.on and not self.knobs.fair and self._overflows(self.mailbox[0])):
            return True  # corner: that time is over for what waits wakes nobody
        if self._kept() and self._room_to_resend() and self._may_resend(self._kept()[0]):
            return True
        if not self.connected or not self.mqueue.waiting:
            return False
        unwritten = self.unwritten_qos0
        if not self.congested:
            self.unwritten_qos0 = []
        may_go = self.may_go(self.mqueue.head())
        self.unwritten_qos0 = unwritten
        return may_go

    # -- resending (FC-8)

    def _room_to_resend(self) -> bool:
        return sum(inflight.here for inflight in self.window) < self.window_limit  # FC-1

    def _resend_kept(self) -> None:
        """On reconnect: first sent first, as many as the new window holds; FC-38: a pass at a time, within the rate.

        Corner: what is too large for the client now is let go of as if it were completed [MQTT-3.1.2-25].
        """
        while self._kept() and self._room_to_resend() and self._outbox_bytes() < DRAIN_BYTES:
            inflight = self._kept()[0]
            if not self._may_resend(inflight):
                break
            if inflight.waits_for != "PUBCOMP" and self._too_large(inflight.message):
                self.window.remove(inflight)
                self._completed(inflight)
                continue
            if inflight.waits_for != "PUBCOMP" and self.rate is not None:
                self.rate.spend(self.now)
            self._resend(inflight)

    def _may_resend(self, inflight: Inflight) -> bool:
        """FC-38: the rate counts PUBLISHes that are resent."""
        if inflight.waits_for == "PUBCOMP" or self._too_large(inflight.message):
            return True
        return self.rate is None or self.rate.tokens_at(self.now) >= 1

    def _resend(self, inflight: Inflight) -> None:
        inflight.here = True
        inflight.last_sent_at = self.now
        if inflight.waits_for == "PUBCOMP":
            self._answer(("PUBREL", inflight.packet_id, 0))
            self.books.count("resent_pubrel")
        else:
            packet = inflight.message.packet(inflight.packet_id, True, self.now, self.version)
            self.outbox.append((packet, inflight.message.packet_length(self.version)))
            self.books.count("resent_publish")

    def _retry(self) -> None:
        """While connected, 3.1.1 only. Corner: not while congested; then it is looked at an interval later."""
        interval = self.knobs.retry_interval
        if not self.connected or self.version != 4 or not interval:
            return
        if self.congested:
            self.retry_put_off = self.now + interval
            return
        for inflight in self.window:
            if inflight.here and self.now >= inflight.last_sent_at + interval:
                self._resend(inflight)
