"""FC-12: the mqueue of a session whose topics have weights."""

from collections.abc import Callable, Iterator
from typing import final

from protocol.publish import Publish
from session.conflation import Newest
from session.fair_mqueue import FairMQueue
from session.flows import FIFO, FLOW_BITS, lane_number
from session.journal import QueueJournal
from session.lanes import Lane, Lanes, count_restored
from session.limits import DROP_OLDEST_QOS0, Limits
from session.mqueue import READ_AHEAD
from session.priorities import Priorities


@final
class PriorityMQueue(Lanes):
    """One lane for each weight. In each round the lane of weight `w` sends up to `w` deliveries.

    Next is the heaviest lane that is not empty and may still send in this round. If there is none, a new round begins,
    so no lane starves. With flows each lane has lanes of its own (FC-33).
    """

    def __init__(self, priorities: Priorities, fairness: int = FIFO, newest: Newest | None = None) -> None:
        super().__init__(0, newest)
        self._priorities = priorities
        self._fairness = fairness
        self._lanes: list[Lane] = []  # heaviest first

    def __iter__(self) -> Iterator[Publish]:
        """The deliveries in the order in which they will be sent."""
        rounds: list[tuple[int, Publish]] = []
        for lane in self._lanes:
            for position, publish in enumerate(lane):
                rounds.append(((position - lane.left) // weight_of(lane), publish))
        rounds.sort(key=lambda entry: entry[0])
        return iter([publish for _, publish in rounds])

    def restore(self, journal: QueueJournal, on_read: Callable[[], None]) -> None:
        """FC-27: what waited before the process began, all of it on disk."""
        for weight in {number >> FLOW_BITS for number in journal.lanes()}:
            lane = self._lane_of(weight)
            lane.restore(journal, on_read)
            count_restored(self, lane)
        self.turn = self._next_turn()

    def read_ahead(self, least: int = READ_AHEAD) -> None:
        """FC-30: have more of each lane read back before they are needed."""
        for lane in self._lanes:
            lane.read_ahead(least)

    def exceeds_share(self, publish: Publish, limits: Limits) -> bool:
        """FC-16: whether the publisher of a new delivery is paced if the queue overflows."""
        return self.lane(publish).exceeds_share(publish, limits)

    def lane(self, publish: Publish) -> Lane:
        """The lane of a delivery."""
        return self._lane_of(self._priorities.weight(publish.topic))

    def numbered(self, number: int) -> Lane:
        """The lane of the weight that this number is for."""
        return self._lane_of(number >> FLOW_BITS)

    def lanes(self) -> list[Lane]:
        """The lanes, heaviest first."""
        return self._lanes

    def fullest(self, own: Lane | None, arrival: Publish | None, policy: str) -> Lane:
        """The lane with the most deliveries relative to its weight, the lighter on a tie; with QoS 0 if any has it."""
        new_qos0 = arrival is not None and arrival.qos == 0
        only_qos0 = policy == DROP_OLDEST_QOS0 and (self.waiting_qos0 > 0 or new_qos0)
        fullest = own
        most = 0
        for lane in self._lanes:  # heaviest first: on a tie the last one is the lightest
            length = lane.length + (1 if lane is own else 0)
            droppable = length
            if only_qos0:
                droppable = lane.waiting_qos0 + (1 if lane is own and new_qos0 else 0)
            if droppable and (fullest is None or length * weight_of(fullest) >= most * weight_of(lane)):
                fullest = lane
                most = length
        if fullest is None:
            raise IndexError("nothing waits")
        return fullest

    def has_before(self, publish: Publish) -> bool:
        """FC-33: whether something of its flow and weight waits."""
        return self.lane(publish).has_before(publish)

    def seek(self, is_open: Callable[[Publish], bool]) -> bool:
        """FC-33: have the turn at a lane that has something open; False if none has.

        The round ends when each lane has had its share that has.
        """
        for lane in self._lanes:
            if lane.length and lane.left and lane.seek(is_open):
                self.turn = lane
                return True
        for lane in self._lanes:
            if lane.length and not lane.left and lane.seek(is_open):
                for each in self._lanes:
                    each.left = weight_of(each)
                self.turn = lane
                return True
        return False

    def end_seek(self) -> None:
        """Have the turn where it is without `seek`."""
        self.turn = self._next_turn()

    def _lane_of(self, weight: int) -> Lane:
        lanes = self._lanes
        position = 0
        while position < len(lanes) and weight_of(lanes[position]) > weight:
            position += 1
        if position < len(lanes) and weight_of(lanes[position]) == weight:
            return lanes[position]
        number = lane_number(weight, 0)
        newest = self.newest
        lane: Lane = Lane(number, newest) if self._fairness == FIFO else FairMQueue(self._fairness, number, newest)
        lane.left = weight
        lanes.insert(position, lane)
        return lane

    def note_joined(self, lane: Lane) -> None:
        """A delivery has joined a lane that was empty."""
        turn = self.turn
        if turn is None or (lane.number > turn.number and lane.left):
            self.turn = lane

    def note_sent(self, lane: Lane, size: int) -> None:
        """A lane has sent one of its share."""
        lane.left -= 1
        self.note_left(lane)

    def note_left(self, lane: Lane) -> None:
        """A delivery has left a lane, or come to its head."""
        if lane is self.turn and not (lane.length and lane.left):
            self.turn = self._next_turn()

    def _next_turn(self) -> Lane | None:
        for lane in self._lanes:
            if lane.length and lane.left:
                return lane
        following: Lane | None = None
        for lane in self._lanes:  # a new round
            lane.left = weight_of(lane)
            if following is None and lane.length:
                following = lane
        return following


def weight_of(lane: Lane) -> int:
    """The weight that a lane is for."""
    return lane.number >> FLOW_BITS
