"""A kept session in the journal (FC-27)."""

from typing import cast, final

from broker.runtime.clock import monotonic_us
from broker.storage import message_record, records
from broker.storage.deliveries import Number
from broker.storage.index import Entry, Index
from broker.storage.journal import Journal
from broker.storage.kept_queue import KeptQueue
from broker.storage.owner import Owner
from broker.storage.saved import SavedSession
from protocol.publish import Publish
from protocol.subscribe import Subscription
from session.journal import QueueJournal, ReceivedJournal


@final
class KeptSession(KeptQueue, ReceivedJournal):
    """Writes a kept session's records, and has its state as it is in the journal."""

    def __init__(self, journal: Journal, number: int, client_id: str) -> None:
        super().__init__(journal, number)
        self.client_id = client_id
        self.version = 5
        self.expiry = 0
        self.detached_at: int | None = None
        """Microseconds of the monotonic clock, below 0 if that was before it began; None = the client is connected."""
        self.owner: Owner | None = None
        """None: unknown."""
        self.subscriptions: dict[str, Subscription] = {}
        self.remembered: dict[int, None] = {}
        """Packet ids of the client that wait for PUBREL, oldest first."""
        self.will = b""
        """The record of its will; empty = there is none."""
        self.owed: dict[str, bytes] = {}
        """By filter: the topic behind which its retained messages are still to be sent (FC-6)."""

    # -- the session

    def connected(self, version: int, expiry: int, owner: Owner, will: Publish | None, delay: int) -> int:
        """A client has connected; its session ends `expiry` seconds after the connection.

        Returns the commit that has to come before CONNACK.
        """
        self.version, self.expiry, self.detached_at = version, expiry, None
        self.will = records.will(self.number, will, delay) if will is not None else b""
        changed = owner != self.owner
        self.owner = owner
        if self.begins_in is None:
            return self.write_state()
        commit = self.journal.write(records.connected(self.number, version, expiry))
        if changed:
            commit = self.journal.write(records.owner(self.number, owner))
        return self.journal.write(self.will) if self.will else commit

    def detached(self, expiry: int, will: bool) -> None:
        """The client's connection has ended; `will`: its will is still to be published."""
        if self.ended:
            return
        self.detached_at, self.expiry = monotonic_us(), expiry
        if self.will and not will:
            self.will = b""
            self.journal.write(self._detached(self.detached_at))  # soon: a crash before publishes the will
        else:
            self.journal.write_lazily(self._detached(self.detached_at))

    def _detached(self, at: int) -> bytes:
        return records.detached(self.number, at + self.journal.times.offset, self.expiry, self.will != b"")

    def will_published(self) -> None:
        """The will of a detached session has been published."""
        if self.ended:
            return
        self.will = b""
        if self.detached_at is not None:
            self.journal.write(self._detached(self.detached_at))  # soon: a crash before publishes it again

    def write_state(self) -> int:
        """Write all state except the deliveries. Returns the commit."""
        number = self.number
        next_delivery = self.deliveries.next_delivery
        state = [records.session(number, self.client_id, self.version, self.expiry, next_delivery)]
        if self.owner is not None:
            state.append(records.owner(number, self.owner))
        state += [records.subscribed(number, subscription) for subscription in self.subscriptions.values()]
        state += [records.owed(number, name, topic) for name, topic in self.owed.items()]
        state += [records.remembered(number, packet_id) for packet_id in self.remembered]
        inflight = self.deliveries.all_inflight()
        if inflight:
            state.append(records.sent(number, inflight))
        state += [records.received(number, cast("int", delivery)) for delivery in self.deliveries.received]
        if self.will:
            state.append(self.will)
        if self.detached_at is not None:
            state.append(self._detached(self.detached_at))
        return self.write_all(state)

    def write_former(self) -> int:
        """Write that its client cannot have it back. Returns the commit."""
        self.subscriptions.clear()
        self.owed.clear()
        self.remembered.clear()
        self.will = b""
        self.detached_at, self.expiry = monotonic_us(), 0
        return self.journal.write(self._detached(self.detached_at))

    def restore_state(self, saved: SavedSession) -> None:
        """Restore the state that the journal holds, except the deliveries."""
        self.version, self.expiry = saved.version, saved.expiry
        self.detached_at = saved.detached_at - self.journal.times.offset if saved.detached_at else None
        self.owner = saved.owner
        self.subscriptions = dict(saved.subscriptions)
        self.owed = dict(saved.owed)
        self.remembered = dict(saved.remembered)
        for number, packet_id in saved.inflight.items():
            if saved.deliveries.holds(number):
                self.deliveries.inflight[number] = packet_id
                if number in saved.received:
                    self.deliveries.received.add(number)
        if saved.will:
            self.will = records.saved_will(self.number, saved.will, saved.will_delay)

    def may_subscribe(self, subscription: Subscription) -> bool:
        """Whether there is room for a subscription: it is written already, or the journal has room (FC-29)."""
        if self.journal.commits.has_room():
            return True
        return self._record_of(subscription.topic_filter) == records.subscribed(self.number, subscription)

    def subscribed(self, subscription: Subscription) -> int:
        """A client has subscribed. Returns the commit that has to come before SUBACK; 0 = it is written already."""
        record = records.subscribed(self.number, subscription)
        before = self._record_of(subscription.topic_filter)
        if record == before:
            return 0
        self.count_state(len(record) - len(before))
        self.subscriptions[subscription.topic_filter] = subscription
        return self.journal.write(record)

    def unsubscribed(self, topic_filter: str) -> int:
        """A subscription has ended. Returns the commit that has to come before UNSUBACK."""
        self.paid(topic_filter)
        self.count_state(-len(self._record_of(topic_filter)))
        self.subscriptions.pop(topic_filter, None)
        return self.journal.write(records.unsubscribed(self.number, topic_filter))

    def _record_of(self, topic_filter: str) -> bytes:
        """The record of a subscription, which is dead when it ends or has new options; empty = there is none."""
        subscription = self.subscriptions.get(topic_filter)
        return b"" if subscription is None else records.subscribed(self.number, subscription)

    # -- retained messages for new subscriptions

    def owe(self, topic_filter: str) -> int:
        """All retained messages of a subscription are still to be sent; without room that is not written (FC-29).

        Returns the commit that has to come before SUBACK; 0 = none.
        """
        if self.ended or self.owed.get(topic_filter) == b"":
            return 0
        if not self.journal.commits.may_move():
            self.paid(topic_filter)
            return 0
        self._write_progress()
        self._owe(topic_filter, b"")
        return self.journal.write(records.owed(self.number, topic_filter, b""))

    def fed(self, topic_filter: str, topic: bytes) -> None:
        """Those up to this topic have been sent, or wait in the session; which is written with them."""
        before = self.owed.get(topic_filter)
        if self.ended or before is None or before == topic:
            return
        self._owe(topic_filter, topic)
        self.deliveries.progress = records.owed(self.number, topic_filter, topic)
        self.deliveries.noted = True
        self.journal.note(self.deliveries)

    def paid(self, topic_filter: str) -> None:
        """All have been, or the subscription has ended."""
        topic = self.owed.get(topic_filter)
        if self.ended or topic is None:
            return
        self._write_progress()
        del self.owed[topic_filter]
        self.count_state(-len(records.owed(self.number, topic_filter, topic)))
        self.journal.write_lazily(records.paid(self.number, topic_filter))

    def _owe(self, topic_filter: str, topic: bytes) -> None:
        before = self.owed.get(topic_filter)
        self.owed[topic_filter] = topic
        size = len(records.owed(self.number, topic_filter, topic))
        self.count_state(size if before is None else len(topic) - len(before))

    def _write_progress(self) -> None:
        """What has come of another subscription, or this one, before: its record must not follow what comes now."""
        if self.deliveries.progress:
            self.journal.write_lazily(self.deliveries.progress)
            self.deliveries.progress = b""

    # -- deliveries

    def add_pulled(self, publish: Publish, source: QueueJournal) -> Publish:
        """Write that the session has pulled a message from a group (FC-13), whose queue is `source`.

        Returns a delivery of its own, with its holder.
        """
        deliveries = self.deliveries
        group = cast("KeptQueue", source).number
        target = message_record.target(self.number, deliveries.next_delivery, publish, group)
        message = self.journal.target(publish, target)
        return self.hold(publish, message, deliveries.begin(message))

    def pull_pause(self) -> int:
        """For how many microseconds the session pulls nothing (FC-29); 0 = it may."""
        return self.journal.commits.pull_pause()

    def read_window(self, entries: list[tuple[Entry, Index]]) -> list[tuple[Publish, int]]:
        """The deliveries, as `read_now`, and the number of the group that each was pulled from; 0 = none."""
        reader = self.journal.reader
        assert reader is not None  # it is what the journal has been read from
        found: list[tuple[Publish, int]] = []
        for (entry, index), body in zip(entries, reader.read_now([entry for entry, _ in entries]), strict=True):
            group = message_record.pulled_from(body, self.number, entry.delivery)
            found.append((self.read_back(entry, index, body), group))
        return found

    def sent(self, delivery: Number, packet_id: int, qos: int) -> int:
        """A delivery is about to be sent: at QoS 2 its packet id has to be on disk first."""
        if self.ended:
            return 0
        self.deliveries.note_sent(delivery, packet_id)
        return self.journal.note(self.deliveries, qos == 2)

    def received(self, delivery: Number) -> int:
        """PUBREC has come for a delivery: that has to be on disk before PUBREL."""
        deliveries = self.deliveries
        if self.ended:
            return 0
        for record in deliveries.take_records():  # with `sync` as a duration, SENT may not be written yet
            self.journal.write(record)
        if delivery not in deliveries.inflight:
            return 0
        deliveries.received.add(delivery)
        return self.journal.write(records.received(self.number, cast("int", delivery)))

    # -- the client's packet ids

    def remember(self, packet_id: int) -> int:
        """Write that a QoS 2 packet id of the client waits for PUBREL (FC-21), before PUBREC."""
        if self.ended:
            return 0
        self.remembered[packet_id] = None
        return self.journal.write(records.remembered(self.number, packet_id))

    def forget(self, packet_id: int) -> int:
        """Write that PUBREL has come for it, before PUBCOMP; or that it has not come in time (FC-22)."""
        if self.ended:
            return 0
        self.remembered.pop(packet_id, None)
        return self.journal.write(records.forgotten(self.number, packet_id))
