"""Pages of one address on a journal, without the rest of a broker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from broker.addresses.pages import Pages
from broker.storage.kept_address import KeptAddress
from broker.storage.storage import Storage
from protocol.publish import Publish
from session.address import AddressRule, Watcher
from tests.support.waiting import until


class Reader(Watcher):
    """Counts how often it is told that there is something to hand over."""

    def __init__(self) -> None:
        self.told = 0

    def on_room(self) -> None:
        """There is something."""
        self.told += 1


class PagedAddress:
    """One address with pages, and a reader of them."""

    def __init__(self, storage: Storage, limit: int = -1, max_size_bytes: int = 1_000_000) -> None:
        self._rule = AddressRule(max_size_bytes, "page", page_limit_bytes=limit)
        self._sent = 0
        self.reader = Reader()
        self._begin(KeptAddress(storage.journal, storage.journal.new_queue(), b"t"))
        self.kept.write_state()

    def _begin(self, kept: KeptAddress) -> None:
        self.kept = kept
        self.pages = Pages(kept, self._rule, self.reader)

    def restart(self, storage: Storage) -> None:
        """The same address, with what another journal has of it."""
        saved = storage.read()
        storage.journal.begin_after(saved)
        (own,) = saved.sessions.values()
        kept = KeptAddress(storage.journal, own.number, own.topic)
        assert own.begins_in is not None
        kept.begin_in(own.begins_in)
        kept.deliveries.next_delivery = own.next_delivery
        for entry in own.deliveries.pages():
            kept.add_evicted(entry)
        self._begin(kept)

    def send(self, count: int = 1, size: int = 0) -> list[bool]:
        """Page so many numbered messages; returns which of them have been taken."""
        numbers = range(self._sent, self._sent + count)
        self._sent += count
        messages = [Publish(b"t", b"%d " % number + bytes(size), 1, packet_id=1) for number in numbers]
        return [self.pages.add(message, "sender") is not None for message in messages]

    async def receive(self, count: int) -> list[int]:
        """Hand over the next messages, as soon as they can be read."""
        found: list[int] = []
        while len(found) < count:
            await until(lambda: self.pages.head() is not None)
            head = self.pages.head()
            assert head is not None
            found.append(int(head.publish.payload.split()[0]))
            self.pages.pop()
        return found


@asynccontextmanager
async def storage_in(directory: Path, max_bytes: int = 0) -> AsyncIterator[Storage]:
    """A journal in `directory`, until it is closed at the end."""
    storage = Storage(directory, 0, max_bytes=max_bytes)
    yield storage
    await storage.journal.commits.reach()
    await storage.close()
