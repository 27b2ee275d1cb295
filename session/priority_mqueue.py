"""FC-12: the mqueue of a session whose topics have weights."""

from collections.abc import Callable, Iterator
from typing import final

from protocol.publish import Publish
from session.journal import QueueJournal
from session.limits import DROP_ARRIVAL, DROP_NEWEST, DROP_OLDEST_QOS0, Limits
from session.mqueue import MQueue, never_fits
from session.priorities import Priorities


@final
class Lane(MQueue):
    """The deliveries of one weight."""

    def __init__(self, weight: int) -> None:
        super().__init__(weight)
        self.left = weight
        """How many it may still send in this round."""

    def drop(self, policy: str) -> Publish:
        """Remove and return a delivery, for one of another weight. Raises IndexError if there is none."""
        if policy == DROP_NEWEST:
            return self._pop_newest()
        if policy == DROP_OLDEST_QOS0 and self.waiting_qos0:
            return self._pop_oldest_qos0()
        return self.pop()

    def drop_one(self, policy: str) -> int:
        """The same, also of what is on disk only (FC-30); returns its QoS."""
        if self.tail is None or (policy == DROP_OLDEST_QOS0 and self.waiting_qos0):
            return self.drop(policy).qos
        return self._drop_newest() if policy == DROP_NEWEST else self.drop_head()

    def _pop_newest(self) -> Publish:
        tail = self.tail
        publish = self.deliveries.pop_last() if tail is None else tail.behind.pop()
        self._left(publish)
        self._first_qos0 = min(self._first_qos0, len(self.deliveries))
        return publish

    def _drop_newest(self) -> int:
        """Remove what has joined last, in memory or not, and return its QoS. Raises IndexError if there is none."""
        tail = self.tail
        if tail is None or tail.behind:
            return self._pop_newest().qos
        qos, size = tail.drop_newest()
        self._count_left(qos, size)
        self._end_tail(tail)
        return qos


@final
class PriorityMQueue(MQueue):
    """One lane for each weight, all under one limit. In each round the lane of weight `w` sends up to `w` deliveries.

    Next is the heaviest lane that is not empty and may still send in this round. If there is none, a new round begins,
    so no lane starves.
    """

    def __init__(self, priorities: Priorities) -> None:
        super().__init__()
        self._priorities = priorities
        self._lanes: list[Lane] = []  # heaviest first
        self._turn: Lane | None = None  # the lane that is next; None = all are empty

    def __iter__(self) -> Iterator[Publish]:
        """The deliveries in the order in which they will be sent."""
        rounds: list[tuple[int, Publish]] = []
        for lane in self._lanes:
            for position, publish in enumerate(lane):
                rounds.append(((position - lane.left) // lane.weight, publish))
        rounds.sort(key=lambda entry: entry[0])
        return iter([publish for _, publish in rounds])

    def append(self, publish: Publish) -> None:
        """Add at the tail of its lane. The caller has made room."""
        lane = self._lane(publish)
        lane.append(publish)
        self._note_joined(lane, publish)

    def begin_tail(self, publish: Publish, journal: QueueJournal, on_read: Callable[[], None]) -> None:
        """FC-30: what joins the lane of `publish` from now on is on disk only."""
        lane = self._lane(publish)
        if lane.tail is None:
            lane.begin_tail(publish, journal, on_read)

    def restore(self, journal: QueueJournal, on_read: Callable[[], None]) -> None:
        """FC-27: what waited before the process began, all of it on disk."""
        for weight in journal.weights():
            lane = self._lane_of(weight)
            lane.restore(journal, on_read)
            self.length += lane.length
            self.bytes += lane.bytes
            self.waiting_qos1 += lane.waiting_qos1
            self.waiting_qos2 += lane.waiting_qos2
        self._turn = self._next_turn()

    def read_ahead(self) -> None:
        """FC-30: have more of each lane read back before they are needed."""
        for lane in self._lanes:
            lane.read_ahead()

    def is_ready(self) -> bool:
        """Whether the head is in memory: no other lane is sent from until it has been read back."""
        return self._turn is not None and self._turn.is_ready()

    def is_blocking(self) -> bool:
        """Whether PUBLISHes wait for room in the address of a delivery that waits here (FC-25)."""
        return any(lane.is_blocking() for lane in self._lanes)

    def push_front(self, publish: Publish) -> None:
        """Put back at the head of its lane (FC-13)."""
        lane = self._lane(publish)
        lane.push_front(publish)
        self._note_joined(lane, publish)

    def head(self) -> Publish:
        """The next delivery, until one joins or leaves. Raises IndexError if there is none."""
        turn = self._turn
        if turn is None:
            raise IndexError("nothing waits")
        return turn.head()

    def pop(self) -> Publish:
        """Remove and return the head. Raises IndexError if there is none."""
        turn = self._turn
        if turn is None:
            raise IndexError("nothing waits")
        publish = turn.pop()
        turn.left -= 1
        self._note_left(turn, publish.qos, publish.size)
        return publish

    def drop_head(self) -> int:
        """Remove the head, in memory or not, and return its QoS. Raises IndexError if there is none."""
        turn = self._turn
        if turn is None:
            raise IndexError("nothing waits")
        before = turn.bytes
        qos = turn.drop_head()
        turn.left -= 1
        self._note_left(turn, qos, before - turn.bytes)
        return qos

    def drop_for(self, arrival: Publish, limits: Limits) -> int:
        """As `victim`, also of what is on disk only (FC-30); returns the QoS of what is dropped."""
        if not self.length or never_fits(arrival, limits) or limits.mqueue_overflow == DROP_ARRIVAL:
            return arrival.qos
        own = self._lane(arrival)
        lane = self._fullest(own, arrival, limits.mqueue_overflow)
        waiting, before = lane.length, lane.bytes
        qos = lane.drop_for(arrival, limits) if lane is own else lane.drop_one(limits.mqueue_overflow)
        if lane.length < waiting:
            self._note_left(lane, qos, before - lane.bytes)
        return qos

    def victim(self, arrival: Publish, limits: Limits) -> Publish:
        """Remove and return what FC-5's policy drops, from the lane that exceeds its share most with `arrival`."""
        if not self.length or never_fits(arrival, limits) or limits.mqueue_overflow == DROP_ARRIVAL:
            return arrival
        own = self._lane(arrival)
        lane = self._fullest(own, arrival, limits.mqueue_overflow)
        waiting = lane.length
        victim = lane.victim(arrival, limits) if lane is own else lane.drop(limits.mqueue_overflow)
        if lane.length < waiting:
            self._note_left(lane, victim.qos, victim.size)
        return victim

    def _fullest(self, own: Lane, arrival: Publish, policy: str) -> Lane:
        """The lane with the most deliveries relative to its weight, the lighter on a tie; with QoS 0 if any has it."""
        only_qos0 = policy == DROP_OLDEST_QOS0 and (self.waiting_qos0 > 0 or arrival.qos == 0)
        fullest = own
        most = 0
        for lane in self._lanes:  # heaviest first: on a tie the last one is the lightest
            length = lane.length + (1 if lane is own else 0)
            droppable = length
            if only_qos0:
                droppable = lane.waiting_qos0 + (1 if lane is own and arrival.qos == 0 else 0)
            if droppable and length * fullest.weight >= most * lane.weight:
                fullest = lane
                most = length
        return fullest

    def _lane(self, publish: Publish) -> Lane:
        return self._lane_of(self._priorities.weight(publish.topic))

    def _lane_of(self, weight: int) -> Lane:
        lanes = self._lanes
        position = 0
        while position < len(lanes) and lanes[position].weight > weight:
            position += 1
        if position < len(lanes) and lanes[position].weight == weight:
            return lanes[position]
        lane = Lane(weight)
        lanes.insert(position, lane)
        return lane

    def _note_joined(self, lane: Lane, publish: Publish) -> None:
        self._count_joined(publish.qos, publish.size)
        turn = self._turn
        if turn is None or (lane.weight > turn.weight and lane.left):
            self._turn = lane

    def _note_left(self, lane: Lane, qos: int, size: int) -> None:
        self._count_left(qos, size)
        if lane is self._turn and not (lane.length and lane.left):
            self._turn = self._next_turn()

    def _next_turn(self) -> Lane | None:
        for lane in self._lanes:
            if lane.length and lane.left:
                return lane
        following: Lane | None = None
        for lane in self._lanes:  # a new round
            lane.left = lane.weight
            if following is None and lane.length:
                following = lane
        return following


def new_mqueue(limits: Limits) -> MQueue:
    """An empty queue, with weights if the limits have any (FC-12)."""
    return MQueue() if limits.priorities is None else PriorityMQueue(limits.priorities)
