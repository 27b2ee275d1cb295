"""FC-33: the mqueue that is fair between flows: deficit round robin (Shreedhar and Varghese, 1995), in bytes.

Each flow with a backlog has a lane. In each round a lane may send QUANTUM bytes more; what it does not use because its
head is larger is left for the next round, and gone when the lane is empty. So each flow gets the same share of what the
client takes, whatever the others send. A flow that begins to wait has its turn at once, as the new flows of FQ-CoDel
(RFC 8290): it waits for no backlog. It has what it has not used of the round: else it could take all in small pieces.
"""

from collections.abc import Callable, Iterator
from typing import Final, final

from mypy_extensions import i64

from protocol.publish import Publish
from session.conflation import Newest
from session.flows import FLOW_BITS, UNKNOWN, flow_lane
from session.journal import QueueJournal
from session.lanes import Lane, Lanes, count_restored
from session.limits import DROP_OLDEST_QOS0, Limits
from session.mqueue import NEAR, READ_AHEAD, MQueue

QUANTUM: Final = 512
"""Bytes of a lane in a round: few, so that lanes alternate soon. A delivery of 1 MiB waits for 2,048 short rounds."""

COST: Final = 64
"""Bytes that a delivery costs beside its payload: else empty ones were free."""


@final
class FairMQueue(Lanes):
    """One lane for each flow in which something waits."""

    def __init__(self, fairness: int, number: int = 0, newest: Newest | None = None) -> None:
        """`fairness`: which lane of a flow decides; `number`: of the weight that it is the lane of (FC-12)."""
        super().__init__(number, newest)
        self._fairness: i64 = fairness
        self._by_number: dict[int, Lane] = {}
        self._round: list[Lane] = []
        self._position: i64 = 0  # of the turn in the round
        self._last: Lane | None = None  # the one that was asked for last, in which nothing may wait
        self._older: Lane | None = None  # what came before flows were told apart: it is sent first (FC-9)
        self._rest: dict[int, i64] = {}  # of lanes that have become empty in this round: the bytes that they have left

    def __iter__(self) -> Iterator[Publish]:
        """The deliveries that are in memory, in the order in which they will be sent."""
        order = self.lanes()
        waiting = [list(lane)[::-1] for lane in order]
        left = [int(lane.left) for lane in order]
        position = 0
        while any(waiting):
            lane = waiting[position]
            alone = sum(map(bool, waiting)) == 1
            while lane and (alone or order[position] is self._older or cost_of(lane[-1].size) <= left[position]):
                left[position] -= cost_of(lane[-1].size)
                yield lane.pop()
            position = (position + 1) % len(order)
            left[position] += QUANTUM

    def lane(self, publish: Publish) -> Lane:
        """The lane of a delivery; a new one is among the lanes when something waits in it."""
        return self._lane_of(self.number + flow_lane(publish.flow, self._fairness))

    def numbered(self, number: int) -> Lane:
        """The lane of this number."""
        return self._lane_of(number)

    def _lane_of(self, number: i64) -> Lane:
        last = self._last
        if last is not None and last.number == number:
            return last
        lane = self._by_number.get(number)
        if lane is None:
            lane = Lane(number, self.newest)
        self._last = lane
        return lane

    def lanes(self) -> list[Lane]:
        """The lanes in which something waits, in the order of their turns."""
        return self._round[self._position :] + self._round[: self._position]

    def restore(self, journal: QueueJournal, on_read: Callable[[], None]) -> None:
        """FC-27: what waited before the process began, all of it on disk."""
        older = self.number + UNKNOWN
        for number in sorted(journal.lanes(), key=lambda number: number != older):
            if number >> FLOW_BITS == self.number >> FLOW_BITS:
                lane = self._lane_of(number)
                lane.restore(journal, on_read)
                count_restored(self, lane)
                self.has_tail = True
                if number == older:
                    self._older = lane
                self._enter(lane, last=True)

    def read_ahead(self, least: int = READ_AHEAD) -> None:
        """FC-30: have more of the lanes that are next read back before they are needed."""
        if not self.has_tail:
            return
        lanes = len(self._round)
        least = max(least // max(lanes, 1), 2)
        for step in range(min(lanes, NEAR)):
            self._round[(self._position + step) % lanes].read_ahead(least)
        self.has_tail = any(lane.tail is not None for lane in self._round)

    def fullest(self, own: Lane | None, arrival: Publish | None, policy: str) -> Lane:
        """The lane with the most bytes, that of the arrival on a tie; one with QoS 0 if any has it."""
        new_qos0 = arrival is not None and arrival.qos == 0
        only_qos0 = policy == DROP_OLDEST_QOS0 and (self.waiting_qos0 > 0 or new_qos0)
        fullest: Lane | None = None
        most: i64 = 0
        if own is not None and arrival is not None and (not only_qos0 or new_qos0 or own.waiting_qos0):
            fullest = own
            most = bytes_of(own) + cost_of(arrival.size)
        for step in range(len(self._round)):
            lane = self._round[(self._position + step) % len(self._round)]
            if lane is not own and bytes_of(lane) > most and (not only_qos0 or lane.waiting_qos0):
                fullest = lane
                most = bytes_of(lane)
        if fullest is None:
            raise IndexError("nothing waits")
        return fullest

    def exceeds_share(self, publish: Publish, limits: Limits) -> bool:
        """FC-16: whether the flow of a new delivery has more than its share of the limits with it: then it is paced."""
        lane = self.lane(publish)
        lanes = len(self._round) + (0 if lane.length else 1)
        if limits.max_mqueue_len and (lane.length + 1) * lanes > limits.max_mqueue_len:
            return True
        return 0 < limits.max_mqueue_bytes < (lane.bytes + publish.size) * lanes

    def has_before(self, publish: Publish) -> bool:
        """FC-33: whether something of its flow waits."""
        return self._older is not None or self.lane(publish).has_before(publish)

    def seek(self, is_open: Callable[[Publish], bool]) -> bool:
        """FC-33: have the turn at a lane that is open; False if none is.

        Lanes that are not are passed over, as if they were not in the round. What comes to the head of such a lane need
        not wait for a round when it is open, and no longer than others have to.
        """
        turn = self.turn
        if turn is None:
            return False
        if turn.seek(is_open):
            return True
        if turn is self._older:
            return False  # FC-9
        others = [lane for lane in self.lanes()[1:] if lane.seek(is_open)]
        if not others:
            self._read_heads()
            return False
        turn.left = min(turn.left, cost_of(turn.head_size()))
        turn = self.turn = give_turns(others)
        position = self._round.index(turn)
        if position < self._position:
            self._rest.clear()  # a round has ended
        self._position = position
        return True

    def _read_heads(self) -> None:
        """FC-30: lanes that nobody can be given anything of, because it is on disk, are the next ones."""
        on_disk = [lane for lane in self._round if lane.head() is None]
        for lane in on_disk[:NEAR]:
            lane.read_ahead(2)

    def note_joined(self, lane: Lane) -> None:
        """A delivery has joined a lane that was empty."""
        self._enter(lane)

    def note_sent(self, lane: Lane, size: int) -> None:
        """A lane has sent a delivery."""
        lane.left -= cost_of(size)
        self.note_left(lane)

    def note_left(self, lane: Lane) -> None:
        """A delivery has left a lane, or come to its head. Without any it leaves the round."""
        if lane.length == 0:
            self._leave(lane)
        elif lane is self.turn:
            self._advance()

    def _enter(self, lane: Lane, last: bool = False) -> None:
        """It has its turn at once, with what is left of its round; `last`: after all others."""
        self._by_number[lane.number] = lane
        self._round.insert(self._position, lane)
        turn = self.turn
        if turn is not None and (last or turn is self._older):
            lane.left = 0
            self._position += 1
            return
        lane.left = self._rest.pop(lane.number, QUANTUM) - QUANTUM  # it gets that when its turn begins
        if turn is not None:
            turn.left -= QUANTUM  # and so does this one when it goes on
        self._begin_turn()

    def _leave(self, lane: Lane) -> None:
        position = self._position if lane is self.turn else self._round.index(lane)
        del self._round[position]
        del self._by_number[lane.number]
        self._rest[lane.number] = min(lane.left, QUANTUM)
        if lane is self._older:
            self._older = None
        if position < self._position:
            self._position -= 1
        elif lane is self.turn:
            self._begin_turn()

    def _begin_turn(self) -> None:
        """The turn of the lane at this position begins."""
        if self._position == len(self._round):
            self._begin_round()
        if not self._round:
            self.turn = None
            return
        self._round[self._position].left += QUANTUM
        self._advance()

    def _advance(self) -> None:
        """The next turn begins when its lane may not send its head in this one."""
        lanes = self._round
        turn = lanes[self._position]
        cost = cost_of(turn.head_size())
        passed = 0
        while turn.left < cost and turn is not self._older:
            if len(lanes) == 1:
                turn.left = cost  # as after enough rounds
                self._begin_round()
                break
            passed += 1
            if passed == len(lanes):
                self._skip_rounds()
            self._position += 1
            if self._position == len(lanes):
                self._begin_round()
            turn = lanes[self._position]
            turn.left += QUANTUM
            cost = cost_of(turn.head_size())
        self.turn = turn

    def _begin_round(self) -> None:
        self._position = 0
        self._rest.clear()

    def _skip_rounds(self) -> None:
        """All heads are large: give each lane at once what it gets in the rounds in which none may send."""
        rounds = min([(cost_of(lane.head_size()) - lane.left - 1) // QUANTUM for lane in self._round])
        for lane in self._round:
            lane.left += rounds * QUANTUM


def give_turns(lanes: list[Lane]) -> Lane:
    """Give these lanes their turns until one may send its head; returns that one."""
    missing = [max(cost_of(lane.head_size()) - lane.left, 0) for lane in lanes]
    rounds = max((min(missing) + QUANTUM - 1) // QUANTUM, 1)
    chosen: Lane | None = None
    for lane, lacks in zip(lanes, missing, strict=True):
        if lacks:
            lane.left += QUANTUM * (rounds if chosen is None else rounds - 1)
        if chosen is None and lacks <= rounds * QUANTUM:
            chosen = lane
    assert chosen is not None  # the one that lacks least
    return chosen


def cost_of(size: i64) -> i64:
    """What a delivery costs its flow, by its payload bytes."""
    return size + COST


def bytes_of(mqueue: MQueue) -> i64:
    """What all that waits in a queue costs."""
    return mqueue.bytes + COST * mqueue.length
