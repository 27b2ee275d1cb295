"""The journal of one broker with its file: opening, reading, the thread for the disk, errors."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar, final

from broker.storage.commits import Commits
from broker.storage.database import Database, StorageError
from broker.storage.disk_thread import DiskThread
from broker.storage.frame import encode
from broker.storage.journal import Journal
from broker.storage.records import DamagedError
from broker.storage.saved import Saved

T = TypeVar("T")

REMEDY: Final = "`sluice store check` lists all damage; restore a backup, or `sluice store salvage`"


@final
class Storage:
    """The journal of one broker, and its file. One broker at a time may use a directory."""

    def __init__(self, directory: Path, sync: float) -> None:
        """Open it. `sync`: seconds between commits; 0 = packets wait for their commit. Raises StorageError."""
        self._database = Database(directory)
        self._disk = DiskThread("journal")
        self.journal = Journal(Commits(self._append, self._disk, sync))

    def read(self) -> Saved:
        """What the journal holds. Raises StorageError if it is damaged."""
        saved = Saved()
        try:
            for number, content in self._database.frames():
                saved.read(number, content)
        except (sqlite3.Error, DamagedError) as error:
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
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
                return False
            raise StorageError(str(error)) from error
        return True

    async def content(self, number: int) -> bytes:
        """The content of a frame. Raises StorageError."""
        return await self._ask(lambda: self._database.content(number))

    async def remove(self, number: int) -> None:
        """Remove this frame and all before it. Raises StorageError."""
        await self._ask(lambda: self._database.remove(number))

    async def _ask(self, job: Callable[[], T]) -> T:
        """Run a job in the disk's thread, and return its result."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(result: T | Exception) -> None:
            if future.done():
                return
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

        def guarded() -> T:
            try:
                return job()
            except sqlite3.Error as error:
                raise StorageError(str(error)) from error

        self._disk.do(guarded, done)
        return await future

    async def close(self) -> None:
        """Close the file when all jobs are done."""
        await self._ask(self._database.close)
