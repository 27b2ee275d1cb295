"""The mqueue: FC-4 (first in, first out), FC-5 (what an overflow drops) and FC-12 (weights)."""

from fractions import Fraction
from functools import cache

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


def _vagueness(topic_filter: str) -> list[int]:
    return [{"+": 1, "#": 2}.get(level, 0) for level in topic_filter.split("/")]


def _matches(topic_filter: str, topic: str) -> bool:
    wanted, levels = topic_filter.split("/"), topic.split("/")
    if wanted[-1] == "#":
        wanted = wanted[:-1]
        levels = levels[: len(wanted)]
    return len(wanted) == len(levels) and all(w in ("+", level) for w, level in zip(wanted, levels, strict=True))


class MQueue:
    """What waits, in the order in which it came. Without rules all topics have one weight: first in, first out."""

    def __init__(self, knobs: Knobs) -> None:
        self.knobs = knobs
        self.waiting: list[Message] = []
        self.sent_in_round: dict[int, int] = {}
        """FC-12: in each round a weight of w sends up to w deliveries."""
        self.overflowing = False
        """Whether the episode of overflowing is on: it is reported once."""

    def weight(self, message: Message) -> int:
        """FC-12."""
        return weight_of(message.topic, self.knobs.mqueue_priorities)

    # -- in which order (FC-4, FC-12)

    def head(self) -> Message:
        """Of the heaviest weight that waits and has not had its share of the round, what came first."""
        if not self.knobs.mqueue_priorities:
            return self.waiting[0]
        turn = next(weight for weight in self._weights() if self.sent_in_round.get(weight, 0) < weight)
        return next(message for message in self.waiting if self.weight(message) == turn)

    def _weights(self) -> list[int]:
        """The weights that wait, heaviest first."""
        return sorted({self.weight(message) for message in self.waiting}, reverse=True)

    def pop(self) -> Message:
        """Take the head; it uses up its weight's share."""
        head = self.head()
        weight = self.weight(head)
        self.sent_in_round[weight] = self.sent_in_round.get(weight, 0) + 1
        self.remove(head)
        return head

    def remove(self, message: Message) -> None:
        """Something leaves. Corner: the round ends at once when all that still waits has had its share."""
        self.waiting.remove(message)
        if all(self.sent_in_round.get(weight, 0) >= weight for weight in map(self.weight, self.waiting)):
            self.sent_in_round = {}

    def in_order(self) -> list[Message]:
        """All that waits, in the order in which it would go if nothing else came."""
        if not self.knobs.mqueue_priorities:
            return list(self.waiting)
        lanes = {weight: [m for m in self.waiting if self.weight(m) == weight] for weight in self._weights()}
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

    # -- what an overflow drops (FC-5)

    def bytes(self) -> int:
        """Payload bytes that wait."""
        return sum(message.size for message in self.waiting)

    def fits(self, arrival: Message) -> bool:
        """Whether it may join without passing a limit; one limit covers all weights (FC-12)."""
        knobs = self.knobs
        if knobs.max_mqueue_len and len(self.waiting) + 1 > knobs.max_mqueue_len:
            return False
        return not knobs.max_mqueue_bytes or self.bytes() + arrival.size <= knobs.max_mqueue_bytes

    def make_room(self, arrival: Message, now: int, books: Books) -> tuple[bool, bool]:
        """Drop what has to be dropped; returns whether `arrival` may join, and whether an episode has begun.

        Corner: what has expired at the head goes first, and counts as that: nothing that lives makes room for it.
        """
        began = False
        while not self.fits(arrival):
            if self.drop_expired(arrival, now, books):
                break
            began = self.begin_episode() or began
            victim = self.victim(arrival)
            books.drop("queue_full", victim.qos)
            if victim is arrival:
                return False, began
            self.remove(victim)
        return True, began

    def drop_expired(self, arrival: Message, now: int, books: Books) -> bool:
        """What has expired at the head goes, as far as that is needed; returns whether the arrival fits then."""
        while not self.fits(arrival) and self.waiting and self.head().expired(now):
            books.drop("expired", self.pop().qos)
        return self.fits(arrival)

    def begin_episode(self) -> bool:
        """The queue overflows; returns whether it did not before."""
        began = not self.overflowing
        self.overflowing = True
        return began

    def join(self, arrival: Message, books: Books) -> None:
        """It waits from now on."""
        self.waiting.append(arrival)
        books.highest("mqueue_max", len(self.waiting))
        books.highest("mqueue_bytes_max", self.bytes())

    def victim(self, arrival: Message) -> Message:
        """What FC-5's policy drops next: something that waits, or the arrival.

        Corner: what could not wait even alone is dropped itself, under any policy: others would make room in vain.
        Corner (FC-12): the policy chooses within the weight whose length exceeds its share most, the arrival counted
        in, the lighter on a tie; `drop_oldest_qos0` looks only at weights that have QoS 0, if any has.
        """
        policy = self.knobs.mqueue_overflow
        if not self.waiting or 0 < self.knobs.max_mqueue_bytes < arrival.size:
            return arrival
        candidates = [*self.waiting, arrival]
        weights = {self.weight(message) for message in candidates}
        if policy == "drop_oldest_qos0" and any(message.qos == 0 for message in candidates):
            weights = {self.weight(message) for message in candidates if message.qos == 0}
        lengths = {weight: sum(self.weight(message) == weight for message in candidates) for weight in weights}
        fullest = max(weights, key=lambda weight: (Fraction(lengths[weight], weight), -weight))
        candidates = [message for message in candidates if self.weight(message) == fullest]
        if policy == "drop_newest":
            return candidates[-1]
        if policy == "drop_oldest_qos0":
            candidates = [message for message in candidates if message.qos == 0] or candidates
        return candidates[0]
