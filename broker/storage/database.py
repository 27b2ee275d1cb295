"""The journal's file: an SQLite database with one row for each frame."""

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, final

from mypy_extensions import mypyc_attr

from broker.storage import fsync, torn_writes
from broker.storage.copier import Copier
from broker.storage.records import DamagedError
from broker.storage.reserve import NAME as RESERVE
from broker.storage.reserve import NO_ROOM, PROBE, has_room

NAME: Final = "journal.sqlite"
LOCK: Final = "journal.lock"
_NEW: Final = "journal.new"

APPLICATION: Final = 0x536C7563
"""SQLite's application id, which tells the file apart from other databases: `Sluc`."""

VERSION: Final = 4
"""The version of the tables and records, as SQLite's user version."""

OLDEST: Final = 2
"""The oldest version that is read. What is in a journal of version 2 or 3 means the same in version 4."""

TABLES: Final = "its tables are not those of a journal"

TABLE: Final = "CREATE TABLE frame (number integer primary key, content blob not null)"

BUSY_TIMEOUT: Final = 5.0
"""Seconds to wait for another program that reads the file, such as a backup."""

# Not Final: tests with a small journal set it, in the compiled module too.
CHECKPOINT = 16 * 1024 * 1024
"""Bytes of SQLite's write-ahead log after which they are copied to the database."""

# Not Final, as above.
PAGE = 16 * 1024
"""Bytes of a page of a new database. Each takes two calls to write to the log, and two to copy; one commit writes at
least one or two of them."""

_PROBE: Final = 4096
"""Bytes that have to fit, or the disk is full."""


@mypyc_attr(native_class=False)  # mypyc cannot compile a subclass of OSError
class StorageError(OSError):
    """The directory cannot be used; the text says why, and what was expected."""


@mypyc_attr(native_class=False)
class FailedError(StorageError):
    """The disk has failed while the broker ran."""


@mypyc_attr(native_class=False)
class LockedError(StorageError):
    """Nothing has been written, because another program has locked the file."""


class ForeignError(DamagedError):
    """It is whole, but not a journal that this broker can use."""


@final
class Database:
    """An open journal. One thread at a time may use it, beside that of its copier."""

    def __init__(self, directory: Path) -> None:
        """Open it, or make a new one. Raises StorageError."""
        self._unchecked = 0
        """Bytes of the write-ahead log, about, since it was copied."""
        self._lacked_room = False
        """Whether nothing has been written since there was no room."""
        try:
            self.path = path_in(directory)
            folder = self.path.parent
            _make(folder)
            _check_kinds(self.path)
            self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except StorageError:
            raise
        except OSError as error:
            raise StorageError(f"persistence.directory {directory}: {_unusable(error)}") from error
        try:
            self._lock_directory(directory)
            self._connection = self._open()
            self._file = self.path.stat()
            self._page = _pragma(self._connection, "page_size")
            self._copier = Copier(lambda: connect(self.path), self.is_full)
        except BaseException:
            os.close(self._lock)
            raise

    def _lock_directory(self, directory: Path) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            remedy = "stop that one, or name another directory"
            raise StorageError(f"persistence.directory {directory}: another broker uses it: {remedy}") from error

    def _open(self) -> sqlite3.Connection:
        try:
            check_files(self.path, torn_writes.cut)
            if not self.path.exists():
                _create(self.path)
            connection = connect(self.path)
        except (sqlite3.Error, DamagedError, UnicodeError, OSError) as error:
            raise self._refusal(error) from error
        try:
            self._prepare(connection)
            fsync.sync_names(self.path.parent)  # SQLite has done so too, but does not say whether it has failed
        except (sqlite3.Error, DamagedError, UnicodeError, OSError) as error:
            connection.close()
            raise self._refusal(error) from error
        return connection

    def _refusal(self, error: Exception) -> StorageError:
        """What to say of a file that cannot be opened."""
        if isinstance(error, sqlite3.Error):
            return StorageError(f"{self.path}: {error}: {_REASONS.get(primary_code(error), _NOT_A_JOURNAL)}")
        if isinstance(error, ForeignError):
            return StorageError(f"{self.path}: {error}")
        if isinstance(error, OSError):
            return StorageError(f"{self.path}: {error.strerror}")
        # Where SQLite quotes what is damaged, Python may not be able to read it.
        what = TABLES if isinstance(error, UnicodeError) else str(error)
        return StorageError(f"{self.path}: {what}: the journal is damaged; {REMEDY}")

    def _prepare(self, connection: sqlite3.Connection) -> None:
        check_head(connection)
        (mode,) = connection.execute("pragma journal_mode = wal").fetchone()
        if mode != "wal":
            raise ForeignError("this file system cannot hold a write-ahead log of SQLite")
        fsync.sync_commits(connection)
        connection.execute("pragma secure_delete = off")  # on in Debian: it writes zeros over what is removed
        connection.execute("pragma wal_autocheckpoint = 0")  # SQLite's own does not say when it fails
        connection.execute("select number from frame limit 1").fetchone()  # it makes the log when it first reads
        if _pragma(connection, "user_version") != VERSION:
            connection.execute(f"pragma user_version = {VERSION}")  # an older broker must not read what is written now

    def grow_log(self) -> None:
        """Give the write-ahead log its length at once: to sync a file that grows takes several times as long.

        SQLite takes zeros for the end of the log. Where there is little room it grows when it has to. Raises OSError
        if the disk fails.
        """
        log = self.path.with_name(f"{self.path.name}-wal")
        try:
            missing = log_length() - log.stat().st_size
            if 0 < missing < shutil.disk_usage(self.path.parent).free // 4:
                fsync.extend(log, missing)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise

    def append(self, number: int, content: bytes) -> None:
        """Add a frame; it is on disk when this returns. Raises sqlite3.Error, StorageError."""
        self._insert(number, content)
        self._have_added(len(content) + 2 * self._page)

    def append_all(self, frames: Iterable[tuple[int, bytes]]) -> None:
        """Add frames, all or none; they are on disk when this returns. Raises sqlite3.Error, StorageError."""
        connection = self._connection
        size = 0
        self._change("begin immediate", ())
        try:
            for number, content in frames:
                self._insert(number, content)
                size += len(content) + 2 * self._page
            connection.execute("commit")
        finally:
            if connection.in_transaction:
                connection.execute("rollback")
        self._have_added(size)

    def _insert(self, number: int, content: bytes) -> None:
        self._change("insert into frame values (?, ?)", (number, content))

    def _have_added(self, size: int) -> None:
        """So many bytes are in the write-ahead log, about: copy it in time. Raises sqlite3.Error, StorageError."""
        self._check_place()
        self._lacked_room = False
        self._unchecked += size
        copier = self._copier
        if copier.is_copying():
            # The log must not grow faster than it is copied: the reserve has to have room for all of it (FC-29).
            if copier.has_ended(wait=self._unchecked > CHECKPOINT // 4):
                self.checkpoint()
        elif self._unchecked > CHECKPOINT:
            self._unchecked = 0
            copier.begin()

    def _change(self, sql: str, values: tuple[object, ...]) -> None:
        try:
            self._connection.execute(sql, values)
        except sqlite3.Error as error:
            if primary_code(error) == sqlite3.SQLITE_BUSY:
                raise LockedError("another program has locked it") from error
            raise

    def _check_place(self) -> None:
        """Raise StorageError if the file is not in its place any more: the next start would not find what is in it."""
        try:
            is_there = os.path.samestat(self._file, self.path.stat())
        except FileNotFoundError:
            is_there = False
        if not is_there:
            raise StorageError("it has been removed, moved or replaced")

    def checkpoint(self) -> None:
        """Copy the write-ahead log to the database; if the disk is full, later. Raises sqlite3.Error, StorageError."""
        self._unchecked = 0
        try:
            self._connection.execute("pragma wal_checkpoint(passive)").fetchone()
        except sqlite3.Error as error:
            if not self.is_full(error):
                raise

    def is_full(self, error: sqlite3.Error) -> bool:
        """Whether an error means that there is no room, on the disk or in a quota.

        The copier's thread asks too. Raises StorageError if that cannot be found out.
        """
        lacked_room = self._lacked_room
        self._lacked_room = primary_code(error) == sqlite3.SQLITE_FULL or (
            _extended(error) in _WRITES and not self._has_room()
        )
        # There may be room again just after the write has failed for want of it: it is tried once more.
        return self._lacked_room or (lacked_room and _extended(error) in _WRITES)

    def _has_room(self) -> bool:
        try:
            return has_room(self.path.parent, _PROBE)
        except OSError as error:
            raise StorageError(f"{error.filename or self.path}: {error.strerror}") from error

    def free_bytes(self) -> int:
        """Bytes of the file that are free to be used again. Raises sqlite3.Error."""
        return _pragma(self._connection, "freelist_count") * _pragma(self._connection, "page_size")

    def check(self) -> None:
        """Raise DamagedError if SQLite's own structures are damaged: rows could be missing. Raises sqlite3.Error."""
        (said,) = self._connection.execute("pragma quick_check(1)").fetchone()
        if said != "ok":
            raise DamagedError(f"SQLite: {said}")

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """All frames, in the order of their numbers. Raises sqlite3.Error and DamagedError."""
        yield from read_frames(self._connection)

    def content(self, number: int) -> bytes:
        """The content of a frame, which has to exist. Raises sqlite3.Error."""
        (content,) = self._connection.execute("select content from frame where number = ?", (number,)).fetchone()
        return bytes(content)

    def remove(self, number: int) -> None:
        """Remove this frame and all before it; its free pages are used again. Raises sqlite3.Error, LockedError."""
        self._change("delete from frame where number <= ?", (number,))

    def close(self) -> None:
        """Close the file, and let another broker use it. Raises sqlite3.Error if that has failed."""
        try:
            self._copier.close()
            self.checkpoint()
        finally:
            self._connection.close()
            os.close(self._lock)


def log_length() -> int:
    """Bytes of the write-ahead log: while the first CHECKPOINT bytes are copied, at most a fourth more is added."""
    return CHECKPOINT + CHECKPOINT // 4


REMEDY: Final = "`sluice store check` lists all damage; restore a backup, or `sluice store salvage`"

_NOT_A_JOURNAL: Final = f"this is not a journal, or it is damaged; {REMEDY}"

_RIGHTS: Final = "the broker's user has to be able to read and write all files of the directory"

_REASONS: Final = {
    sqlite3.SQLITE_FULL: "it needs some room",
    sqlite3.SQLITE_IOERR: "the disk has failed",
    sqlite3.SQLITE_BUSY: "another program has locked it: start the broker when that has ended",
    sqlite3.SQLITE_CANTOPEN: _RIGHTS,
    sqlite3.SQLITE_READONLY: _RIGHTS,
}
"""What an error of SQLite means, by its primary code."""


_WRITES: Final = frozenset({sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE})
"""What SQLite says of EDQUOT, and of a file for its index of the log that cannot grow; and of other failed writes."""


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's code of an error, without what is special about it; 0 = it is Python's own."""
    return _extended(error) & 0xFF


def _extended(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0))


def _unusable(error: OSError) -> str:
    """What to say of a directory that cannot be used."""
    if isinstance(error, PermissionError):
        return f"{error.strerror}: {_RIGHTS}"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "it has to be a directory, and there is a file in its way: move that away, or name another directory"
    return error.strerror or str(error)


def path_in(directory: Path) -> Path:
    """The journal's file. If the directory has a link to it, the others are beside it, as those of SQLite."""
    path = directory / NAME
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _check_kinds(path: Path) -> None:
    """Raise StorageError if what has the name of one of the journal's files is none. Raises OSError."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm", LOCK, _NEW, RESERVE, PROBE):
        each = path.with_name(name)
        if each.exists() and not each.is_file():
            raise StorageError(f"{each}: this is not a file, and the journal needs one of this name: move it away")


def connect(path: Path) -> sqlite3.Connection:
    """Open a database file. Raises sqlite3.Error."""
    return sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)


def check_files(path: Path, check_log: Callable[[Path], object] = torn_writes.check) -> None:
    """Raise DamagedError if the files of this journal cannot be whole, as SQLite would not say. Raises OSError."""
    log = path.with_name(f"{path.name}-wal")
    if path.exists():
        if not path.stat().st_size:
            raise DamagedError("the file is empty")
        check_log(log)
    elif log.exists():
        raise DamagedError("the file is missing, but there is its write-ahead log")


def check_head(connection: sqlite3.Connection) -> None:
    """Raise DamagedError unless this is a journal, of a version that is read. Raises sqlite3.Error."""
    application, version = _pragma(connection, "application_id"), _pragma(connection, "user_version")
    if application != APPLICATION:
        raise ForeignError("a database of another program: this is not the directory of a journal")
    if not OLDEST <= version <= VERSION:
        writer = "a newer" if version > VERSION else "an older"
        what = f"version {version}; this broker reads versions {OLDEST} to {VERSION}: start {writer} broker with it"
        raise ForeignError(f"{what}, or this one with another persistence.directory")
    if [each for (each,) in connection.execute("select sql from sqlite_master")] != [TABLE]:
        raise DamagedError(TABLES)


def read_frames(connection: sqlite3.Connection) -> Iterator[tuple[int, bytes]]:
    """All frames, in the order of their numbers. Raises sqlite3.Error and DamagedError."""
    for number, content in connection.execute("select number, content from frame order by number"):
        if not isinstance(number, int) or not isinstance(content, bytes):
            raise DamagedError(f"frame {number}: it is no number with bytes")
        yield number, content


def _create(path: Path) -> None:
    """Make an empty journal, under another name first: what has its name is whole. Raises sqlite3.Error, OSError."""
    new = path.with_name(_NEW)
    for each in (new, path.with_name(f"{_NEW}-journal")):
        each.unlink(missing_ok=True)
    new.touch(0o600)  # what SQLite makes can be read by all; its log gets the same rights
    connection = connect(new)
    try:
        connection.execute(f"pragma page_size = {PAGE}")
        connection.execute("begin immediate")
        connection.execute(TABLE)
        connection.execute(f"pragma application_id = {APPLICATION}")
        connection.execute(f"pragma user_version = {VERSION}")
        connection.execute("commit")
    finally:
        connection.close()
    new.replace(path)
    fsync.sync_names(path.parent)


def _make(directory: Path) -> None:
    """Make it, with its parents, and have a power cut not take their names away. Raises OSError."""
    new = [each for each in (directory, *directory.parents) if not each.exists()]
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in new:
        fsync.sync_names(each.parent)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"pragma {name}").fetchone()[0])
