"""Where the deliveries of one queue are that are on disk only (FC-30)."""

from array import array
from bisect import bisect_left
from typing import Final, NamedTuple, final

from session.address import Address

SHIFT: Final = 32
OFFSET: Final = (1 << SHIFT) - 1
"""A place is the number of a frame, shifted, and the offset in it."""
GONE: Final = 0
"""The place of an entry that has been removed: frames are numbered from 1."""

KEPT_GAPS: Final = 64
"""Entries at the head that have been removed and still take memory."""


class Entry(NamedTuple):
    """One delivery: its number, its message's frame and offset in it, payload bytes, QoS, when it was received.

    `address` counts its `cost`, if it has one (FC-24a).
    """

    delivery: int
    frame: int
    offset: int
    size: int
    qos: int
    received_at: int
    address: Address | None = None
    cost: int = 0


@final
class Index:
    """Deliveries in the order of their numbers. There may be a million of them: each takes 28 bytes.

    From the first one that has an address, each takes 44.
    """

    def __init__(self) -> None:
        self.length = 0
        self._deliveries = array("q")
        self._places = array("Q")
        self._sizes = array("I")  # payload bytes * 2, + 1 at QoS 2
        self._received = array("Q")
        self._first = 0  # before this position all are gone
        self._addresses: list[Address | None] = []  # empty: none of them has one
        self._costs = array("Q")  # as many as addresses
        self._counts: dict[Address, int] = {}  # how many deliveries of each address there are
        # FC-37: of a delivery in the place of another one the number that it is found by, which was the other's.
        self._keys: dict[int, int] = {}
        self._replaced: dict[int, int] = {}  # the same the other way round

    @staticmethod
    def of(deliveries: "array[int]", places: "array[int]", sizes: "array[int]", received_at: int) -> "Index":
        """An index of deliveries without addresses, by number; it keeps these arrays, which are as its own."""
        index = Index()
        index.length = len(deliveries)
        index._deliveries, index._places, index._sizes = deliveries, places, sizes
        index._received = array("Q", [received_at]) * len(deliveries)
        return index

    def add(self, entry: Entry) -> None:
        """Add a delivery, whose number is higher than all others."""
        self._deliveries.append(entry.delivery)
        self._places.append(entry.frame << SHIFT | entry.offset)
        self._sizes.append(entry.size << 1 | (entry.qos - 1))
        self._received.append(entry.received_at)
        self.length += 1
        if self._addresses:
            self._addresses.append(None)
            self._costs.append(0)
        self._add_address(len(self._deliveries) - 1, entry)

    def replace(self, number: int, entry: Entry) -> Entry:
        """FC-37: put a delivery into the place of the one of this number; returns the entry of that one."""
        position = self._position(number)
        before = self._entry(position)
        key = self._forget_key(position)
        self._keys[entry.delivery] = key
        self._replaced[key] = entry.delivery
        self._places[position] = entry.frame << SHIFT | entry.offset
        self._sizes[position] = entry.size << 1 | (entry.qos - 1)
        self._received[position] = entry.received_at
        self._forget_address(before.address)
        self._add_address(position, entry)
        return before

    def _forget_key(self, position: int) -> int:
        """The delivery at a position is going; returns the number that it was found by."""
        key = self._deliveries[position]
        number = self._replaced.pop(key, None)
        if number is not None:
            del self._keys[number]
        return key

    def _add_address(self, position: int, entry: Entry) -> None:
        address = entry.address
        if address is not None:
            self._counts[address] = self._counts.get(address, 0) + 1
            if not self._addresses:
                self._addresses = [None] * len(self._deliveries)
                self._costs = array("Q", [0]) * len(self._deliveries)
        if self._addresses:
            self._addresses[position] = address
            self._costs[position] = entry.cost

    def _forget_address(self, address: Address | None) -> None:
        if address is not None:
            self._counts[address] -= 1
            if self._counts[address] == 0:
                del self._counts[address]

    def is_blocking(self) -> bool:
        """Whether PUBLISHes wait for room in the address of one of them (FC-25)."""
        return any(address.is_blocking() for address in self._counts)

    def holds(self, delivery: int) -> bool:
        """Whether it has this delivery."""
        return self._position(delivery) >= 0

    def find(self, delivery: int) -> Entry | None:
        """The entry of a delivery; None = it has no such delivery."""
        position = self._position(delivery)
        return self._entry(position) if position >= 0 else None

    def remove(self, delivery: int) -> Entry | None:
        """Remove a delivery and return its entry; None = it has no such delivery."""
        position = self._position(delivery)
        if position < 0:
            return None
        entry = self._entry(position)
        self._places[position] = GONE
        self.length -= 1
        self._forget_address(entry.address)
        self._forget_key(position)
        self._trim()
        return entry

    def move(self, delivery: int, frame: int, offset: int) -> Entry | None:
        """The delivery's message is in this frame now. Returns the entry as it was; None = it has no such delivery."""
        position = self._position(delivery)
        if position < 0:
            return None
        entry = self._entry(position)
        self._places[position] = frame << SHIFT | offset
        return entry

    def first(self) -> Entry:
        """The entry with the lowest number. Raises IndexError if there is none."""
        return self._entry(self._first)

    def last(self) -> Entry:
        """The entry with the highest number. Raises IndexError if there is none."""
        return self._entry(len(self._places) - 1)

    def head(self, count: int, size: int) -> list[Entry]:
        """The first entries, at most `count` and, from the second one on, `size` payload bytes."""
        found: list[Entry] = []
        position = self._first
        while position < len(self._deliveries) and len(found) < count:
            if self._places[position] != GONE:
                entry = self._entry(position)
                size -= entry.size
                if found and size < 0:
                    break
                found.append(entry)
            position += 1
        return found

    def totals(self) -> tuple[int, int, int]:
        """How many deliveries of QoS 1 and of QoS 2 there are, and their payload bytes."""
        qos2 = size = 0
        for position in range(self._first, len(self._places)):
            if self._places[position] != GONE:
                own = self._sizes[position]
                qos2 += own & 1
                size += own >> 1
        return self.length - qos2, qos2, size

    def sizes(self) -> list[tuple[int, int]]:
        """The frame and the payload bytes of each."""
        found = zip(self._places, self._sizes, strict=True)
        return [(place >> SHIFT, size >> 1) for place, size in found if place != GONE]

    def entries(self) -> list[Entry]:
        """All of them, in order."""
        positions = range(self._first, len(self._deliveries))
        return [self._entry(position) for position in positions if self._places[position] != GONE]

    def _position(self, delivery: int) -> int:
        key = self._keys.get(delivery, delivery) if self._keys else delivery
        position = bisect_left(self._deliveries, key, self._first)
        if position == len(self._deliveries) or self._deliveries[position] != key:
            return -1
        if self._replaced and self._replaced.get(key, key) != delivery:
            return -1  # another one is in its place
        return -1 if self._places[position] == GONE else position

    def _entry(self, position: int) -> Entry:
        place, size = self._places[position], self._sizes[position]
        number = self._deliveries[position]
        return Entry(
            self._replaced.get(number, number) if self._replaced else number,
            place >> SHIFT,
            place & OFFSET,
            size >> 1,
            (size & 1) + 1,
            self._received[position],
            self._addresses[position] if self._addresses else None,
            self._costs[position] if self._addresses else 0,
        )

    def _trim(self) -> None:
        """Forget what is gone: at the end, and at the head in large steps, so that each entry is moved a few times."""
        places = self._places
        while places and places[-1] == GONE:
            self._pop()
        end = len(places)
        first = min(self._first, end)
        while first < end and places[first] == GONE:
            first += 1
        if first > KEPT_GAPS and first >= end - first:
            del self._deliveries[:first], self._places[:first], self._sizes[:first], self._received[:first]
            del self._addresses[:first], self._costs[:first]
            first = 0
        self._first = first

    def _pop(self) -> None:
        self._deliveries.pop()
        self._places.pop()
        self._sizes.pop()
        self._received.pop()
        if self._addresses:
            self._addresses.pop()
            self._costs.pop()
