"""The mqueue: FC-5 (overflows), FC-36 (age) and FC-37 (conflation) over what waits."""

from dataclasses import replace
from fractions import Fraction
from itertools import takewhile

from tests.model.books import Books
from tests.model.knobs import Knobs
from tests.model.message import Message
from tests.model.turns import cost
from tests.model.waiting import Waiting, older_in


class MQueue(Waiting):
    """What waits, bounded."""

    def __init__(self, knobs: Knobs) -> None:
        super().__init__(knobs)
        self.overflowing = False
        """Whether the episode of overflowing is on: it is reported once."""
        self.keeps = False
        """FC-34: whether an overflow drops what arrives."""

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

    def join(self, arrival: Message, books: Books, last: bool = False) -> None:
        """It waits from now on, in the place of the older one of its topic if only the newest waits (FC-37).

        `last`: its flow has no turn at once; so it is after a restart.
        """
        older = older_in(self, arrival)
        if older is None:
            self.waiting.append(arrival)
            self._joined(arrival, last)
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


def _replace(mqueue: MQueue, older: Message, newer: Message, books: Books) -> None:
    """FC-37. Corner: it has the place and the flow of the older one, and its own QoS."""
    own = newer.publisher or newer.flow
    mqueue.waiting[mqueue.waiting.index(older)] = replace(newer, flow=older.flow, publisher=own)
    books.supersede(older.qos)
    if mqueue.knobs.fair:
        weight = mqueue.weight(newer)
        mqueue.rounds[weight].settle(mqueue._heads(weight))
