"""A journal whose sessions move to other ones: it is locked, read, and stays as it is (FC-27)."""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, final

from broker.cluster.cell import number_of
from broker.runtime.os_errors import text_of
from broker.storage import message_record, sqlite_journal
from broker.storage.directory import occupy
from broker.storage.errors import REMEDY, ForeignError, StorageError
from broker.storage.found import Found, find, frames
from broker.storage.frame import SECTOR
from broker.storage.index import OFFSET, SHIFT
from broker.storage.making import convert
from broker.storage.records import HEAD_SIZE, DamagedError
from broker.storage.saved import Saved, SavedSession
from broker.storage.saved_message import SavedMessage
from broker.storage.segments import Segments
from broker.storage.times import Times


class RetainedPlace(NamedTuple):
    """Where a retained message is, and what it is."""

    place: int
    """Frame and offset, as in an index."""
    length: int
    digest: bytes


@final
class OldJournal:
    """One of the journals that there are. Methods raise StorageError."""

    def __init__(self, number: int, directory: Path) -> None:
        """Lock it. `number`: of its cell; 0 = it is that of one worker."""
        self.number = number
        self.directory = directory
        if not number and sqlite_journal.is_there(directory):
            Segments(directory, convert).close()
        self._locks = occupy(directory)
        self._found = Found()
        self._cached: tuple[int, bytes] = (0, b"")
        self.saved = Saved()
        self.retained: dict[bytes, RetainedPlace] = {}
        self.links: dict[int, SavedSession] = {}
        """The sessions with what waits for other cells, by their numbers."""
        try:
            self._found = self._find()
        except BaseException:
            self.close()
            raise

    def _find(self) -> Found:
        try:
            found = find(self.directory)
        except (ForeignError, OSError) as error:
            raise self._unreadable(error) from error
        if found.damage:
            raise StorageError(f"{found.damage[0]}: the journal is damaged; {REMEDY}")
        return found

    def close(self) -> None:
        """Unlock it."""
        locks, self._locks = self._locks, []
        for file in locks:
            os.close(file)

    def _unreadable(self, error: Exception) -> StorageError:
        why = text_of(error) if isinstance(error, OSError) else str(error)
        if isinstance(error, DamagedError) and not isinstance(error, ForeignError):
            why = f"{why}: the journal is damaged; {REMEDY}"
        return StorageError(f"{self.directory}: {why}")

    @property
    def size(self) -> int:
        """Bytes of its frames, about."""
        return sum(segment.end - SECTOR for segment in self._found.segments)

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Its frames in their order, with their heads."""
        try:
            yield from frames(self._found)
        except (DamagedError, OSError) as error:
            raise self._unreadable(error) from error

    def read(self, tell: Callable[[int], None]) -> None:
        """Read what is in it; `tell` is called with the bytes of each frame."""
        saved = self.saved
        try:
            for number, content in self.frames():
                saved.read(number, content)
                tell(len(content))
        except DamagedError as damage:
            raise self._unreadable(damage) from damage
        saved.finish()
        self.times = Times()
        self.times.begin_after(saved.steps)
        for topic, each in saved.retained.items():
            where = each.place
            self.retained[topic] = RetainedPlace(where.frame << SHIFT | where.offset, where.length, digest(each.saved))
        saved.retained.clear()  # their payloads need memory
        for session in saved.sessions.values():
            number = number_of(session.client_id)
            if number and not session.is_former():
                self.links[number] = session

    def retained_bytes(self) -> int:
        """Bytes of the records of its retained messages."""
        return sum(each.length for each in self.retained.values())

    def has(self, queue: int, delivery: int, place: int) -> bool:
        """Whether a delivery is not done, and its message is there: compaction may have written it once more."""
        saved = self.saved.sessions.get(queue)
        return saved is not None and saved.deliveries.place_of(delivery) == place

    def message_at(self, place: int) -> SavedMessage:
        """The message whose record is there, with its times by the clock as it is set now."""
        number, offset = place >> SHIFT, place & OFFSET
        content = self._content(number)
        start = offset + HEAD_SIZE
        try:
            end = start + message_record.length_of(content[offset:start])
            return self.by_the_clock_now(message_record.read(content[start:end]), number, offset)
        except DamagedError as damage:
            raise self._unreadable(damage) from damage

    def by_the_clock_now(self, saved: SavedMessage, frame: int, offset: int) -> SavedMessage:
        """A message that was read there: CLOCK is not copied."""
        if not saved.expires_at:
            return saved
        return saved._replace(expires_at=max(self.times.by_the_clock_now(saved.expires_at, frame, offset), 1))

    def _content(self, number: int) -> bytes:
        """A frame; what is asked for is mostly in the same one as before."""
        if self._cached[0] != number:
            segments = self._found.segments
            segment = segments[bisect_right(segments, number, key=lambda each: each.first) - 1]
            try:
                with segment.kept_open():
                    self._cached = number, segment.content(number)
            except (DamagedError, OSError) as error:
                raise self._unreadable(error) from error
        return self._cached[1]

    def waiting(self, queue: SavedSession) -> Iterator[tuple[int, SavedMessage]]:
        """The deliveries of a queue in their order: number and message."""
        for entry in queue.deliveries.entries(0):
            yield entry.delivery, self.message_at(entry.frame << SHIFT | entry.offset)


def digest(saved: SavedMessage) -> bytes:
    """What a retained message is, so that those of several journals can be compared; empty = it clears its topic."""
    if not saved.payload:
        return b""
    content = blake2b(digest_size=16)
    for part in (bytes([saved.qos]), len(saved.properties).to_bytes(4, "big"), saved.properties, saved.payload):
        content.update(part)
    return content.digest()
