"""Makes a new journal of records from elsewhere: a copy, what was salvaged, what another broker has saved."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, final

from broker.runtime.os_errors import text_of
from broker.storage import fsync, sqlite_journal
from broker.storage.commits import MOST_WAITING
from broker.storage.errors import ForeignError, StorageError
from broker.storage.found import find
from broker.storage.records import DamagedError
from broker.storage.segments import Segments

_MANY: Final = 1_000
"""Frames of one commit."""


@final
class NewJournal:
    """A journal in a directory that has none. Frames are numbered from 1."""

    def __init__(self, directory: Path, most: int = MOST_WAITING) -> None:
        """`most`: bytes in memory, about. Raises StorageError."""
        self._segments = Segments(directory)
        self._most = most
        self._frames: list[list[bytes]] = []
        self._size = 0
        self.count = 0
        """Frames that have been added."""

    def add(self, records: Sequence[bytes]) -> None:
        """Add a frame. Raises StorageError."""
        self._frames.append(list(records))
        self._size += sum(map(len, records))
        self.count += 1
        if self._size > self._most or len(self._frames) == _MANY:
            self._commit()

    def _commit(self) -> None:
        frames, self._frames, self._size = self._frames, [], 0
        try:
            if frames and not self._segments.append(frames):
                raise StorageError(f"{self._segments.directory}: there is no room")
        except StorageError:
            raise
        except OSError as error:
            raise StorageError(text_of(error)) from error

    def close(self) -> None:
        """Put on disk what has been added. Raises StorageError."""
        try:
            self._commit()
        finally:
            try:
                self._segments.close()
            except OSError as error:
                raise StorageError(text_of(error)) from error


@final
class NewFrames:
    """Puts records into the frames of a new journal, one after the other."""

    def __init__(self, new: NewJournal, most: int = MOST_WAITING) -> None:
        """`most`: bytes of a frame, but for one record; as of a broker that writes."""
        self._new = new
        self._most = most
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, record: bytes) -> None:
        """Add a record. Raises StorageError."""
        self._pieces.append(record)
        self._size += len(record)
        if self._size > self._most:
            self.end()

    def end(self) -> None:
        """End the frame that is being filled. Raises StorageError."""
        if self._pieces:
            self._new.add(self._pieces)
            self._pieces, self._size = [], 0


def move(folder: Path, directory: Path) -> int:
    """Move the segments of a whole journal to the directory that it is made for. Returns their bytes. Raises OSError.

    The first one comes last: without it no broker takes the others for a journal.
    """
    size = 0
    for segment in reversed(find(folder).segments):
        size += segment.length
        segment.path.replace(directory / segment.path.name)
    fsync.sync_names(directory)
    return size


def convert(directory: Path) -> None:
    """Convert an SQLite journal to segments, if there is one. Raises StorageError."""
    if not sqlite_journal.is_there(directory):
        return
    try:
        if (directory / sqlite_journal.NAME).exists():
            new = NewJournal(sqlite_journal.begin(directory))
            try:
                for content in sqlite_journal.frames(directory / sqlite_journal.NAME):
                    new.add([content])
            finally:
                new.close()
            import structlog  # slow to import, and rarely needed

            structlog.get_logger("sluice").info("journal_converted", frames=new.count)
        sqlite_journal.end(directory)
    except ForeignError as foreign:
        raise StorageError(f"{directory}: {foreign}") from foreign
    except DamagedError as damage:
        remedy = "restore a backup, or `sluice store salvage` of the version that has written it"
        raise StorageError(f"{directory}: {damage}: the journal is damaged; {remedy}") from damage
