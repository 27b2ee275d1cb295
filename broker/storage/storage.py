"""The journal of one broker with its file: opening, reading, the thread for the disk, errors."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar, final

from broker.storage.commits import COMMITTED, LOCKED, STUCK, TIGHT, Commits
from broker.storage.database import REMEDY, Database, FailedError, LockedError, StorageError, log_length
from broker.storage.disk_thread import DiskThread
from broker.storage.frame import encode
from broker.storage.journal import Journal
from broker.storage.reader import Reader
from broker.storage.records import DamagedError
from broker.storage.reserve import Reserve
from broker.storage.saved import Saved

T = TypeVar("T")


@final
class Storage:
    """The journal of one broker, and its file. One broker at a time may use a directory."""

    def __init__(self, directory: Path, sync: float, memory: int = 0, max_bytes: int = 0) -> None:
        """Open it. Raises StorageError.

        `sync`: seconds between commits; 0 = each is waited for. `memory`: bytes of waiting deliveries, `max_bytes`: of
        the journal; 0 = any number.
        """
        self._database = Database(directory)
        self._reserve = Reserve(self._database.path.parent, log_length())
        self._disk = DiskThread("journal")
        self._reader = Reader(self._database.path)
        self.journal = Journal(Commits(self._append, self._disk, sync, max_bytes), memory)
        self.journal.reader = self._reader
        self.journal.commits.begin_room(self._has_room)
        self.journal.commits.spare = self._reserve.size // 2

    def read(self, topics: bool = False) -> Saved:
        """What the journal holds; `topics`: with the topics of deliveries. Raises StorageError if it is damaged."""
        saved = Saved(topics)
        try:
            self._database.check()
            for number, content in self._database.frames():
                saved.read(number, content)
        except (sqlite3.Error, DamagedError, UnicodeError) as error:
            raise self.damaged(error) from error
        saved.finish()
        return saved

    def damaged(self, error: Exception) -> StorageError:
        """The error for a journal that cannot be read."""
        return StorageError(f"{self._database.path}: {error}: the journal is damaged; {REMEDY}")

    def failed(self, error: Exception) -> FailedError:
        """The error of a broker whose disk has failed."""
        if isinstance(error, DamagedError):
            return FailedError(str(self.damaged(error)))
        return FailedError(f"{self._database.path}: {error}: what is on disk is not known; start the broker again")

    def lost(self, what: str) -> FailedError:
        """The error of a broker that has ended without its last records; `what` says so."""
        return FailedError(f"{self._database.path}: {what}")

    # These are called in the disk's thread. They raise StorageError.

    def _prepare(self) -> None:
        if self._reserve.hold():
            self._database.grow_log()

    def _append(self, first: int, frames: list[list[bytes]]) -> int:
        try:
            if len(frames) == 1:
                content = encode(first, frames[0])
                added = self._write(lambda: self._database.append(first, content))
            else:
                added = self._write(lambda: self._database.append_all(_encoded(first, frames)))
        except LockedError:
            return LOCKED
        if not added:
            return STUCK
        return COMMITTED if self._has_room() else TIGHT

    def _remove(self, number: int) -> bool:
        return self._write(lambda: self._database.remove(number))

    def _write(self, job: Callable[[], None]) -> bool:
        """Do it, if need be in the reserve; returns whether there was room."""
        return self._fits(job) or self._fits_copied(job) or (_checked(self._reserve.give) and self._fits_copied(job))

    def _fits_copied(self, job: Callable[[], None]) -> bool:
        """Do it when the write-ahead log is copied: SQLite begins it anew then, and it need not grow."""
        self._copy_log()
        return self._fits(job)

    def _copy_log(self) -> None:
        try:
            self._database.checkpoint()
        except sqlite3.Error as error:
            raise StorageError(str(error)) from error

    def _fits(self, job: Callable[[], None]) -> bool:
        try:
            job()
        except sqlite3.Error as error:
            if self._database.is_full(error):
                return False
            raise StorageError(str(error)) from error
        return True

    def _has_room(self) -> bool:
        """Whether there is room for messages: the reserve is whole, or as much is free in the file."""
        return _checked(self._reserve.hold) or self._free_bytes() >= self._reserve.size

    def _free_bytes(self) -> int:
        self._copy_log()  # so that it need not grow
        try:
            return self._database.free_bytes()
        except sqlite3.Error as error:
            raise StorageError(str(error)) from error

    # These are called in the event loop.

    def begin(self) -> None:
        """Prepare the files for commits, while the broker starts."""
        self._disk.do(lambda: _checked(self._prepare), self._have_prepared)

    def _have_prepared(self, result: Exception | None) -> None:
        if isinstance(result, Exception):
            self.journal.commits.fail(result)
        else:
            self.journal.commits.check_room()

    async def content(self, number: int) -> bytes:
        """The content of a frame. Raises StorageError if the disk fails; then the journal has failed (FC-29)."""
        try:
            return await self._disk.ask(_guarded(lambda: self._database.content(number)))
        except StorageError as error:
            self.journal.commits.fail(error)
            raise

    async def remove(self, number: int) -> None:
        """Remove this frame and all before it.

        Raises StorageError: the disk is full, another program has locked the file, or the disk fails, and then the
        journal has failed (FC-29).
        """
        try:
            removed = await self._disk.ask(lambda: self._remove(number))
        except LockedError:
            raise
        except StorageError as error:
            self.journal.commits.fail(error)
            raise
        if not removed:
            raise StorageError("the disk is full")

    async def close(self) -> None:
        """Close the file, when what has been asked of it is done. Raises StorageError if that has failed."""
        try:
            await self._reader.close()
            await self._disk.ask(_guarded(self._database.close))
        except StorageError as error:
            raise self.failed(error) from error
        finally:
            self._disk.end()


def _encoded(first: int, frames: list[list[bytes]]) -> Iterator[tuple[int, bytes]]:
    """Long frames with their numbers, one after the other: so only one of them is in memory twice."""
    for number, pieces in enumerate(frames, first):
        yield number, encode(number, pieces)


def _checked(job: Callable[[], T]) -> T:
    """What the job returns. Raises StorageError for OSError."""
    try:
        return job()
    except OSError as error:
        what = error.strerror or str(error)
        raise StorageError(f"{error.filename}: {what}" if error.filename else what) from error


def _guarded(job: Callable[[], T]) -> Callable[[], T]:
    """The same job, which raises StorageError for SQLite's errors."""

    def guarded() -> T:
        try:
            return job()
        except sqlite3.Error as error:
            raise StorageError(str(error)) from error

    return guarded
