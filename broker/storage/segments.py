"""The journal's files: a directory of segments, to which commits are appended (FC-27)."""

import fcntl
import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import final

from broker.storage import fsync
from broker.storage.directory import READERS, occupy
from broker.storage.errors import REMEDY, ForeignError, StorageError, unusable
from broker.storage.found import find, read
from broker.storage.frame import HEAD_SIZE, SECTOR, encode, mark, padded
from broker.storage.place import Place
from broker.storage.records import DamagedError
from broker.storage.segment import Segment
from broker.storage.spares import NEW, Spares


@final
class Segments:
    """An open journal. One thread at a time may use it; `read` may be called in any other."""

    def __init__(self, directory: Path, prepare: Callable[[Path], None] | None = None) -> None:
        """Open it, or make a new one. Raises StorageError.

        `prepare` is called when no other broker can use the directory any more. It raises StorageError.
        """
        self.directory = directory
        self._segments: list[Segment] = []
        self._held: list[Path] = []
        """Free, but somebody may read them."""
        self._reading = threading.Lock()
        """While a frame is looked up and read, no segment becomes free."""
        self._place: Place | None = None
        """That of the last segment."""
        self._locks = occupy(directory)
        self._readers = -1
        try:
            self._open(prepare)
        except BaseException:
            self._release()
            raise

    def _open(self, prepare: Callable[[Path], None] | None) -> None:
        directory = self.directory
        try:
            self._readers = os.open(directory / READERS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._flag = fsync.flag_of(directory)
            (directory / NEW).unlink(missing_ok=True)
            if prepare is not None:
                prepare(directory)
            found = find(directory)
            if not found.damage:
                self._use_again(found.segments, found.torn)
                fsync.sync_names(directory)
                self._spares = Spares(directory, found.free, found.highest)
                if not found.segments:
                    self._spares.make_first()
        except ForeignError as foreign:
            raise StorageError(f"{directory}: {foreign}") from foreign
        except DamagedError as damage:
            raise self.damaged(damage) from damage
        except StorageError:
            raise
        except OSError as failure:
            raise StorageError(f"{failure.filename or directory}: {unusable(failure)}") from failure
        if found.damage:
            first = found.damage[0]
            if isinstance(first.error, PermissionError):
                raise StorageError(f"{first.path}: {unusable(first.error)}")
            raise StorageError(f"{first}: the journal is damaged; {REMEDY}")
        self._segments = found.segments
        if found.segments:
            self._place = Place(found.segments[-1])
        self.oldest = found.oldest
        """The first frame that is needed."""
        self.next = found.next
        """The number of the frame that comes next."""

    def _use_again(self, segments: list[Segment], torn: list[int]) -> None:
        """Sync what a broker that was killed has not synced, and erase what a power cut has torn."""
        for segment in segments:
            file = segment.open(os.O_RDWR)
            for position in torn if segment is segments[-1] else []:
                fsync.write(file, bytes(SECTOR), position, 0)
            fsync.sync(file)

    def damaged(self, error: Exception) -> StorageError:
        """The error for a journal that cannot be read."""
        return StorageError(f"{self.directory}: {error}: the journal is damaged; {REMEDY}")

    # -- in the journal's thread. They raise OSError.

    def append(self, frames: list[list[bytes]]) -> bool:
        """Put frames on disk, all of them or none; returns whether there was room."""
        sizes = [padded(HEAD_SIZE + sum(map(len, pieces))) for pieces in frames]
        if not self._write(sum(sizes), lambda use: self._commit(use, frames)):
            return False
        self._segments[-1].add(sizes)
        self.next += len(frames)
        return True

    def _commit(self, use: int, frames: list[list[bytes]]) -> bytes:
        last = len(frames) - 1
        return b"".join(
            [
                encode(use, self.oldest, self.next + index, index, last - index, pieces)
                for index, pieces in enumerate(frames)
            ]
        )

    def _mark(self) -> bool:
        """Put on disk which frames there are; returns whether there was room."""
        if not self._write(SECTOR, lambda use: mark(use, self.oldest, self.next)):
            return False
        self._segments[-1].add_mark()
        return True

    def _write(self, size: int, content: Callable[[int], bytes]) -> bool:
        """Write at the end what is the content with the `use` of its segment; returns whether there was room."""
        if self._segments:
            segment = self._segments[-1]
            if segment.end + size <= segment.length:
                return self._fits(segment, content(segment.use), segment.end)
        path = self._spares.take(SECTOR + size)
        if path is None:
            return False
        new = Segment.begin(path, self.next)
        written = False
        try:
            written = self._fits(new, new.head() + content(new.use), 0)
        finally:
            if not written:
                new.close()
                self._spares.put_back(path)
        if written:
            self._go_on_in(new)
        return written

    def _go_on_in(self, new: Segment) -> None:
        self._place = Place(new)  # before the file of the last one is closed: `check_place` may look at it meanwhile
        with self._reading:
            if self._segments:
                last = self._segments[-1]
                if last.next == new.first == last.first:  # it has marks only
                    last.close()
                    self._held.append(self._segments.pop().path)
            self._segments.append(new)

    def _fits(self, segment: Segment, content: bytes, position: int) -> bool:
        try:
            fsync.write(segment.open(os.O_RDWR), content, position, self._flag)
        except OSError as error:
            if error.errno not in fsync.NO_ROOM:
                raise
            return False
        return True

    def has_room(self) -> bool:
        """Whether there is room for messages: what frees space has enough of its own (FC-29)."""
        self._give_back()
        return self._spares.has_room()

    def room_until(self) -> str:
        """What has to be before there is room again, if there is none. May be called in any thread."""
        return self._spares.room_until()

    def left(self) -> int:
        """Bytes that can be written if the disk gives no more. May be called in any thread."""
        rest = sum(last.length - last.end for last in self._segments[-1:])
        return rest + self._spares.left()

    def first_of_second(self) -> int:
        """The first frame of the second segment, 0 if there is none. May be called in any thread."""
        return sum(second.first for second in self._segments[1:2])

    def remove(self, number: int) -> bool:
        """Remove this frame and all before it; returns whether there was room to say so on disk."""
        self.oldest = max(self.oldest, number + 1)
        if len(self._segments) > 1 and self._segments[1].first <= self.oldest:
            if not self._mark():
                return False
            while len(self._segments) > 1 and self._segments[1].first <= self.oldest:
                with self._reading:
                    gone = self._segments.pop(0)
                    gone.close()
                self._held.append(gone.path)
            self._give_back()
        return True

    def _give_back(self) -> None:
        """Use free files again, unless a tool reads the journal."""
        if not self._held:
            return
        try:
            fcntl.flock(self._readers, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        fcntl.flock(self._readers, fcntl.LOCK_UN)
        held, self._held = self._held, []
        for path in held:
            self._spares.give(path)

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """The frames that are needed, in their order, with their heads. Raises DamagedError, too."""
        for segment in list(self._segments):
            yield from read(segment, self.oldest)

    def content(self, number: int) -> bytes:
        """A frame that is needed, with its head. Raises DamagedError, too."""
        segment = self._of(number)
        assert segment is not None
        return segment.content(number)

    def close(self) -> None:
        """Say which frames there are, and let another broker use the journal."""
        try:
            self._spares.wait()
            if self._segments:
                self._mark()  # without room it is missing: then damage to the last commit looks like a power cut
        finally:
            self._release()

    def _release(self) -> None:
        for segment in self._segments:
            segment.close()
        for file in (self._readers, *self._locks):
            if file >= 0:
                os.close(file)

    # -- in any thread

    def read(self, number: int, offset: int, size: int) -> bytes:
        """Bytes of a frame, from `offset` on; empty if it is not on disk, or removed.

        Raises OSError and DamagedError.
        """
        with self._reading:
            segment = self._of(number)
            return b"" if segment is None or number < self.oldest else segment.read(number, offset, size)

    def _of(self, number: int) -> Segment | None:
        """The segment that has this frame."""
        index = bisect_right(self._segments, number, key=_first_of) - 1
        if index < 0 or not self._segments[index].has(number):
            return None
        return self._segments[index]

    # -- in the event loop

    def check_place(self) -> None:
        """Raise StorageError if the journal is not in its place any more: the next start would not find it."""
        place = self._place
        if place is not None and not place.has_file() and self._place is place:  # else the other thread has gone on
            raise StorageError(f"{place.path}: it has been removed, moved or replaced")


def _first_of(segment: Segment) -> int:
    return segment.first
