"""The journal's file: an SQLite database with one row for each frame."""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final, final

from mypy_extensions import mypyc_attr

NAME: Final = "journal.sqlite"
LOCK: Final = "journal.lock"

APPLICATION: Final = 0x536C7563
"""SQLite's application id, which tells the file apart from other databases: `Sluc`."""

VERSION: Final = 1
"""The version of the tables and records, as SQLite's user version."""

BUSY_TIMEOUT: Final = 5.0
"""Seconds to wait for another program that reads the file, such as a backup."""


@mypyc_attr(native_class=False)  # mypyc cannot compile a subclass of OSError
class StorageError(OSError):
    """The directory cannot be used; the text says why, and what was expected."""


@final
class Database:
    """An open journal. One thread at a time may use it."""

    def __init__(self, directory: Path) -> None:
        """Open it, or make a new one. Raises StorageError."""
        self.path = directory / NAME
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(f"persistence.directory {directory}: {error.strerror}") from error
        try:
            self._lock_directory(directory)
            self._connection = self._open()
        except BaseException:
            os.close(self._lock)
            raise

    def _lock_directory(self, directory: Path) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StorageError(f"persistence.directory {directory}: another broker uses it") from error

    def _open(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise StorageError(f"{self.path}: {error}") from error
        try:
            self._prepare(connection)
        except sqlite3.Error as error:
            connection.close()
            raise StorageError(f"{self.path}: {error}: this is not a journal, or it is damaged") from error
        except StorageError:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        application, version = _pragma(connection, "application_id"), _pragma(connection, "user_version")
        tables = connection.execute("select count(*) from sqlite_master").fetchone()[0]
        if tables and application != APPLICATION:
            raise StorageError(f"{self.path}: a database of another program")
        if tables and version != VERSION:
            raise StorageError(f"{self.path}: version {version}; this broker reads version {VERSION}")
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        if not tables:
            connection.execute("begin immediate")
            connection.execute("create table frame (number integer primary key, content blob not null)")
            connection.execute(f"pragma application_id = {APPLICATION}")
            connection.execute(f"pragma user_version = {VERSION}")
            connection.execute("commit")

    def append(self, number: int, content: bytes) -> None:
        """Add a frame; it is on disk when this returns. Raises sqlite3.Error."""
        self._connection.execute("insert into frame values (?, ?)", (number, content))

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """All frames, in the order of their numbers. Raises sqlite3.Error."""
        yield from self._connection.execute("select number, content from frame order by number")

    def content(self, number: int) -> bytes:
        """The content of a frame, which has to exist. Raises sqlite3.Error."""
        (content,) = self._connection.execute("select content from frame where number = ?", (number,)).fetchone()
        return bytes(content)

    def remove(self, number: int) -> None:
        """Remove this frame and all before it; the file's free pages are used again. Raises sqlite3.Error."""
        self._connection.execute("delete from frame where number <= ?", (number,))

    def close(self) -> None:
        """Close the file, and let another broker use it."""
        self._connection.close()
        os.close(self._lock)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"pragma {name}").fetchone()[0])
