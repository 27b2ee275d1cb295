"""The deliveries of one queue that are on disk only, by weight (FC-12, FC-30)."""

from typing import final

from broker.storage.index import Entry, Index


@final
class Evicted:
    """One index for each weight; a queue without weights has one, for the weight 0."""

    def __init__(self) -> None:
        self._indexes: dict[int, Index] = {}

    @property
    def length(self) -> int:
        """How many there are."""
        return sum([index.length for index in self._indexes.values()])

    def index(self, weight: int) -> Index:
        """Those of one weight."""
        index = self._indexes.get(weight)
        if index is None:
            index = self._indexes[weight] = Index()
        return index

    def restore(self, index: Index) -> None:
        """All that were on disk when the journal was read, none of which has a weight."""
        self._indexes[0] = index

    def weights(self) -> list[int]:
        """The weights of which there are any."""
        return [weight for weight, index in self._indexes.items() if index.length]

    def find(self, delivery: int) -> Entry | None:
        """The entry of a delivery; None = there is no such delivery."""
        for index in self._indexes.values():
            entry = index.find(delivery)
            if entry is not None:
                return entry
        return None

    def remove(self, delivery: int) -> Entry | None:
        """Remove a delivery and return its entry; None = there is no such delivery."""
        for index in self._indexes.values():
            entry = index.remove(delivery)
            if entry is not None:
                return entry
        return None

    def move(self, delivery: int, frame: int, offset: int) -> Entry | None:
        """The delivery's message is in this frame now. Returns the entry as it was; None = there is none."""
        for index in self._indexes.values():
            entry = index.move(delivery, frame, offset)
            if entry is not None:
                return entry
        return None

    def entries(self) -> list[Entry]:
        """All of them, those of one weight in order."""
        return [entry for index in self._indexes.values() for entry in index.entries()]


def hold_address(entry: Entry) -> None:
    """FC-24: a delivery that is on disk only counts for its address like one in memory."""
    if entry.address is not None:
        entry.address.hold(entry.size)


def release_address(entry: Entry) -> None:
    """It is dropped; or in memory again, and its place there counts."""
    if entry.address is not None:
        entry.address.release(entry.size)
