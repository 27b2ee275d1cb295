"""The journal of one broker with its files: opening, reading, the thread for the disk, errors."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, final

from broker.runtime.os_errors import text_of
from broker.storage import spares
from broker.storage.commits import COMMITTED, STUCK, TIGHT, Commits
from broker.storage.disk_thread import DiskThread
from broker.storage.errors import FailedError, StorageError
from broker.storage.journal import Journal
from broker.storage.making import convert
from broker.storage.reader import Reader
from broker.storage.records import DamagedError
from broker.storage.reserve import Reserve
from broker.storage.saved import Saved
from broker.storage.segments import Segments
from session.flows import FIFO

T = TypeVar("T")


@final
class Storage:
    """The journal of one broker, and its files. One broker at a time may use a directory."""

    def __init__(self, directory: Path, sync: float, memory: int = 0, max_bytes: int = 0) -> None:
        """Open it. Raises StorageError.

        `sync`: seconds between commits; 0 = each is waited for. `memory`: bytes of waiting deliveries, `max_bytes`: of
        the journal; 0 = any number.
        """
        self._segments = Segments(directory, convert)
        self._disk = DiskThread("journal")
        self._reader = Reader(self._segments)
        self.journal = Journal(Commits(self._append, self._disk, sync, max_bytes), memory)
        self.journal.reader = self._reader
        commits = self.journal.commits
        commits.room = self._has_room
        commits.reserve = Reserve(self._segments.left, spares.SEGMENT, self.live_in_oldest)
        commits.after_commit = self._segments.check_place

    def read(self, topics: bool = False) -> Saved:
        """What the journal holds; `topics`: with the topics of deliveries, as where topics have limits (FC-24).

        Raises StorageError if it is damaged.
        """
        lanes = self.journal.lanes
        topics = topics or lanes.priorities is not None or lanes.conflation is not None
        saved = Saved(topics, lanes.fairness != FIFO)
        try:
            for number, content in self._segments.frames():
                saved.read(number, content)
        except DamagedError as damage:
            raise self.damaged(damage) from damage
        except OSError as error:
            raise StorageError(f"{self._segments.directory}: {text_of(error)}") from error
        saved.finish()
        saved.last_frame = self._segments.next - 1  # also if all have been removed
        return saved

    def damaged(self, error: Exception) -> StorageError:
        """The error for a journal that cannot be read."""
        return self._segments.damaged(error)

    def failed(self, error: Exception) -> FailedError:
        """The error of a broker whose disk has failed."""
        if isinstance(error, DamagedError):
            return FailedError(str(self.damaged(error)))
        return FailedError(f"{self._segments.directory}: {error}: what is on disk is not known; start the broker again")

    def lost(self, what: str) -> FailedError:
        """The error of a broker that has ended without its last records; `what` says so."""
        return FailedError(f"{self._segments.directory}: {what}")

    # These are called in the disk's thread. They raise StorageError.

    def _append(self, first: int, frames: list[list[bytes]]) -> int:
        assert first == self._segments.next
        if not _checked(lambda: self._segments.append(frames)):
            return STUCK
        return COMMITTED if self._has_room() else TIGHT

    def _has_room(self) -> bool:
        return _checked(self._segments.has_room)

    # These are called in the event loop.

    def begin(self) -> None:
        """Prepare the files for commits, while the broker starts."""
        self.journal.commits.reserve.look()
        self.journal.commits.check_room()

    def room_until(self) -> str:
        """What has to be before there is room again, if the disk has none."""
        return self._segments.room_until()

    def live_in_oldest(self) -> int | None:
        """Bytes that have to be copied before the oldest segment is free; None = there is only one."""
        end = self._segments.first_of_second()
        if not end:
            return None
        live = 0
        for number, each in self.journal.frames.items():
            if number >= end:
                break
            live += each.live_bytes()
        return live

    async def content(self, number: int) -> bytes:
        """The content of a frame. Raises StorageError if the disk fails; then the journal has failed (FC-29)."""
        try:
            return await self._disk.ask(lambda: _checked(lambda: self._segments.content(number)))
        except StorageError as error:
            self.journal.commits.fail(error)
            raise

    async def remove(self, number: int) -> None:
        """Remove this frame and all before it.

        Raises StorageError: the disk is full, or it fails, and then the journal has failed (FC-29).
        """
        try:
            removed = await self._disk.ask(lambda: _checked(lambda: self._segments.remove(number)))
        except StorageError as error:
            self.journal.commits.fail(error)
            raise
        if not removed:
            raise StorageError("the disk is full")

    async def close(self) -> None:
        """Close the files, when what has been asked of them is done. Raises StorageError if that has failed."""
        try:
            await self._reader.close()
            await self._disk.ask(lambda: _checked(self._segments.close))
        except StorageError as error:
            raise self.failed(error) from error
        finally:
            self._disk.end()


def _checked(job: Callable[[], T]) -> T:
    """What the job returns. Raises StorageError for OSError."""
    try:
        return job()
    except OSError as error:
        raise StorageError(text_of(error)) from error
