"""The mqueue: FC-4 (first in, first out), FC-5 (overflows), FC-12 (weights), FC-33 (flows) and FC-37 (conflation)."""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import takewhile
from typing import Final

from tests.model.books import Books
from tests.model.knobs import Knobs
from tests.model.message import Message


@cache
def weight_of(topic: str, rules: tuple[tuple[str, int], ...]) -> int:
    """FC-12: the weight that the most specific matching filter gives; topics without one have the lightest, 1.

    Corner: which filter is the most specific is decided level by level from the left: a name, then `+`, then `#`.
    """
    found = [(_vagueness(topic_filter), weight) for topic_filter, weight in rules if _matches(topic_filter, topic)]
    return min(found)[1] if found else 1


def conflates(topic: str, knobs: Knobs) -> bool:
    """FC-37: whether only the newest of a topic waits."""
    return any(_matches(topic_filter, topic) for topic_filter in knobs.conflate)


def _vagueness(topic_filter: str) -> list[int]:
    return [{"+": 1, "#": 2}.get(level, 0) for level in topic_filter.split("/")]


def _matches(topic_filter: str, topic: str) -> bool:
    wanted, levels = topic_filter.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted = wanted[:-1]
        levels = levels[: len(wanted)]
    return len(wanted) == len(levels) and all(w in ("+", level) for w, level in zip(wanted, levels, strict=True))


QUANTUM: Final = 512
"""FC-33: bytes that a flow may send more in each round."""


def cost(message: Message) -> int:
    """FC-33: what a delivery costs its flow. Corner: an empty one is not free."""
    return message.size + 64


class Round:
    """FC-33: the flows that wait, of one weight: the first one has its turn."""

    def __init__(self) -> None:
        self.flows: list[int] = []
        self.left: dict[int, int] = {}
        """Bytes that a flow may still send in this round. Corner: they are gone when nothing of it waits."""

    def copy(self) -> "Round":
        """The same, to play with."""
        aside = Round()
        aside.flows, aside.left = list(self.flows), dict(self.left)
        return aside

    def join(self, flow: int) -> None:
        """Something of a flow waits. Corner: the turn of a new one is after those of all others."""
        if flow not in self.flows:
            self.flows.append(flow)
            self.left[flow] = QUANTUM if len(self.flows) == 1 else 0

    def leave(self, flow: int) -> None:
        """Nothing of a flow waits any more."""
        had_turn = self.flows[0] == flow
        self.flows.remove(flow)
        if had_turn and self.flows:
            self.left[self.flows[0]] += QUANTUM

    def settle(self, heads: dict[int, Message]) -> None:
        """Turns end until the first flow may send its head. Corner: one that is alone need not wait for that."""
        while self.flows and self.left[self.flows[0]] < cost(heads[self.flows[0]]):
            if len(self.flows) == 1:
                self.left[self.flows[0]] = cost(heads[self.flows[0]])
                return
            self.flows.append(self.flows.pop(0))
            self.left[self.flows[0]] += QUANTUM


class MQueue:
    """What waits, in the order in which it came. Without rules all topics have one weight: first in, first out."""

    def __init__(self, knobs: Knobs) -> None:
        self.knobs = knobs
        self.waiting: list[Message] = []
        self.sent_in_round: dict[int, int] = {}
        """FC-12: in each round a weight of w sends up to w deliveries."""
        self.rounds: dict[int, Round] = {}
        """FC-33: by weight."""
        self.overflowing = False
        self.keeps = False
        """FC-34: whether an overflow drops what arrives."""
        """Whether the episode of overflowing is on: it is reported once."""

    def weight(self, message: Message) -> int:
        """FC-12."""
        return weight_of(message.topic, self.knobs.mqueue_priorities)

    # -- in which order (FC-4, FC-12)

    def head(self) -> Message:
        """Of the heaviest weight that waits and has not had its share of the round, the head."""
        if not self.knobs.mqueue_priorities:
            return self._head_of(1)
        turn = next(weight for weight in self._weights() if self.sent_in_round.get(weight, 0) < weight)
        return self._head_of(turn)

    def _head_of(self, weight: int) -> Message:
        """Of the flow whose turn it is, what came first."""
        lane = [message for message in self.waiting if self.weight(message) == weight]
        if self.knobs.fair:
            lane = [message for message in lane if message.flow == self.rounds[weight].flows[0]]
        return lane[0]

    def _weights(self) -> list[int]:
        """The weights that wait, heaviest first."""
        return sorted({self.weight(message) for message in self.waiting}, reverse=True)

    def pop(self) -> Message:
        """Take the head; it uses up its weight's share."""
        head = self.head()
        weight = self.weight(head)
        self.sent_in_round[weight] = self.sent_in_round.get(weight, 0) + 1
        if self.knobs.fair:
            self.rounds[weight].left[head.flow] -= cost(head)
        self.remove(head)
        return head

    def remove(self, message: Message) -> None:
        """Something leaves. Corner: the round ends at once when all that still waits has had its share."""
        self.waiting.remove(message)
        if self.knobs.fair:
            self._left(self.weight(message), message.flow)
        self._end_round()

    def _end_round(self) -> None:
        if all(self.sent_in_round.get(weight, 0) >= weight for weight in map(self.weight, self.waiting)):
            self.sent_in_round = {}

    def _heads(self, weight: int) -> dict[int, Message]:
        """FC-33: the first of each flow."""
        return {message.flow: message for message in reversed(self.waiting) if self.weight(message) == weight}

    def _left(self, weight: int, flow: int) -> None:
        heads = self._heads(weight)
        if flow not in heads:
            self.rounds[weight].leave(flow)
        self.rounds[weight].settle(heads)

    def _joined(self, message: Message) -> None:
        if self.knobs.fair:
            weight = self.weight(message)
            self.rounds.setdefault(weight, Round()).join(message.flow)
            self.rounds[weight].settle(self._heads(weight))

    def in_order(self) -> list[Message]:
        """All that waits, in the order in which it would go if nothing else came."""
        if not self.knobs.mqueue_priorities:
            return self._in_order_of(1)
        lanes = {weight: self._in_order_of(weight) for weight in self._weights()}
        sent = dict(self.sent_in_round)
        order: list[Message] = []
        while len(order) < len(self.waiting):
            turn = next((w for w, lane in lanes.items() if lane and sent.get(w, 0) < w), 0)
            if turn:
                order.append(lanes[turn].pop(0))
                sent[turn] = sent.get(turn, 0) + 1
            else:
                sent = {}
        return order

    def _in_order_of(self, weight: int) -> list[Message]:
        """The same of one weight."""
        waiting = [message for message in self.waiting if self.weight(message) == weight]
        if not self.knobs.fair or not waiting:
            return waiting
        lanes = {flow: [m for m in waiting if m.flow == flow] for flow in self.rounds[weight].flows}
        turns = self.rounds[weight].copy()
        order: list[Message] = []
        while turns.flows:
            turn = turns.flows[0]
            order.append(lanes[turn].pop(0))
            turns.left[turn] -= cost(order[-1])
            if not lanes[turn]:
                turns.leave(turn)
            turns.settle({flow: lane[0] for flow, lane in lanes.items() if lane})
        return order

    # -- what an overflow drops (FC-5)

    def bytes(self) -> int:
        """Payload bytes that wait."""
        return sum(message.size for message in self.waiting)

    def fits(self, arrival: Message, times: int = 1) -> bool:
        """Whether it may join without passing so many times a limit; one limit covers all weights (FC-12).

        Corner (FC-37): what it replaces does not count.
        """
        knobs = self.knobs
        others = [message for message in self.waiting if message is not older_in(self, arrival)]
        if knobs.max_mqueue_len and len(others) + 1 > times * knobs.max_mqueue_len:
            return False
        size = sum(message.size for message in others) + arrival.size
        return not knobs.max_mqueue_bytes or size <= times * knobs.max_mqueue_bytes

    def exceeds_share(self, arrival: Message) -> bool:
        """FC-16, FC-33: whether its flow has more than its share of the limits with it, among those of its weight."""
        together = [message for message in self.waiting if self.weight(message) == self.weight(arrival)] + [arrival]
        own = [message.size for message in together if message.flow == arrival.flow]
        flows = len({message.flow for message in together})
        length, size = self.knobs.max_mqueue_len, self.knobs.max_mqueue_bytes
        return 0 < length < len(own) * flows or 0 < size < sum(own) * flows

    def make_room(self, arrival: Message, now: int, books: Books, times: int = 1) -> tuple[bool, bool]:
        """Drop what has to be dropped; returns whether `arrival` may join, and whether an episode has begun.

        Corner: what has expired at the head goes first, and counts as that: nothing that lives makes room for it.
        """
        began = False
        while not self.fits(arrival, times):
            if self.drop_expired(arrival, now, books, times):
                break
            began = self.begin_episode() or began
            victim = self.victim(arrival)
            books.drop("queue_full", victim.qos)
            if victim is arrival:
                return False, began
            self.remove(victim)
        return True, began

    def drop_expired(self, arrival: Message, now: int, books: Books, times: int = 1) -> bool:
        """What has expired at the head goes, as far as that is needed; returns whether the arrival fits then."""
        while not self.fits(arrival, times) and self.waiting and self.head().overdue(now, self.knobs.max_mqueue_age):
            head = self.pop()
            books.drop(head.overdue(now, self.knobs.max_mqueue_age), head.qos)
        return self.fits(arrival, times)

    def drop_aged(self, now: int, books: Books) -> None:
        """FC-36: what has waited too long goes, from the head of each flow and weight on, also if it has expired."""
        for weight in self._weights():
            lane = [message for message in self.waiting if self.weight(message) == weight]
            flows = list(self.rounds[weight].flows) if self.knobs.fair else [0]
            for flow in flows:
                own = [message for message in lane if flow in {0, message.flow}]
                aged = list(takewhile(lambda message: message.aged(now, self.knobs.max_mqueue_age), own))
                for message in aged:
                    books.drop("aged", message.qos)
                    self.waiting.remove(message)
                if aged and flow:
                    self._left(weight, flow)
            self._end_round()

    def begin_episode(self) -> bool:
        """The queue overflows; returns whether it did not before."""
        began = not self.overflowing
        self.overflowing = True
        return began

    def join(self, arrival: Message, books: Books) -> None:
        """It waits from now on, in the place of the older one of its topic if only the newest waits (FC-37)."""
        older = older_in(self, arrival)
        if older is None:
            self.waiting.append(arrival)
            self._joined(arrival)
        else:
            _replace(self, older, arrival, books)
        books.highest("mqueue_max", len(self.waiting))
        books.highest("mqueue_bytes_max", self.bytes())

    def put_back(self, messages: list[Message], books: Books) -> None:
        """FC-13: what a member has not acknowledged is at the head again, each in its flow.

        Corner (FC-37): unless a newer one of its topic waits, or it takes the place of an older one.
        """
        for message in reversed(messages):
            older = older_in(self, message)
            if older is not None and older.routed_at >= message.routed_at:
                books.supersede(message.qos)
                continue
            first = min([0, *(waiting.number for waiting in self.waiting)])
            back = replace(message, number=first - 1, flow=message.publisher or message.flow)
            if older is not None:
                _replace(self, older, back, books)
            else:
                self.waiting.insert(0, back)
                self._joined(back)

    def clear(self) -> None:
        """Nothing waits any more."""
        self.waiting = []
        self.rounds = {}

    def victim(self, arrival: Message) -> Message:
        """What FC-5's policy drops next: something that waits, or the arrival.

        Corner: what could not wait even alone is dropped itself, under any policy: others would make room in vain.
        Corner (FC-12): the policy chooses within the weight whose length exceeds its share most, the arrival counted
        in, the lighter on a tie; `drop_oldest_qos0` looks only at weights that have QoS 0, if any has.
        Corner (FC-33): inside the weight the flow with the most bytes, the arrival counted in, that of the arrival on a
        tie, then the one whose turn is next; `drop_oldest_qos0` looks only at flows that have QoS 0, if any has.
        """
        policy = self.knobs.mqueue_overflow
        if not self.waiting or self.keeps or 0 < self.knobs.max_mqueue_bytes < arrival.size:
            return arrival  # FC-34: what waits is promised
        candidates = [*self.waiting, arrival]
        weights = {self.weight(message) for message in candidates}
        if policy == "drop_oldest_qos0" and any(message.qos == 0 for message in candidates):
            weights = {self.weight(message) for message in candidates if message.qos == 0}
        lengths = {weight: sum(self.weight(message) == weight for message in candidates) for weight in weights}
        fullest = max(weights, key=lambda weight: (Fraction(lengths[weight], weight), -weight))
        candidates = [message for message in candidates if self.weight(message) == fullest]
        if self.knobs.fair:
            candidates = self._of_longest_flow(candidates, arrival, fullest)
        if policy == "drop_newest":
            return candidates[-1]
        if policy == "drop_oldest_qos0":
            candidates = [message for message in candidates if message.qos == 0] or candidates
        return candidates[0]

    def _of_longest_flow(self, candidates: list[Message], arrival: Message, weight: int) -> list[Message]:
        """FC-33: those of the flow that has the most."""
        flows = self.rounds[weight].flows if weight in self.rounds else []
        if arrival in candidates:
            flows = [arrival.flow, *flows]
        if self.knobs.mqueue_overflow == "drop_oldest_qos0" and any(message.qos == 0 for message in candidates):
            with_qos0 = {message.flow for message in candidates if message.qos == 0}
            flows = [flow for flow in flows if flow in with_qos0]
        longest = max(flows, key=lambda flow: sum(cost(m) for m in candidates if m.flow == flow))
        return [message for message in candidates if message.flow == longest]


def older_in(mqueue: MQueue, arrival: Message) -> Message | None:
    """FC-37: what it replaces."""
    if not conflates(arrival.topic, mqueue.knobs):
        return None
    return next((message for message in mqueue.waiting if message.topic == arrival.topic), None)


def _replace(mqueue: MQueue, older: Message, newer: Message, books: Books) -> None:
    """FC-37. Corner: it has the place and the flow of the older one, and its own QoS."""
    own = newer.publisher or newer.flow
    mqueue.waiting[mqueue.waiting.index(older)] = replace(newer, flow=older.flow, publisher=own)
    books.supersede(older.qos)
    if mqueue.knobs.fair:
        weight = mqueue.weight(newer)
        mqueue.rounds[weight].settle(mqueue._heads(weight))
