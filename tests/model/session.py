"""The model of one session: FC-1 to FC-16 and FC-20 to FC-22, written down as they read."""

from tests.model.books import Books
from tests.model.inbound import PROTOCOL_ERROR, ClosedError
from tests.model.message import SECOND, Message, Packet
from tests.model.mqueue import MQueue
from tests.model.pacing import Publisher
from tests.model.sending import Sending
from tests.model.state import PACKET_IDS


class Model(Sending):
    """One session, and what may happen to it."""

    # -- from the router

    def route(self, message: Message, publisher: Publisher | None = None) -> None:
        """A delivery comes to the mailbox; an offline session stores it at once (FC-7)."""
        self.books.count(f"routed_qos{message.qos}")
        if self.pacer.on and not self._admits(publisher, message):
            self._drop_arrival(message)
            return
        self.mailbox.append(message)
        if not self.connected:
            self._store_offline()

    def _admits(self, publisher: Publisher | None, message: Message) -> bool:
        """FC-16; below its share a publisher is not held back (FC-33)."""
        if not self.knobs.fair:
            return self.pacer.admits(publisher, message, self.pacer.fits_mailbox(message, self.mailbox))
        if not self.mqueue.exceeds_share(message):
            return True
        return self.pacer.admits(publisher, message, self.mqueue.fits(message, 2))

    def _store_offline(self) -> None:
        for message in self.mailbox:
            if message.qos == 0 and not self.knobs.mqueue_store_qos0:
                self.books.drop("offline_qos0", 0)
            else:
                self._queue(message)
        self.mailbox = []

    def lacks_room(self, message: Message) -> bool:
        """Whether the publisher of a message of QoS 1 or 2 is told that there is no room for it."""
        self.mqueue.drop_expired(message, self.now, self.books)
        fair = self.knobs.fair and not self.mqueue.exceeds_share(message)  # FC-33
        has_place = self._has_place(message) or (fair and self._has_place(message, 2))
        self.telling.lacks(has_place, not self._has_place(None), self.now)
        if has_place:
            return False
        if self.mqueue.begin_episode():
            self.reports.append("mqueue_full")
        return self.telling.tells(self.connected, self.now)

    # -- acknowledgements (FC-1, FC-21)

    def acknowledge(self, kind: str, packet_id: int, reason_code: int) -> None:
        """A PUBACK, PUBREC or PUBCOMP; one of the wrong kind closes the connection [MQTT-4.13.1-1]."""
        failed = reason_code >= 0x80
        inflight = next((inflight for inflight in self.window if inflight.packet_id == packet_id), None)
        if inflight is None:
            if kind == "PUBREC" and not failed:
                self._answer(("PUBREL", packet_id, 0x92 if self.version == 5 else 0))
            return
        rightly = kind == inflight.waits_for or (kind == "PUBREC" and inflight.waits_for == "PUBCOMP")
        if not rightly:
            raise ClosedError(PROTOCOL_ERROR)
        self.slow.moved_at = self.now
        if kind == "PUBREC" and not failed:
            # Corner: what is still to be resent on this connection is resent in its turn nevertheless, as PUBREL.
            inflight.waits_for = "PUBCOMP"
            inflight.last_sent_at = self.now
            self._answer(("PUBREL", packet_id, 0))
            return
        self.window.remove(inflight)
        self._completed(inflight)
        self.pacer.moved()  # corner: that is as good as draining, also if nothing waits
        self.slow.acknowledged += 1
        qos = inflight.message.qos
        self.books.count(f"acknowledged_qos{qos}")
        self.books.value(f"ack_qos{qos}_buckets", self.now - inflight.sent_at)

    # -- coming and going

    def connect(self, version: int, receive_maximum: int, maximum_packet_size: int) -> None:
        """A client attaches; 0 = it stated none."""
        own = self.knobs.max_inflight or PACKET_IDS
        self.window_limit = min(own, receive_maximum or PACKET_IDS)  # FC-1
        self.version = version
        self.maximum_packet_size = maximum_packet_size
        self.connected = self.publisher.connected = True
        self.telling.away_since = None
        self.congested = False
        self.mailbox_busy = False
        self.retry_put_off = 0
        self.slow.moved_at = self.now
        self.inbound.connect()
        self.drain()
        if self.mqueue.waiting:
            self.slow.begin_backlog(self.now)
        self.pacer.connected()

    def disconnect(self) -> None:
        """The client is gone, the session stays; what was in the outbox is lost, but for what the window keeps."""
        self._stop_pacing()
        self.connected = False
        self.telling.away_since = self.now
        self.congested = self.throttled = self.reading_paused = False
        self.outbox = []
        self.inbound.disconnect()
        self.unwritten_qos0 = []
        self.head_waits_for = ""
        for inflight in self.window:
            inflight.here = False
        self.slow.disconnect()
        self._store_offline()

    def end(self) -> None:
        """The session is over: what waits is dropped, and counted as that."""
        self._stop_pacing()
        for message in self.mailbox + self.mqueue.waiting:
            self.books.drop("session_ended", message.qos)
        self.mailbox = []
        self.mqueue = MQueue(self.knobs)
        self.window = []
        self.unwritten_qos0 = []
        self.head_waits_for = ""
        self.connected = False
        self.over = True

    def _stop_pacing(self) -> None:
        """FC-16: nobody is held back for who is gone, and nobody who is gone."""
        self.pacer.end()
        self.publisher.go()
        self.publisher.connected = False

    # -- time

    def on_timer(self) -> list[Packet] | None:
        """What is due is done. Returns what is written at last if the client is disconnected for being slow (FC-14)."""
        self.inbound.forget_overdue(self.now, self.books)
        self.let_in()
        self._retry()
        self.mqueue.drop_aged(self.now, self.books)
        self.looked_at = self.now
        farewell = self._look_for_slow() if self.connected else None
        self.publisher.look()
        return farewell

    def _look_for_slow(self) -> list[Packet] | None:
        if self.slow.is_stalled(self.window_full(), self.now):
            self.books.count("stalled_window")
            self.reports.append("stalled_window")
        if self.slow.is_slow(self.now):
            self.books.count("slow_consumer")
            self.reports.append("slow_consumer")
            if self.knobs.slow_disconnect:
                packets = self.flush()
                self.disconnect()
                return packets
        return None

    def deadline(self) -> int | None:
        """When something comes due, at the latest."""
        if self.over:
            return None
        due = [self.inbound.deadline()]
        if self.inbound.waiting and self.inbound.has_room():
            due.append(self.now)
        here = [inflight.last_sent_at for inflight in self.window if inflight.here]
        if self.connected and self.version == 4 and self.knobs.retry_interval and here:
            due.append(max(min(here) + self.knobs.retry_interval, self.retry_put_off))
        if self.connected:
            due.append(self.slow.stalls_at(self.window_full()))
            if self.slow.backlog_since is not None:
                due.append(self.slow.backlog_since + self.knobs.slow_check_period)
        if self.rate is not None and self.head_waits_for == "rate":
            due.append(self.rate.next_at(self.now))
        if self.knobs.max_mqueue_age and self.mqueue.waiting:
            due.append(self.looked_at + min(max(self.knobs.max_mqueue_age // 8, SECOND), 60 * SECOND))
        due.append(self.publisher.deadline(self.now))
        return min((at for at in due if at is not None), default=None)

    # -- from the client

    def on_publish(self, qos: int, packet_id: int, size: int, dup: bool) -> bool:
        """A PUBLISH comes; returns whether it is to be routed (FC-20 to FC-22a)."""
        answers: list[Packet] = []
        again = qos == 2 and self.inbound.comes_again(packet_id, dup, answers)
        routed = not again and self.inbound.accept(
            qos, packet_id, size, self.version, self.books, answers, self.reports
        )
        for answer in answers:
            self._answer(answer)
        if routed:
            self.books.count(f"received_qos{qos}")
            self.books.count("received_bytes", size)
        return routed

    def answer(self, qos: int, packet_id: int, reason_code: int) -> None:
        """A PUBLISH has been routed or refused (FC-21)."""
        if qos == 2 and reason_code < 0x80:
            self.inbound.remember(packet_id, self.now)
        if qos:
            self._answer(self.inbound.answer(qos, packet_id, reason_code, self.version))

    def on_pubrel(self, packet_id: int) -> None:
        """FC-21."""
        self._answer(self.inbound.release(packet_id, self.version))
        self.let_in()

    def let_in(self) -> None:
        """FC-22: what waits for an id and may have one is routed, and answered as one that has just come."""
        for answer in self.inbound.let_in(self.now, self.books):
            self._answer(answer)

    # -- the books

    def waiting(self, qos: int) -> int:
        """Deliveries of a QoS that wait."""
        return sum(message.qos == qos for message in self.mailbox + self.mqueue.waiting)

    def end_interval(self) -> Books:
        """The metrics interval ends: what has been counted in it, and how things stand."""
        books = self.books
        following = self.books = Books(self.now)
        for qos in range(3):
            books.counts[f"offered_qos{qos}"] = books.counts[f"routed_qos{qos}"]
            books.counts[f"waiting_qos{qos}"] = self.waiting(qos)
            books.counts[f"waiting_start_qos{qos}"] = self.waiting_start[qos]
            self.waiting_start[qos] = self.waiting(qos)
            self.life["sent"] += books.counts[f"sent_qos{qos}"]
            self.life["acknowledged"] += books.counts[f"acknowledged_qos{qos}"]
            self.life["dropped"] += books.counts[f"dropped_qos{qos}"]
        self.life["window_full_us"] += books.counts["window_full_us"]
        books.counts["window_len"] = following.counts["window_max"] = len(self.window)
        books.counts["window_limit"] = self.window_limit
        books.counts["max_inflight"] = self.knobs.max_inflight or PACKET_IDS
        books.counts["mqueue_len"] = following.counts["mqueue_max"] = len(self.mqueue.waiting)
        books.counts["mqueue_bytes"] = following.counts["mqueue_bytes_max"] = self.mqueue.bytes()
        books.counts["awaiting_rel_len"] = len(self.inbound.awaiting_rel)
        books.counts["window_bytes"] = self.bytes_on_the_way()
        return books
