"""Pages without the rest of a broker, and publishers that record how they are acknowledged."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, cast
from zlib import crc32

from broker.addresses.paging.paging import Pages, Paging
from broker.addresses.paging.record import HEAD, Draft
from protocol.publish import Publish
from session.address import Address, AddressRule, Watcher

PAUSE: Final = 0.001
"""Seconds between two looks at what the disk's thread may have done."""
LOOKS: Final = 10_000
"""Looks after which a condition that has not come true will not."""


def with_packet(packet: bytes) -> bytes:
    """A record with other bytes where its PUBLISH belongs."""
    empty = Publish(b"t", b"")
    body = Draft(empty, "").record()[HEAD.size : -len(empty.encode(5))] + packet
    length = len(body).to_bytes(4, "big")
    return HEAD.pack(len(body), crc32(body, crc32(length))) + body


class Sender:
    """Publishes numbered messages, and is told what has become of them."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.times: list[int] = []
        """When each of those was written; what was written at once has one time."""
        self.not_written: list[int] = []

    @property
    def answered(self) -> int:
        """How many messages have been answered, either way."""
        return len(self.written) + len(self.not_written)


class Waiting:
    """A message that waits to be acknowledged, as the pages see it."""

    def __init__(self, sender: Sender, number: int, size: int) -> None:
        self.publish = Publish(b"t", b"%d " % number + bytes(size), 1, packet_id=1)
        self.client_id = "sender"
        self._sender = sender
        self._number = number

    def written(self, now: int) -> None:
        """It is on disk."""
        self._sender.written.append(self._number)
        self._sender.times.append(now)

    def not_written(self, _: int) -> None:
        """It is not."""
        self._sender.not_written.append(self._number)


class Reader(Watcher):
    """Counts how often it is told that there is something to hand over."""

    def __init__(self) -> None:
        self.told = 0

    def on_room(self) -> None:
        """There is something, or nothing is left."""
        self.told += 1


class PagedAddress:
    """One address with pages, a sender and a reader."""

    def __init__(self, paging: Paging, limit: int = -1, max_size_bytes: int = 1_000_000) -> None:
        self.sender = Sender()
        self.reader = Reader()
        rule = AddressRule(max_size_bytes, "page", page_limit_bytes=limit)
        self.pages: Pages = paging.open(Address(b"t", rule), self.reader)
        self._sent = 0
        self._taken = 0

    def send(self, count: int = 1, size: int = 0) -> list[bool]:
        """Publish so many messages; returns which of them have been taken."""
        numbers = range(self._sent, self._sent + count)
        self._sent += count
        taken = [self.pages.add(cast("Any", Waiting(self.sender, number, size))) for number in numbers]
        self._taken += sum(taken)
        return taken

    async def until_answered(self) -> None:
        """Wait until all that has been taken is on disk, or is not."""
        await until(lambda: self.sender.answered == self._taken)

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


async def until(condition: Callable[[], Any]) -> None:
    """Let the loop turn until `condition` holds."""
    for _ in range(LOOKS):
        if condition():
            return
        await asyncio.sleep(PAUSE)
    raise TimeoutError("it never came true")


@asynccontextmanager
async def paging_in(directory: Path) -> AsyncIterator[Paging]:
    """Pages in `directory`, until they are closed at the end."""
    paging = Paging(directory, "node")
    paging.start()
    yield paging
    await paging.close()
