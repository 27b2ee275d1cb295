"""A kept queue in the journal: that of a kept session, or of a shared subscription (FC-27)."""

import asyncio
from collections.abc import Callable
from typing import Final, cast, final

from mypy_extensions import mypyc_attr

from broker.storage import message_record, records
from broker.storage.deliveries import Deliveries, Number
from broker.storage.errors import StorageError
from broker.storage.evicted import Evicted, hold_address, release_address
from broker.storage.index import Entry, Index
from broker.storage.journal import Journal
from broker.storage.kept_state import KeptState
from broker.storage.message import Message
from broker.storage.reading_back import Unread, delivery_of
from broker.storage.records import DamagedError
from protocol.publish import Publish
from session.address import Address
from session.cost import OVERHEAD, cost
from session.holder import Holder
from session.tail import Tail, dropped

READ_DELIVERIES: Final = 200
READ_BYTES: Final = 256 * 1024
"""How much is read back at once at the start; and of payloads later too, from the second delivery on."""

KEPT_BYTES: Final = 16 * 1024
"""Bytes that the deliveries of a queue may take in memory, however much the others take (FC-30)."""


class KeptQueue(KeptState):
    """The records of one queue.

    The holders of deliveries refer to it, so it refers to no session and no PUBLISH (see `Holder`).
    """

    def __init__(self, journal: Journal, number: int) -> None:
        super().__init__(journal, number)
        self.deliveries = Deliveries(number)
        self.evicted = Evicted()
        """Its deliveries that are on disk only."""
        self.topics: dict[int, bytes] = {}
        """FC-37: topics of what waited before the process began, by number, until the queue has been restored."""
        self.unread = 0
        """FC-35: how many of its deliveries were dropped unread, and are still to be told."""
        self.former = False
        """FC-35: whether it has ended, but for what is still to be told: `end` is called again after that."""
        self._targets = message_record.Targets(number)

    def add(self, publish: Publish) -> Publish:
        """Write that the queue gets a QoS 1 or 2 message. Returns a delivery of its own, with its holder."""
        deliveries = self.deliveries
        target = self._targets.encode(deliveries.next_delivery, publish)
        message = self.journal.target(publish, target)
        return self.hold(publish, message, deliveries.begin(message))

    def hold(self, publish: Publish, message: Message, delivery: Number) -> Publish:
        """A delivery of its own of a message that is in the journal, with its holder."""
        own = publish.copy()
        holder = cast("Holder | None", own.holder)
        address = cast("Address | None", holder.address()) if holder is not None else None
        own.holder = KeptDelivery(self, message, delivery, address)
        return own

    def owns(self, publish: Publish) -> bool:
        """Whether a delivery is one that `add` has returned."""
        holder = publish.holder
        return isinstance(holder, KeptDelivery) and holder.queue is self

    def evicts(self, length: int, size: int) -> bool:
        """FC-30: whether a delivery joins the queue on disk only, which has `size` payload bytes in memory."""
        return size + OVERHEAD * length >= KEPT_BYTES and self.journal.memory.is_full()

    def tail(self, on_read: Callable[[list[Publish]], None], lane: int) -> Tail:
        """FC-30: the end of a lane, on disk only; `on_read` gets what has been read back, in order."""
        return StoredTail(self, self.evicted.index(lane), on_read)

    def lanes(self) -> list[int]:
        """FC-30: the numbers of the lanes of which something is on disk only."""
        return self.evicted.lanes()

    def evict(self, message: Message, entry: Entry, index: Index) -> None:
        """A delivery is on disk only from now on, in one of its indexes."""
        self.deliveries.pending.pop(entry.delivery, None)
        index.add(entry)
        message.frame.add_evicted(entry.size)
        hold_address(entry)

    def replace_evicted(self, number: int, message: Message, entry: Entry, index: Index) -> None:
        """FC-37: a delivery is on disk only from now on, in the place of the one of this number, which is done."""
        self.deliveries.pending.pop(entry.delivery, None)
        before = index.replace(number, entry)
        message.frame.add_evicted(entry.size)
        self.journal.frames[before.frame].remove_evicted(before.size)
        hold_address(entry)
        release_address(before)
        self.note_evicted_done(before)

    def note_evicted_done(self, entry: Entry) -> None:
        """A delivery that was on disk only is done."""
        if not self.ended:
            self.deliveries.note_done(entry.delivery)
            self.journal.note(self.deliveries)

    def add_evicted(self, entry: Entry, lane: int = 0) -> None:
        """A delivery that is on disk only, and has never been in memory."""
        self.evicted.index(lane).add(entry)
        self.journal.frames[entry.frame].add_evicted(entry.size)
        hold_address(entry)

    async def read_first(self, index: Index, count: int, size: int) -> list[tuple[Entry, bytes]]:
        """The first deliveries of an index, `count` and `size` as for `Index.head`, with their records.

        Some of them may be gone meanwhile. Raises StorageError, DamagedError.
        """
        reader = self.journal.reader
        assert reader is not None  # else nothing is evicted
        entries = index.head(count, size)
        bodies = await reader.read(entries)
        while not all(bodies):
            await self.journal.commits.reach()
            before, entries = entries, index.head(count, size)
            bodies = await reader.read(entries)
            if entries == before and not all(bodies):
                raise DamagedError(f"frame {entries[0].frame} is not there any more")
        return list(zip(entries, bodies, strict=True))

    def evicted_in(self, delivery: int, topic: bytes, flow: int) -> tuple[int, Index]:
        """The frame of a delivery that is on disk only, 0 = it is not; and the index that has it."""
        lane = self.lane(topic, flow)
        conflates = self.journal.lanes.conflation is not None
        index = self.evicted.index_with(delivery, lane) if conflates else self.evicted.index(lane)
        entry = index.find(delivery)
        return (0 if entry is None else entry.frame), index

    def lane(self, topic: bytes, flow: int) -> int:
        """The number of the lane in which a delivery waits."""
        return self.journal.lanes.number(topic, flow)

    def move_evicted(self, delivery: int, index: Index, offset: int) -> None:
        """The message of a delivery that is on disk only is in the current frame now."""
        frame = self.journal.frame()
        entry = index.move(delivery, frame.number, offset)
        if entry is not None:
            self.journal.frames[entry.frame].remove_evicted(entry.size)
            frame.add_evicted(entry.size)

    def drop_evicted(self, entry: Entry, index: Index, is_done: bool = True) -> Entry:
        """Drop a delivery that is on disk only; unless it `is_done`, the caller notes that later."""
        entry = self._take(entry, index)
        release_address(entry)
        if is_done:
            self.note_evicted_done(entry)
        return entry

    def read_back(self, entry: Entry, index: Index, body: bytes) -> Publish:
        """The delivery, which is in this index, from the body of its message's record. Raises DamagedError.

        When it is in a place in memory, the caller calls `release_address`.
        """
        publish = delivery_of(self.journal, self.number, entry, body)
        entry = self._take(entry, index)
        message = Message(self.journal.frames[entry.frame], entry.offset, self.journal.memory)
        message.written(len(body) + records.HEAD_SIZE)
        self.deliveries.pending[entry.delivery] = message
        publish.holder = entry.address
        return self.hold(publish, message, entry.delivery)

    def read_now(self, entries: list[Entry], index: Index) -> list[Publish]:
        """The deliveries, at the start of the broker: the event loop waits. Raises StorageError, DamagedError."""
        reader = self.journal.reader
        assert reader is not None  # it is what the journal has been read from
        found = zip(entries, reader.read_now(entries), strict=True)
        return [self.read_back(entry, index, body) for entry, body in found]

    def _take(self, entry: Entry, index: Index) -> Entry:
        """Remove a delivery from those that are on disk only; it may have been moved since the entry was made."""
        current = index.remove(entry.delivery)
        assert current is not None
        if not self.ended:
            self.journal.frames[current.frame].remove_evicted(current.size)
        return current

    def note_done(self, delivery: Number) -> None:
        """A delivery is acknowledged, handed on, or dropped."""
        if not self.ended:
            self.deliveries.finish(delivery)
            self.journal.note(self.deliveries)

    def sent(self, delivery: Number, packet_id: int, qos: int) -> int:
        """A delivery is about to be sent. Returns the commit that has to precede that; 0 = none."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def received(self, delivery: Number) -> int:
        """PUBREC has come for a delivery. Returns the commit that has to precede PUBREL; 0 = none."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def write_state(self) -> int:
        """Write all state except the deliveries, so that older frames are not needed. Returns the commit."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def end(self) -> int:
        """It is not kept any more, but for what is dropped with it and still to be told. Returns the commit."""
        if self.ended:
            return 0
        if self.journal.tell_drops is not None and (self.evicted.length or self.unread):
            before, self.former = self.former, True
            return 0 if before else self.write_former()
        for entry in self.evicted.entries():
            self.journal.frames[entry.frame].remove_evicted(entry.size)
        return super().end()


@mypyc_attr(acyclic=True)  # as all holders are
@final
class KeptDelivery(Holder):
    """The holder of one delivery of a kept queue: the delivery is done when it has left all places."""

    def __init__(self, queue: KeptQueue, message: Message, delivery: Number, address: Address | None) -> None:
        self.queue = queue
        self._message = message
        self._delivery = delivery
        self._address = address
        self._places = 0
        self._evicted = False
        message.use()

    def hold(self, publish: Publish) -> None:
        """It has entered one more place."""
        self._places += 1
        if self._address is not None:
            self._address.hold(publish)

    def release(self, publish: Publish) -> None:
        """It has left one."""
        self._places -= 1
        if self._places == 0:
            if not self._evicted:
                self.queue.note_done(self._delivery)
            self._message.release()
        if self._address is not None:
            self._address.release(publish)

    @property
    def number(self) -> int:
        """Its number in the journal."""
        return cast("int", self._delivery)

    def evict(self, publish: Publish, index: Index, replaced: int | None = None) -> None:
        """Its queue has it on disk only (FC-30); in the place of the delivery `replaced`, None = as the last one."""
        self._evicted = True
        message, address = self._message, self._address
        frame = message.frame.number
        size, qos, received_at = publish.size, publish.qos, publish.received_at
        costs = 0 if address is None else cost(publish)
        entry = Entry(self.number, frame, message.offset, size, qos, received_at, address, costs)
        if replaced is None:
            self.queue.evict(message, entry, index)
        else:
            self.queue.replace_evicted(replaced, message, entry, index)

    def is_blocking(self) -> bool:
        """Whether PUBLISHes wait for room in its address (FC-25)."""
        return self._address is not None and self._address.is_blocking()

    def address(self) -> Address | None:
        """What counts its bytes, if it has an address."""
        return self._address

    def sent(self, packet_id: int, qos: int) -> int:
        """It is about to be sent for the first time."""
        return self.queue.sent(self._delivery, packet_id, qos)

    def received(self) -> int:
        """PUBREC has come."""
        return self.queue.received(self._delivery)


@final
class StoredTail(Tail):
    """The end of one queue, on disk only: the index of the kept queue says where."""

    def __init__(self, kept: KeptQueue, index: Index, on_read: Callable[[list[Publish]], None]) -> None:
        super().__init__()
        self._queue = kept
        self._index = index
        self._on_read = on_read
        self._reading: asyncio.Task[None] | None = None

    def append(self, publish: Publish) -> bool:
        """Take over a delivery, if it is on disk."""
        if not self._queue.owns(publish):
            return False
        cast("KeptDelivery", publish.holder).evict(publish, self._index)
        return True

    def length(self) -> int:
        """How many deliveries there are."""
        return self._index.length

    def totals(self) -> tuple[int, int, int]:
        """How many deliveries of QoS 1 and of QoS 2 there are, and their payload bytes."""
        return self._index.totals()

    def number(self, publish: Publish) -> int:
        """The number of a delivery that it has taken over."""
        return cast("KeptDelivery", publish.holder).number

    def replace(self, number: int, publish: Publish) -> bool:
        """FC-37: take over a delivery, if it is on disk, in the place of the one of this number."""
        if not self._queue.owns(publish):
            return False
        cast("KeptDelivery", publish.holder).evict(publish, self._index, number)
        return True

    def remove(self, number: int) -> None:
        """FC-37: the delivery of this number is done."""
        entry = self._index.find(number)
        assert entry is not None  # else it is in memory
        self._queue.drop_evicted(entry, self._index)

    def topics(self) -> list[tuple[bytes, int, int, int, int]]:
        """FC-37: of those that waited before the process began topic, number, QoS, payload bytes, when received."""
        topics = self._queue.topics
        return [
            (topics.pop(entry.delivery), entry.delivery, entry.qos, entry.size, entry.received_at)
            for entry in self._index.entries()
            if entry.delivery in topics
        ]

    def drop(self) -> tuple[Publish, int]:
        """Drop the first one; returns what is known of it, and its number."""
        return self._drop(self._index.first())

    def drop_newest(self) -> tuple[Publish, int]:
        """Drop the last one."""
        return self._drop(self._index.last())

    def _drop(self, entry: Entry) -> tuple[Publish, int]:
        kept = self._queue
        tells = kept.journal.tell_drops is not None
        entry = kept.drop_evicted(entry, self._index, not tells)
        unread = Unread(kept, entry) if tells else None
        return dropped(entry.qos, entry.size, unread), entry.delivery

    def is_blocking(self) -> bool:
        """Whether PUBLISHes wait for room in the address of one of them (FC-25)."""
        return self._index.is_blocking()

    def first(self) -> tuple[int, int]:
        """The payload bytes of the first one, and when it was received."""
        entry = self._index.first()
        return entry.size, entry.received_at

    def read(self, most: int) -> None:
        """Read up to `most` back, unless that is under way."""
        if self._reading is None and self.length():
            self._reading = asyncio.get_running_loop().create_task(self._read(most))

    def read_at_start(self) -> None:
        """Read all of them back, while the event loop waits, unless memory is bounded. Raises StorageError."""
        kept = self._queue
        while kept.journal.memory.limit == 0 and self.length():
            entries = self._index.head(READ_DELIVERIES, READ_BYTES)
            self._hand_over(entries, kept.read_now(entries, self._index))

    async def _read(self, most: int) -> None:
        kept = self._queue
        try:
            found = await kept.read_first(self._index, most, READ_BYTES)
            if self.over:
                found = []  # another tail may have begun: who waits for this one asks it
            found = [(entry, body) for entry, body in found if self._index.holds(entry.delivery)]
            deliveries = [kept.read_back(entry, self._index, body) for entry, body in found]
        except (StorageError, DamagedError) as error:
            kept.journal.commits.fail(error)
            return
        finally:
            self._reading = None
        self._hand_over([entry for entry, _ in found], deliveries)

    def _hand_over(self, entries: list[Entry], deliveries: list[Publish]) -> None:
        self._on_read(deliveries)
        for entry in entries:
            release_address(entry)
