"""The deliveries of one queue that are on disk only, by lane (FC-12, FC-30, FC-33)."""

from typing import final

from broker.storage.index import Entry, Index


@final
class Evicted:
    """One index for each lane, by its number; a queue without lanes has one, of the number 0."""

    def __init__(self) -> None:
        self._indexes: dict[int, Index] = {}

    @property
    def length(self) -> int:
        """How many there are."""
        return sum([index.length for index in self._indexes.values()])

    def index(self, lane: int) -> Index:
        """Those of one lane."""
        index = self._indexes.get(lane)
        if index is None:
            index = self._indexes[lane] = Index()
        return index

    def index_with(self, delivery: int, lane: int) -> Index:
        """Those of the lane that has a delivery: it may have the place of one of another flow (FC-37)."""
        own = self.index(lane)
        if not own.holds(delivery):
            for index in self._indexes.values():
                if index.holds(delivery):
                    return index
        return own

    def restore(self, index: Index) -> None:
        """All that were on disk when the journal was read, of a queue without lanes."""
        self._indexes[0] = index

    def lanes(self) -> list[int]:
        """The lanes of which there are any, by the first of each."""
        found = [(index.first().delivery, lane) for lane, index in self._indexes.items() if index.length]
        return [lane for _, lane in sorted(found)]

    def entries(self) -> list[Entry]:
        """All of them, those of one lane in order."""
        return [entry for index in self._indexes.values() for entry in index.entries()]


def hold_address(entry: Entry) -> None:
    """FC-24: a delivery that is on disk only counts for its address what it does in memory."""
    if entry.address is not None:
        entry.address.count(entry.cost)


def release_address(entry: Entry) -> None:
    """It is dropped; or in memory again, and its place there counts."""
    if entry.address is not None:
        entry.address.count(-entry.cost)
