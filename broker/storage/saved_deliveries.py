"""The deliveries of one queue that are not done, while the journal is read (FC-27)."""

from array import array
from bisect import bisect_left
from typing import Final, final

from broker.storage.index import GONE, KEPT_GAPS, OFFSET, SHIFT, Entry, Index

_NONE: Final = -(1 << 61)
"""Less than every number of a delivery."""


@final
class SavedDeliveries:
    """By number, each in 24 bytes, and 16 with its topic: there may be millions.

    They are read in the order of their numbers, but for those that compaction has moved, or that have returned to the
    head of a group's queue: only then it is known by number where each is.
    """

    def __init__(self) -> None:
        self.length = 0
        self._last = _NONE
        self._numbers = array("q")
        self._places = array("Q")
        self._sizes = array("I")  # payload bytes * 2, + 1 at QoS 2
        self._lengths = array("I")
        self._topics: list[bytes] = []  # empty: topics are not read
        self._costs = array("Q")  # as many as topics
        self._flows = array("I")  # empty: flows are not read
        self._first = 0  # before this position all are gone
        self._positions: dict[int, int] | None = None

    def add(self, number: int, place: int, qos: int, size: int, length: int) -> None:
        """Add a delivery; or, if there is one of this number already, its message is at another place from now on.

        `place`: frame and offset, as in an index; `size`: payload bytes, `length`: bytes of the record.
        """
        if number > self._last:
            self._last = number
            if self._positions is not None:
                self._positions[number] = len(self._numbers)
        elif self._is_moved(number, place, _size(size, qos), length):
            return
        self._numbers.append(number)
        self._places.append(place)
        self._sizes.append(_size(size, qos))
        self._lengths.append(length)
        self.length += 1

    def add_topic(self, number: int, topic: bytes, cost: int) -> None:
        """Say the topic of the delivery that `add` has added, and what it costs (FC-24a), in the same order."""
        position = self._position(number)
        if position == len(self._topics):
            self._topics.append(topic)
            self._costs.append(cost)

    def add_flow(self, number: int, flow: int) -> None:
        """Say the flow of the delivery that `add` has added, in the same order (FC-33)."""
        position = self._position(number)
        if position == len(self._flows):
            self._flows.append(flow)

    def _is_moved(self, number: int, place: int, size: int, length: int) -> bool:
        """Whether a delivery that comes out of order is known already; then its place is another from now on."""
        positions = self._positions
        if positions is None:
            positions = self._positions = {
                number: position for position, number in enumerate(self._numbers) if self._places[position] != GONE
            }
        position = positions.get(number, -1)
        if position < 0:
            positions[number] = len(self._numbers)
            return False
        self._places[position] = place
        self._sizes[position] = size
        self._lengths[position] = length
        return True

    def holds(self, number: int) -> bool:
        """Whether a delivery is not done."""
        return self._position(number) >= 0

    def place_of(self, number: int) -> int:
        """Frame and offset of the message of a delivery, as in an index; GONE = the delivery is done."""
        position = self._position(number)
        return GONE if position < 0 else self._places[position]

    @property
    def has_lanes(self) -> bool:
        """Whether topics or flows are read, and there is a delivery."""
        return bool(self._topics) or bool(self._flows)

    def topic_of(self, number: int) -> bytes:
        """The topic of a delivery that is not done; empty = topics are not read."""
        return self._topics[self._position(number)] if self._topics else b""

    def cost_of(self, number: int) -> int:
        """What a delivery costs whose topic is known (FC-24a)."""
        return self._costs[self._position(number)]

    def flow_of(self, number: int) -> int:
        """The flow of a delivery that is not done (FC-33); 0 = it has none, or flows are not read."""
        return self._flows[self._position(number)] if self._flows else 0

    def remove(self, number: int) -> None:
        """A delivery is done."""
        position = self._position(number)
        if position < 0:
            return
        self._places[position] = GONE
        self.length -= 1
        if self._positions is not None:
            del self._positions[number]
        if self.length == 0:
            self._keep([])
        elif position == self._first and self._positions is None:
            self._trim()

    def _position(self, number: int) -> int:
        """Where a delivery is; -1 = it is not there."""
        if self._positions is not None:
            return self._positions.get(number, -1)
        numbers, first = self._numbers, self._first
        if first < len(numbers) and numbers[first] == number:
            return first
        position = bisect_left(numbers, number, first)
        if position == len(numbers) or numbers[position] != number or self._places[position] == GONE:
            return -1
        return position

    def _trim(self) -> None:
        """Forget what is gone at the head, in large steps, so that each is moved a few times."""
        places, first = self._places, self._first
        while places[first] == GONE:
            first += 1
        self._first = first
        if first > KEPT_GAPS and first >= len(places) - first:
            del self._numbers[:first], places[:first], self._sizes[:first], self._lengths[:first]
            del self._topics[:first], self._costs[:first], self._flows[:first]
            self._first = 0

    def _keep(self, positions: list[int]) -> None:
        """Keep these only, in this order."""
        self._numbers = array("q", [self._numbers[each] for each in positions])
        self._places = array("Q", [self._places[each] for each in positions])
        self._sizes = array("I", [self._sizes[each] for each in positions])
        self._lengths = array("I", [self._lengths[each] for each in positions])
        if self._topics:
            self._topics = [self._topics[each] for each in positions]
            self._costs = array("Q", [self._costs[each] for each in positions])
        if self._flows:
            self._flows = array("I", [self._flows[each] for each in positions])
        self._first = 0
        self._positions = None

    def _settle(self) -> None:
        """Keep what is not gone, by number."""
        if self.length == len(self._numbers) and self._positions is None:
            return
        positions = [position for position, place in enumerate(self._places) if place != GONE]
        self._keep(sorted(positions, key=self._numbers.__getitem__))

    def index(self, received_at: int) -> Index:
        """The index of all of them; they are as if received at that time."""
        self._settle()
        return Index.of(self._numbers, self._places, self._sizes, received_at)

    def entries(self, received_at: int) -> list[Entry]:
        """The same as entries, by number."""
        return self.index(received_at).entries()

    def pages(self) -> list[Entry]:
        """The same of an address, with the sizes of the records."""
        self._settle()
        found = zip(self._numbers, self._places, self._lengths, strict=True)
        return [Entry(number, place >> SHIFT, place & OFFSET, length, 1, 0) for number, place, length in found]

    def record_bytes(self) -> int:
        """Bytes of the records of their messages."""
        self._settle()
        return sum(self._lengths)

    def records(self) -> list[tuple[int, int]]:
        """The place of each one's message, and the bytes of its record."""
        self._settle()
        return list(zip(self._places, self._lengths, strict=True))


def _size(size: int, qos: int) -> int:
    """As an index has it. An address may have pages of QoS 0, but asks for no QoS."""
    return size << 1 | (1 if qos == 2 else 0)
