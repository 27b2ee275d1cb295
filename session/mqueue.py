"""The mqueue: one session's bounded queue of deliveries that may not be sent now (FC-4, FC-5).

The queues of topics with weights (FC-12) and of flows (FC-33) consist of lanes: session/lanes.py.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Final, cast

from mypy_extensions import i64

from protocol.publish import Publish
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

    def __init__(self, number: int = 0) -> None:
        """`number`: of the lane (`flows.lane_number`); 0 = it is the only one."""
        self.number = number
        self.deliveries = Fifo()
        self.tail: Tail | None = None
        """FC-30: what comes after these deliveries and is on disk only; None = nothing."""
        self.length = 0
        """Deliveries that wait."""
        self.bytes = 0
        """Their payload bytes."""
        self.waiting_qos0 = 0
        self.waiting_qos1 = 0
        self.waiting_qos2 = 0
        self.overflowing = False
        """Whether an overflow episode is under way: each episode is logged once."""
        self.permits: Callable[[Publish], bool] | None = None
        """Whether a delivery may still be sent; None = all may. Set when rights change, until the queue is empty."""
        self.keeps = False
        """FC-34: whether an overflow drops what arrives: publishers have been told, so what waits is promised."""
        self._first_qos0 = 0  # no QoS 0 is before this position, so a search starts here
        self._on_read: Callable[[], None] | None = None

    @property
    def waiting_qos12(self) -> int:
        """How many QoS 1 and 2 deliveries wait: a new one must not overtake them (FC-2)."""
        return self.waiting_qos1 + self.waiting_qos2

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Publish]:
        """The deliveries that are in memory, in the order in which they will be sent."""
        return iter(self.deliveries) if self.tail is None else chain(self.deliveries, self.tail.behind)

    def append(self, publish: Publish) -> None:
        """Add at the end. The caller has made room."""
        tail = self.tail
        if tail is None:
            self.deliveries.then.append(publish)
        elif tail.append(publish):
            self._count(publish.qos, publish.size, 1)  # no place in memory has it any more
            return
        else:
            tail.behind.append(publish)
            self._end_tail(tail)  # it may have no delivery yet
        self._joined(publish)

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
        self._end_tail(tail)
        tail.read_at_start()

    def read_ahead(self, least: int = READ_AHEAD) -> None:
        """FC-30: have more read back while fewer than this many are in memory."""
        if self.tail is not None and len(self.deliveries) < least:
            self.tail.read(2 * least)

    def _have_read(self, deliveries: list[Publish]) -> None:
        """FC-30: these have been read back."""
        for publish in deliveries:
            self.deliveries.append(publish)
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

    def is_ready(self) -> bool:
        """Whether it has a head that is in memory."""
        return self.length > 0 if self.tail is None else len(self.deliveries) > 0

    def push_front(self, publish: Publish) -> None:
        """Put back at the head what was taken earlier (FC-13)."""
        self.deliveries.prepend(publish)
        self._joined(publish)
        if publish.qos == 0:
            self._first_qos0 = 0
        elif self._first_qos0:
            self._first_qos0 += 1

    def head(self) -> Publish:
        """The next delivery, if `is_ready`. Raises IndexError if there is none."""
        first = self.deliveries.first
        return first[-1] if first else self.deliveries.head()

    def pop(self) -> Publish:
        """Remove and return the head. Raises IndexError if there is none."""
        first = self.deliveries.first
        publish = first.pop() if first else self.deliveries.pop_head()
        self._left(publish)
        if self._first_qos0:
            self._first_qos0 -= 1
        return publish

    def fits(self, publish: Publish, limits: Limits, times: i64 = 1) -> bool:
        """Whether `publish` can join without exceeding so many times a limit (FC-5)."""
        if limits.max_mqueue_len and self.length >= limits.max_mqueue_len * times:
            return False
        return not limits.max_mqueue_bytes or self.bytes + publish.size <= limits.max_mqueue_bytes * times

    def exceeds_share(self, publish: Publish, limits: Limits) -> bool:
        """FC-16: whether the publisher of a new delivery is paced if the queue overflows."""
        return True

    def drop_for(self, arrival: Publish, limits: Limits) -> int:
        """Drop what FC-5's policy drops for `arrival`, or not let it join; returns the QoS of what is dropped."""
        if self.tail is None or not drops_head(self, arrival, limits):
            return self.victim(arrival, limits).qos
        return self.drop_head()

    def victim(self, arrival: Publish, limits: Limits) -> Publish:
        """Remove and return what FC-5's policy drops for `arrival`; this may be the arrival itself."""
        if drops_head(self, arrival, limits):
            return self.pop()
        if limits.mqueue_overflow != DROP_OLDEST_QOS0 or not self.waiting_qos0 or never_fits(arrival, limits):
            return arrival
        return self._pop_oldest_qos0()

    def drop_head(self) -> int:
        """Remove the head, in memory or not, and return its QoS. Raises IndexError if there is none."""
        tail = self.tail
        if tail is None or len(self.deliveries) > 0:
            return self.pop().qos
        qos, size = tail.drop()
        self._count(qos, size, -1)
        self._end_tail(tail)
        return qos

    def drop_aged(self, before: int) -> list[int]:
        """FC-36: drop what waits since before this time, from the head on; returns the QoS of each."""
        dropped: list[int] = []
        while self.length:
            tail = self.tail
            in_memory = tail is None or len(self.deliveries) > 0
            since = self.head().received_at if in_memory else cast("Tail", tail).first()[1]
            if since >= before:
                break
            dropped.append(self.drop_head())
        return dropped

    def _pop_oldest_qos0(self) -> Publish:
        deliveries = self.deliveries
        position = self._first_qos0
        while position < len(deliveries) and deliveries.at(position).qos:
            position += 1
        if position == len(deliveries):
            publish = cast("Tail", self.tail).behind.popleft()  # QoS 0 only: all others are on disk
        else:
            publish = deliveries.remove(position)
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

    def _count(self, qos: int, size: int, step: i64) -> None:
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
