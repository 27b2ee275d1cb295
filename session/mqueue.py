"""The mqueue: one session's bounded queue of deliveries that may not be sent now (FC-4, FC-5)."""

from collections import deque
from collections.abc import Iterator

from protocol.publish import Publish
from session.holder import hold, release
from session.limits import DROP_NEWEST, DROP_OLDEST_QOS0, Limits


class MQueue:
    """First in, first out, bounded by length and bytes. `victim` picks what an overflow drops; the caller counts it."""

    def __init__(self) -> None:
        self.deliveries: deque[Publish] = deque()
        self.length = 0
        """Deliveries that wait."""
        self.bytes = 0
        """Their payload bytes."""
        self.waiting_qos0 = 0
        self.waiting_qos1 = 0
        self.waiting_qos2 = 0
        self.overflowing = False
        """Whether an overflow episode is under way: each episode is logged once."""
        self._first_qos0 = 0  # no QoS 0 is before this position, so a search starts here

    @property
    def waiting_qos12(self) -> int:
        """How many QoS 1 and 2 deliveries wait: a new one must not overtake them (FC-2)."""
        return self.waiting_qos1 + self.waiting_qos2

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Publish]:
        """The deliveries in the order in which they will be sent."""
        return iter(self.deliveries)

    def append(self, publish: Publish) -> None:
        """Add at the tail. The caller has made room."""
        self.deliveries.append(publish)
        self._count(publish, 1)

    def push_front(self, publish: Publish) -> None:
        """Put back at the head what was taken earlier (FC-13)."""
        self.deliveries.appendleft(publish)
        self._count(publish, 1)
        if publish.qos == 0:
            self._first_qos0 = 0
        elif self._first_qos0:
            self._first_qos0 += 1

    def head(self) -> Publish:
        """The next delivery. Raises IndexError if there is none."""
        return self.deliveries[0]

    def pop(self) -> Publish:
        """Remove and return the head. Raises IndexError if there is none."""
        publish = self.deliveries.popleft()
        self._count(publish, -1)
        if self._first_qos0:
            self._first_qos0 -= 1
        return publish

    def fits(self, publish: Publish, limits: Limits) -> bool:
        """Whether `publish` can join without exceeding a limit (FC-5)."""
        if limits.max_mqueue_len and self.length >= limits.max_mqueue_len:
            return False
        return not limits.max_mqueue_bytes or self.bytes + publish.size <= limits.max_mqueue_bytes

    def victim(self, newcomer: Publish, limits: Limits) -> Publish:
        """Remove and return what FC-5's policy drops for `newcomer`; this may be the newcomer itself."""
        policy = limits.mqueue_overflow
        if policy == DROP_NEWEST or not self.length or never_fits(newcomer, limits):
            return newcomer
        if policy == DROP_OLDEST_QOS0:
            if self.waiting_qos0:
                return self._pop_oldest_qos0()
            if newcomer.qos == 0:
                return newcomer
        return self.pop()

    def _pop_oldest_qos0(self) -> Publish:
        deliveries = self.deliveries
        position = self._first_qos0
        while deliveries[position].qos:
            position += 1
        publish = deliveries[position]
        del deliveries[position]
        self._first_qos0 = position
        self._count(publish, -1)
        return publish

    def _pop_newest(self) -> Publish:
        publish = self.deliveries.pop()
        self._count(publish, -1)
        self._first_qos0 = min(self._first_qos0, self.length)
        return publish

    def _count(self, publish: Publish, step: int) -> None:
        self._note(publish, step)
        if publish.holder is not None:
            if step > 0:
                hold(publish)  # FC-24
            else:
                release(publish)

    def _note(self, publish: Publish, step: int) -> None:
        self.length += step
        self.bytes += step * publish.size
        qos = publish.qos
        if qos == 0:
            self.waiting_qos0 += step
        elif qos == 1:
            self.waiting_qos1 += step
        else:
            self.waiting_qos2 += step


def never_fits(publish: Publish, limits: Limits) -> bool:
    """Whether `publish` does not even fit into an empty queue."""
    return 0 < limits.max_mqueue_bytes < publish.size
