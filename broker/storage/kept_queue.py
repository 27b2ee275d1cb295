"""A kept queue in the journal: that of a kept session, or of a shared subscription (FC-27)."""

from typing import cast, final

from broker.storage import records
from broker.storage.deliveries import Deliveries
from broker.storage.journal import Journal
from broker.storage.message import Frame, Message
from protocol.publish import Publish
from session.holder import Holder
from session.journal import SessionJournal


class KeptQueue(SessionJournal):
    """The records of one queue; `number` names it in the journal.

    The holders of deliveries refer to it, so it refers to no session and no PUBLISH (see `Holder`).
    """

    def __init__(self, journal: Journal, number: int) -> None:
        self.journal = journal
        self.number = number
        self.deliveries = Deliveries(number)
        self.ended = False
        """Whether nothing more is written."""
        self.begins_in: Frame | None = None
        """The frame in which its state begins; None = none of it is written yet."""
        self._state_size = 0

    def add(self, publish: Publish) -> Publish:
        """Write that the queue gets a QoS 1 or 2 message. Returns a delivery of its own, with its holder."""
        delivery = self.deliveries.begin()
        message = self.journal.target(publish, self.number, delivery)
        return self.hold(publish, message, delivery)

    def hold(self, publish: Publish, message: Message, delivery: int) -> Publish:
        """A delivery of its own of a message that is in the journal, with its holder."""
        own = publish.copy()
        holder = own.holder
        address = cast("Holder", holder).address() if holder is not None else None
        own.holder = KeptDelivery(self, message, delivery, address)
        return own

    def owns(self, publish: Publish) -> bool:
        """Whether a delivery is one that `add` has returned."""
        holder = publish.holder
        return isinstance(holder, KeptDelivery) and holder.queue is self

    def is_pending(self, delivery: int) -> bool:
        """Whether the delivery of this number is not done."""
        return delivery in self.deliveries.pending

    def note_done(self, delivery: int) -> None:
        """A delivery is acknowledged, handed on, or dropped."""
        if not self.ended and self.deliveries.finish(delivery):
            self.journal.note_done(self.deliveries)

    def sent(self, delivery: int, packet_id: int, qos: int) -> int:
        """A delivery is about to be sent. Returns the commit that has to precede that; 0 = none."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def received(self, delivery: int) -> int:
        """PUBREC has come for a delivery. Returns the commit that has to precede PUBREL; 0 = none."""
        raise NotImplementedError  # abstract

    def write_state(self) -> int:
        """Write all state except the deliveries, so that older frames are not needed. Returns the commit."""
        raise NotImplementedError  # abstract

    def begin_in(self, frame: Frame) -> None:
        """All of its state is in this frame and later ones."""
        if self.begins_in is not None:
            self.begins_in.remove_queue(self.number)
        self.begins_in = frame
        frame.add_queue(self.number)
        self.journal.queues[self.number] = self

    def write_all(self, state: list[bytes]) -> int:
        """Write these records, which are all of its state. Returns their commit."""
        self.begin_in(self.journal.frame())
        commit = 0
        size = 0
        for record in state:
            commit = self.journal.write(record)
            size += len(record)
        self.count_state(size - self._state_size)
        return commit

    def count_state(self, more: int) -> None:
        """Its state has grown, or shrunk, by so many bytes."""
        self._state_size += more
        self.journal.state_size += more

    def stop(self) -> None:
        """Write nothing more, and leave what is on disk: the next start restores it."""
        self.ended = True

    def end(self) -> int:
        """It is not kept any more. Returns the commit."""
        if self.ended:
            return 0
        self.ended = True
        self.count_state(-self._state_size)
        self.journal.queues.pop(self.number, None)
        if self.begins_in is not None:
            self.begins_in.remove_queue(self.number)
        return self.journal.write(records.ended(self.number))


@final
class KeptDelivery(Holder):
    """The holder of one delivery of a kept queue: the delivery is done when it has left all places."""

    def __init__(self, queue: KeptQueue, message: Message, delivery: int, address: Holder | None) -> None:
        self.queue = queue
        self._message = message
        self._delivery = delivery
        self._address = address
        self._places = 0
        message.use()

    def hold(self, size: int) -> None:
        """It has entered one more place."""
        self._places += 1
        if self._address is not None:
            self._address.hold(size)

    def release(self, size: int) -> None:
        """It has left one."""
        self._places -= 1
        if self._places == 0:
            self.queue.note_done(self._delivery)
            self._message.release()
        if self._address is not None:
            self._address.release(size)

    def is_blocking(self) -> bool:
        """Whether PUBLISHes wait for room in its address (FC-25)."""
        return self._address is not None and self._address.is_blocking()

    def address(self) -> Holder | None:
        """What counts its bytes, if it has an address."""
        return self._address

    def sent(self, packet_id: int, qos: int) -> int:
        """It is about to be sent for the first time."""
        return self.queue.sent(self._delivery, packet_id, qos)

    def received(self) -> int:
        """PUBREC has come."""
        return self.queue.received(self._delivery)
