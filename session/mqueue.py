"""The mqueue: one session's bounded queue of deliveries that may not be sent now (FC-4, FC-5, FC-37).

The queues of topics with weights (FC-12) and of flows (FC-33) consist of lanes: session/lanes.py.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final, cast

from mypy_extensions import i64

from protocol.publish import Publish
from session.conflation import Newest, Slot
from session.fifo import Fifo
from session.holder import hold, is_blocking, release
from session.journal import QueueJournal
from session.limits import DROP_ARRIVAL, DROP_NEWEST, DROP_OLDEST_QOS0, Limits
from session.tail import Tail

READ_AHEAD: Final = 100
"""FC-30: deliveries in memory below which more are read back."""


NEAR: Final = 32
"""FC-30: deliveries at the head of a queue that are sent soon: they keep the frames that they have."""


class MQueue:
    """First in, first out, bounded by length and bytes. `victim` picks what an overflow drops; the caller counts it."""

    def __init__(self, number: int = 0, newest: Newest | None = None) -> None:
        """`number`: of the lane (`flows.lane_number`); 0 = it is the only one."""
        self.number: i64 = number
        self.newest = newest
        """FC-37: of the topics of which only the newest delivery waits, for all lanes together; None = of none."""
        self.deliveries = Fifo()
        self.tail: Tail | None = None
        """FC-30: what comes after these deliveries and is on disk only; None = nothing."""
        self.length: i64 = 0
        """Deliveries that wait."""
        self.bytes: i64 = 0
        """Their payload bytes."""
        self.waiting_qos0: i64 = 0
        self.waiting_qos1: i64 = 0
        self.waiting_qos2: i64 = 0
        self.overflowing = False
        """Whether an overflow episode is under way: each episode is logged once."""
        self.permits: Callable[[Publish], bool] | None = None
        """Whether a delivery may still be sent; None = all may. Set when rights change, until the queue is empty."""
        self.keeps = False
        """FC-34: whether an overflow drops what arrives: publishers have been told, so what waits is promised."""
        self._first_qos0 = 0  # no QoS 0 is before this position, so a search starts here
        self._on_read: Callable[[], None] | None = None

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Publish]:
        """The deliveries that are in memory, in the order in which they will be sent."""
        tail = self.tail
        places: Iterator[Publish] = iter(self.deliveries) if tail is None else chain(self.deliveries, tail.behind)
        return places if self.newest is None else map(self.newest.at, places)

    def append(self, publish: Publish) -> None:
        """Add at the end. The caller has made room."""
        tail = self.tail
        newest = self.newest
        if tail is None:
            self.deliveries.then.append(publish if newest is None else newest.enter(publish, self.number))
        elif tail.append(publish):
            self._count(publish.qos, publish.size, 1)  # no place in memory has it any more
            if newest is not None:
                number = tail.number(publish)
                newest.enter_on_disk(publish.topic, self.number, number, publish.qos, publish.size, publish.received_at)
            return
        else:
            tail.behind.append(publish if newest is None else newest.enter(publish, self.number))
            self._end_tail(tail)  # it may have no delivery yet
        self._joined(publish)

    def replace(self, slot: Slot, publish: Publish) -> bool:
        """FC-37: put a delivery into the place of the older one of its topic, which is gone.

        Returns False if it cannot have that place, which is on disk: then the caller appends it.
        """
        newest = cast("Newest", self.newest)
        older = slot.publish
        self._count(slot.qos, slot.size, -1)
        if older is not None:
            slot.publish = publish
            slot.describe(publish)
            self._joined(publish)
            if older.holder is not None:
                release(older)
            if publish.qos == 0:
                self._first_qos0 = 0
            return True
        tail = cast("Tail", self.tail)
        if tail.replace(slot.number, publish):
            newest.replace_on_disk(slot, publish, tail.number(publish))
            self._count(publish.qos, publish.size, 1)
            return True
        tail.remove(slot.number)
        newest.leave_disk(slot.number)
        self._end_tail(tail)
        return False

    def begin_tail(self, publish: Publish, journal: QueueJournal, on_read: Callable[[], None]) -> None:
        """FC-30: what joins from now on is on disk only, `publish` first.

        `on_read` is called when some of it has been read back.
        """
        self._on_read = on_read
        self.tail = journal.tail(self._have_read, self.number)

    def restore(self, journal: QueueJournal, on_read: Callable[[], None]) -> None:
        """FC-27: what waited before the process began, all of it on disk."""
        self._on_read = on_read
        tail = self.tail = journal.tail(self._have_read, self.number)
        self.waiting_qos1, self.waiting_qos2, self.bytes = tail.totals()
        self.length = self.waiting_qos1 + self.waiting_qos2
        if self.newest is not None:
            for topic, number, qos, size, received_at in tail.topics():
                self.newest.enter_on_disk(topic, self.number, number, qos, size, received_at)
        self._end_tail(tail)
        tail.read_at_start()

    def read_ahead(self, least: int = READ_AHEAD) -> None:
        """FC-30: have more read back while fewer than this many are in memory."""
        if self.tail is not None and len(self.deliveries) < least:
            self.tail.read(2 * least)

    def _have_read(self, deliveries: list[Publish]) -> None:
        """FC-30: these have been read back."""
        for publish in deliveries:
            self.deliveries.append(publish if self.newest is None else self.newest.read_back(publish))
            hold(publish)
        if self.tail is not None:
            self._end_tail(self.tail)
        if self._on_read is not None:
            self._on_read()

    def _end_tail(self, tail: Tail) -> None:
        """What is behind the tail follows what is in memory, once nothing is left of the tail."""
        if tail.length() == 0:
            self.tail = None
            tail.over = True
            self.deliveries.extend(tail.behind)

    def is_blocking(self) -> bool:
        """Whether PUBLISHes wait for room in the address of a delivery that waits here (FC-25)."""
        return any(is_blocking(publish) for publish in self) or (self.tail is not None and self.tail.is_blocking())

    def push_front(self, publish: Publish) -> None:
        """Put back at the head what was taken earlier (FC-13)."""
        self.deliveries.prepend(publish if self.newest is None else self.newest.enter(publish, self.number))
        self._joined(publish)
        if publish.qos == 0:
            self._first_qos0 = 0
        elif self._first_qos0:
            self._first_qos0 += 1

    def head(self) -> Publish | None:
        """The next delivery; None = nothing waits, or it has to be read back first (FC-30)."""
        deliveries = self.deliveries
        first = deliveries.first
        if first:
            place = first[-1]
        elif deliveries.then:
            place = deliveries.head()
        else:
            return None
        return place if self.newest is None else self.newest.at(place)

    def pop(self) -> Publish:
        """Remove and return the head. Raises IndexError if there is none."""
        first = self.deliveries.first
        publish = first.pop() if first else self.deliveries.pop_head()
        if self.newest is not None:
            publish = self.newest.leave(publish)
        self._left(publish)
        if self._first_qos0:
            self._first_qos0 -= 1
        return publish

    def fits(self, publish: Publish, limits: Limits, times: i64 = 1) -> bool:
        """Whether `publish` can join without exceeding so many times a limit (FC-5)."""
        length, size = self.length, self.bytes
        older = None if self.newest is None else self.newest.older(publish)
        if older is not None:  # FC-37: it takes that one's place
            length -= 1
            size -= older.size
        if limits.max_mqueue_len and length >= limits.max_mqueue_len * times:
            return False
        return not limits.max_mqueue_bytes or size + publish.size <= limits.max_mqueue_bytes * times

    def exceeds_share(self, publish: Publish, limits: Limits) -> bool:
        """FC-16: whether the publisher of a new delivery is paced if the queue overflows."""
        return True

    def victim(self, arrival: Publish, limits: Limits) -> Publish:
        """Remove and return what FC-5's policy drops for `arrival`, as `drop_head`; this may be the arrival itself."""
        if drops_head(self, arrival, limits):
            return self.drop_head()
        if limits.mqueue_overflow != DROP_OLDEST_QOS0 or not self.waiting_qos0 or never_fits(arrival, limits):
            return arrival
        return self._pop_oldest_qos0()

    def drop_head(self) -> Publish:
        """Remove and return the head; of one on disk only, what is known of it. Raises IndexError if there is none."""
        tail = self.tail
        if tail is None or len(self.deliveries) > 0:
            return self.pop()
        return self._drop_from(tail, newest=False)

    def _drop_from(self, tail: Tail, newest: bool) -> Publish:
        """Drop the first delivery that is on disk only, or the newest one; returns what is known of it."""
        publish, number = tail.drop_newest() if newest else tail.drop()
        self._count(publish.qos, publish.size, -1)
        if self.newest is not None:
            self.newest.leave_disk(number)
        self._end_tail(tail)
        return publish

    def oldest(self) -> int:
        """When what is next was received, which has waited longest; 0 = nothing waits."""
        if not self.length:
            return 0
        head = self.head()
        return head.received_at if head is not None else cast("Tail", self.tail).first()[1]

    def drop_aged(self, before: int) -> list[Publish]:
        """FC-36: drop what waits since before this time, from the head on; returns each as `drop_head`."""
        dropped: list[Publish] = []
        while self.length and self.oldest() < before:
            dropped.append(self.drop_head())
        return dropped

    def _pop_oldest_qos0(self) -> Publish:
        deliveries = self.deliveries
        position = self._first_qos0
        while position < len(deliveries) and _delivery(deliveries.at(position), self.newest).qos:
            position += 1
        if position == len(deliveries):
            publish = _remove_qos0(cast("Tail", self.tail).behind, self.newest)
        else:
            publish = deliveries.remove(position)
        if self.newest is not None:
            publish = self.newest.leave(publish)
        self._first_qos0 = position
        self._left(publish)
        return publish

    def _joined(self, publish: Publish) -> None:
        self._count(publish.qos, publish.size, 1)
        if publish.holder is not None:
            hold(publish)  # FC-24

    def _left(self, publish: Publish) -> None:
        self._count(publish.qos, publish.size, -1)
        if publish.holder is not None:
            release(publish)

    def _count(self, qos: i64, size: i64, step: i64) -> None:
        """A delivery has joined, with a `step` of 1, or left, with -1."""
        self.length += step
        self.bytes += step * size
        if qos == 0:
            self.waiting_qos0 += step
        elif qos == 1:
            self.waiting_qos1 += step
        else:
            self.waiting_qos2 += step


def never_fits(publish: Publish, limits: Limits) -> bool:
    """Whether `publish` does not even fit into an empty queue."""
    return 0 < limits.max_mqueue_bytes < publish.size


def drops_head(mqueue: MQueue, arrival: Publish, limits: Limits) -> bool:
    """Whether a full queue drops its head for `arrival` (FC-5)."""
    policy = limits.mqueue_overflow
    if mqueue.keeps or policy in (DROP_NEWEST, DROP_ARRIVAL) or not mqueue.length or never_fits(arrival, limits):
        return False
    return policy != DROP_OLDEST_QOS0 or (mqueue.waiting_qos0 == 0 and arrival.qos > 0)


def _delivery(place: Publish, newest: Newest | None) -> Publish:
    """What waits in a place."""
    return place if newest is None else newest.at(place)


def _remove_qos0(behind: deque[Publish], newest: Newest | None) -> Publish:
    """The first place behind a tail with QoS 0. All others are on disk, but for what replaces QoS 0 (FC-37)."""
    position = 0
    while _delivery(behind[position], newest).qos:
        position += 1
    place = behind[position]
    del behind[position]
    return place
