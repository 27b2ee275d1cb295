"""FC-12: the mqueue of a session whose topics have weights."""

from collections.abc import Iterator
from typing import final

from protocol.publish import Publish
from session.limits import DROP_NEWEST, DROP_OLDEST_QOS0, Limits
from session.mqueue import MQueue, too_big
from session.priorities import Priorities


@final
class Lane(MQueue):
    """The deliveries of one weight."""

    def __init__(self, weight: int) -> None:
        super().__init__()
        self.weight = weight
        self.left = weight
        """How many it may still send in this round."""

    def drop(self, policy: str) -> Publish:
        """Take out what makes room for a delivery of another weight. Raises IndexError when nothing waits."""
        if policy == DROP_NEWEST:
            return self._pop_newest()
        if policy == DROP_OLDEST_QOS0 and self.waiting_qos0:
            return self._pop_oldest_qos0()
        return self.pop()


@final
class PriorityMQueue(MQueue):
    """One queue for each weight, under one limit. In each round a weight `w` sends up to `w` deliveries.

    The heaviest that waits and has sent less goes first. A round is over when all that waits has sent its share of it,
    so nothing starves.
    """

    def __init__(self, priorities: Priorities) -> None:
        super().__init__()
        self._priorities = priorities
        self._lanes: list[Lane] = []  # heaviest first
        self._turn: Lane | None = None  # whose delivery is next; None: nothing waits

    def __iter__(self) -> Iterator[Publish]:
        """What waits, in the order in which it is to go."""
        rounds: list[tuple[int, Publish]] = []
        for lane in self._lanes:
            for position, publish in enumerate(lane):
                rounds.append(((position - lane.left) // lane.weight, publish))
        rounds.sort(key=lambda entry: entry[0])
        return iter([publish for _, publish in rounds])

    def append(self, publish: Publish) -> None:
        """Join the tail of its weight. The caller has made room."""
        lane = self._lane(publish)
        lane.append(publish)
        self._note_joined(lane, publish)

    def push_front(self, publish: Publish) -> None:
        """Come back to the head of its weight (FC-13)."""
        lane = self._lane(publish)
        lane.push_front(publish)
        self._note_joined(lane, publish)

    def head(self) -> Publish:
        """The delivery that is next, until one joins or leaves. Raises IndexError when nothing waits."""
        turn = self._turn
        if turn is None:
            raise IndexError("nothing waits")
        return turn.head()

    def pop(self) -> Publish:
        """Take the head. Raises IndexError when nothing waits."""
        turn = self._turn
        if turn is None:
            raise IndexError("nothing waits")
        publish = turn.pop()
        turn.left -= 1
        self._note_left(turn, publish)
        return publish

    def victim(self, newcomer: Publish, limits: Limits) -> Publish:
        """Take out what FC-5's policy drops from the weight that exceeds its share most, `newcomer` counted in."""
        if not self.length or too_big(newcomer, limits):
            return newcomer
        own = self._lane(newcomer)
        lane = self._fullest(own, newcomer, limits.mqueue_overflow)
        waiting = lane.length
        victim = lane.victim(newcomer, limits) if lane is own else lane.drop(limits.mqueue_overflow)
        if lane.length < waiting:
            self._note_left(lane, victim)
        return victim

    def _fullest(self, own: Lane, newcomer: Publish, policy: str) -> Lane:
        """The weight with the most deliveries for its weight, the lighter one on a tie; for QoS 0 if there is any."""
        only_qos0 = policy == DROP_OLDEST_QOS0 and (self.waiting_qos0 > 0 or newcomer.qos == 0)
        fullest = own
        most = 0
        for lane in self._lanes:  # the lighter ones later
            length = lane.length + (1 if lane is own else 0)
            droppable = length
            if only_qos0:
                droppable = lane.waiting_qos0 + (1 if lane is own and newcomer.qos == 0 else 0)
            if droppable and length * fullest.weight >= most * lane.weight:
                fullest = lane
                most = length
        return fullest

    def _lane(self, publish: Publish) -> Lane:
        weight = self._priorities.weight(publish.topic)
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
        self._note(publish, 1)
        turn = self._turn
        if turn is None or (lane.weight > turn.weight and lane.left):
            self._turn = lane

    def _note_left(self, lane: Lane, publish: Publish) -> None:
        self._note(publish, -1)
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
    """An empty queue: by the weight of topics where there are any (FC-12)."""
    return MQueue() if limits.priorities is None else PriorityMQueue(limits.priorities)
