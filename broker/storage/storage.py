"""The journal of one broker with its file: opening, reading, the thread for the disk, errors."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, final

from broker.storage.commits import Commits
from broker.storage.database import REMEDY, Database, StorageError, is_full
from broker.storage.disk_thread import DiskThread
from broker.storage.frame import encode
from broker.storage.journal import Journal
from broker.storage.reader import Reader
from broker.storage.records import DamagedError
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
        self._disk = DiskThread("journal")
        self._reader = Reader(self._database.path)
        self.journal = Journal(Commits(self._append, self._disk, sync, max_bytes), memory)
        self.journal.reader = self._reader

    def read(self) -> Saved:
        """What the journal holds. Raises StorageError if it is damaged."""
        saved = Saved()
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

    def failed(self, error: Exception) -> StorageError:
        """The error for a commit that has failed."""
        return StorageError(f"{self._database.path}: {error}: what is on disk is not known; start the broker again")

    def _append(self, number: int, pieces: list[bytes]) -> bool:
        """Called in the disk's thread. Raises StorageError."""
        try:
            self._database.append(number, encode(number, pieces))
        except sqlite3.Error as error:
            if is_full(error):
                return False
            raise StorageError(str(error)) from error
        return True

    def _remove(self, number: int) -> bool:
        """Called in the disk's thread. Raises StorageError."""
        try:
            self._database.remove(number)
        except sqlite3.Error as error:
            if is_full(error):
                return False
            raise StorageError(str(error)) from error
        return True

    async def content(self, number: int) -> bytes:
        """The content of a frame. Raises StorageError."""
        return await self._disk.ask(_guarded(lambda: self._database.content(number)))

    async def remove(self, number: int) -> None:
        """Remove this frame and all before it.

        Raises StorageError: the disk is full, or it fails, and then the journal has failed (FC-29).
        """
        try:
            removed = await self._disk.ask(_guarded(lambda: self._remove(number)))
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


def _guarded(job: Callable[[], T]) -> Callable[[], T]:
    """The same job, which raises StorageError for SQLite's errors."""

    def guarded() -> T:
        try:
            return job()
        except sqlite3.Error as error:
            raise StorageError(str(error)) from error

    return guarded
