"""What waits in an mqueue, and in which order it goes: FC-4 (first in, first out), FC-12 (weights), FC-33 (flows)."""

from functools import cache

from tests.model.knobs import Knobs
from tests.model.message import Message
from tests.model.turns import IsOpen, Round, cost


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


class Waiting:
    """What waits. Without rules all topics have one weight: first in, first out."""

    def __init__(self, knobs: Knobs) -> None:
        self.knobs = knobs
        self.waiting: list[Message] = []
        self.sent_in_round: dict[int, int] = {}
        """FC-12: in each round a weight of w sends up to w deliveries."""
        self.rounds: dict[int, Round] = {}
        """FC-33: by weight."""

    def weight(self, message: Message) -> int:
        """FC-12."""
        return weight_of(message.topic, self.knobs.mqueue_priorities)

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

    def seek(self, is_open: IsOpen) -> Message | None:
        """FC-33, keys: the first head that is open; its flow has its turn now. `take` comes next, or nothing does.

        Corner (FC-12): a round is over when what has not had its share of it is not open, and something else is.
        """
        weights = self._weights()
        behind = [weight for weight in weights if self.sent_in_round.get(weight, 0) >= weight]
        for weight in [weight for weight in weights if weight not in behind]:
            if (found := self.rounds[weight].seek(self._heads(weight), is_open)) is not None:
                return found
        for weight in behind:
            if (found := self.rounds[weight].seek(self._heads(weight), is_open)) is not None:
                self.sent_in_round = {}
                return found
        return None

    def peek(self, is_open: IsOpen) -> Message | None:
        """What `seek` would find; no turn moves."""
        rounds, sent = self.rounds, self.sent_in_round
        self.rounds = {weight: turns.copy() for weight, turns in rounds.items()}
        found = self.seek(is_open)
        self.rounds, self.sent_in_round = rounds, sent
        return found

    def is_before(self, message: Message) -> bool:
        """FC-33, keys: whether something waits that `message` must not overtake."""
        own = (self.weight(message), message.flow)
        waits = any((self.weight(other), other.flow) == own for other in self.waiting)
        return waits or older_in(self, message) is not None

    def pop(self) -> Message:
        """Take the head."""
        return self.take(self.head())

    def take(self, head: Message) -> Message:
        """Take the first of a flow; it uses up its weight's share."""
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

    def _joined(self, message: Message, last: bool = False) -> None:
        if self.knobs.fair:
            weight = self.weight(message)
            self.rounds.setdefault(weight, Round()).join(message.flow, last)
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


def older_in(mqueue: "Waiting", arrival: Message) -> Message | None:
    """FC-37: what it replaces."""
    if not conflates(arrival.topic, mqueue.knobs):
        return None
    return next((message for message in mqueue.waiting if message.topic == arrival.topic), None)
