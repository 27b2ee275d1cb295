"""The pages of a full address in the journal (FC-26): PUBLISHes that wait there for room, all of them on disk only."""

from typing import Final, NamedTuple, final

from broker.storage import message_record, records
from broker.storage.index import Entry
from broker.storage.journal import Journal
from broker.storage.kept_queue import KeptQueue
from broker.storage.saved import to_publish
from protocol.publish import Publish

READ_PAGES: Final = 1_000
"""How many are read at once, at most."""

UNBOUNDED: Final = 2**62
"""More bytes than there are."""


class Page(NamedTuple):
    """A PUBLISH as it was received, and its publisher's client id: needed for No Local and retained messages."""

    publish: Publish
    client_id: str


@final
class KeptAddress(KeptQueue):
    """The pages of the address with this topic."""

    def __init__(self, journal: Journal, number: int, topic: bytes) -> None:
        super().__init__(journal, number)
        self.topic = topic
        self.pages = self.evicted.index(0)
        self.bytes = 0
        """Of the pages' records."""

    def write_state(self) -> int:
        """Write all state except the pages. Returns the commit."""
        return self.write_all([records.address(self.number, self.topic, self.deliveries.next_delivery)])

    def add_evicted(self, entry: Entry, lane: int = 0) -> None:
        """A page has been written, or is there already."""
        super().add_evicted(entry, lane)
        self.bytes += entry.size

    def lane(self, topic: bytes, flow: int) -> int:
        """Pages wait in the order in which they came."""
        return 0

    def page(self, publish: Publish, client_id: str, limit: int) -> int | None:
        """Write a PUBLISH. Returns the commit that has to precede its acknowledgement.

        None: the journal is full, or all pages together would take more than `limit` bytes; -1 = no limit.
        """
        journal = self.journal
        if not journal.commits.has_room():
            return None
        room = limit - self.bytes if limit >= 0 else UNBOUNDED
        entry = journal.page(publish, client_id, self.number, self.deliveries.next_delivery, room)
        if entry is None:
            return None
        self.deliveries.next_delivery += 1
        self.add_evicted(entry)
        return journal.commits.soon()

    async def read(self, size: int) -> list[Page]:
        """The first pages, up to `size` bytes, but at least one. Raises StorageError, DamagedError."""
        return [self._read(entry, body) for entry, body in await self.read_first(self.pages, READ_PAGES, size)]

    def _read(self, entry: Entry, body: bytes) -> Page:
        saved = message_record.read(body)
        publish = to_publish(saved)
        publish.flow = saved.targets[0].flow
        self.journal.restore_expiry(publish, saved.expires_at, entry.frame, entry.offset, entry.received_at)
        return Page(publish, saved.publisher)

    def pop(self) -> None:
        """The first page is routed, or about to be in the same turn of the loop."""
        self.bytes -= self.drop_evicted(self.pages.first(), self.pages).size
