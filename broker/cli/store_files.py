"""Opens a journal without changing its files, and makes a copy that has its name only when it is whole (FC-27)."""

import fcntl
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, NoReturn

import typer

from broker.storage import fsync
from broker.storage.database import (
    LOCK,
    NAME,
    REMEDY,
    ForeignError,
    StorageError,
    check_files,
    check_head,
    path_in,
    primary_code,
)
from broker.storage.records import DamagedError

DAMAGED: Final = 1
"""Exit status of `check` and `salvage` for a damaged journal, and of all commands for one that cannot be read."""

_UNFINISHED: Final = "unfinished"
"""The folder in a copy's directory where it is while it is made."""

_KEPT_OUT: Final = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY})
_OF_READING: Final = frozenset({sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ})


def refuse(path: Path, why: object) -> NoReturn:
    """End the command with a message."""
    print(f"sluice: {path}: {why}", file=sys.stderr)
    raise typer.Exit(DAMAGED) from None


@contextmanager
def reading(directory: Path, damaged: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection to the database, which a broker may use meanwhile. Ends the command if it cannot be read.

    `damaged`: whether the command looks for damage itself.
    """
    path = directory / NAME
    _check_openable(path)
    # SQLite writes into the directory even to read, but for a file that it is told nobody writes.
    is_still = not _has_log(path) and not _is_used(directory)
    uri = f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if is_still else ''}"
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            connection.execute("begin")  # a broker may remove frames meanwhile
            if not damaged:
                check_head(connection)
            yield connection
    except ForeignError as error:
        refuse(path, error)
    except DamagedError as error:
        refuse(path, f"{error}: the journal is damaged; {REMEDY}")
    except sqlite3.Error as error:
        refuse(path, f"{error}: {_reason(error, path, damaged)}")
    except UnicodeError as error:
        refuse(path, error)
    if is_still and (_has_log(path) or _is_used(directory)):
        refuse(path, "a broker has begun to use it meanwhile, so that this may be wrong: try again")


def _check_openable(path: Path) -> None:
    """End the command where SQLite would remove the write-ahead log of a file that is empty, or has none to open."""
    try:
        check_files(path, lambda _: None)
    except DamagedError as error:
        log = _log(path)
        rest = f"; {log} has what is left: keep both, and restore a backup" if _has_log(path) else "; restore a backup"
        refuse(path, f"{error}{rest}. Nothing has been changed")
    except OSError as error:
        refuse(path, error.strerror)


def _reason(error: sqlite3.Error, path: Path, damaged: bool) -> str:
    """What an error of SQLite means for a command."""
    if primary_code(error) in _KEPT_OUT:
        if not path.exists():
            return "there is no journal"
        who = "whoever reads it has to be able to read all files of its directory"
        return f"{who}, and to write there while a broker uses it or has left {_log(path).name}"
    if primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "another program changes it: try again"
    if damaged:
        return "SQLite cannot open it, so no frame can be read; restore a backup"
    return f"the journal is damaged; {REMEDY}"


def _log(path: Path) -> Path:
    real = path_in(path.parent)
    return real.with_name(f"{real.name}-wal")


def _has_log(path: Path) -> bool:
    """Whether there is something in SQLite's write-ahead log."""
    try:
        return _log(path).stat().st_size > 0
    except OSError:
        return False


def _is_used(directory: Path) -> bool:
    """Whether a broker has it open, or may have: its files change while they are read."""
    try:
        with path_in(directory).with_name(LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def damage_of_log(directory: Path) -> list[str]:
    """What is wrong with the write-ahead log, as SQLite would not say: nothing if a broker uses it."""
    try:
        if not _is_used(directory):
            check_files(path_in(directory))
    except DamagedError as error:
        return [f"{error}: the frames behind that are lost"]
    except OSError:
        pass  # what reads it next says why it cannot be read
    return []


@contextmanager
def copying(copy: Path) -> Iterator[Path]:
    """A folder for a new journal, which is put in the directory `copy` at the end. Nothing of it stays if that fails.

    Ends the command with a message if the copy cannot be written.
    """
    unfinished = copy / _UNFINISHED
    try:
        copy.mkdir(mode=0o700, parents=True)
    except OSError as error:
        refuse(copy, f"{error.strerror}: the copy needs a directory that does not exist")
    try:
        unfinished.mkdir(mode=0o700)
        yield unfinished
        if _has_log(unfinished / NAME):
            raise StorageError("the copy's write-ahead log does not fit into its database")
        (unfinished / NAME).replace(copy / NAME)
        shutil.rmtree(unfinished)
        fsync.sync_names(copy)
        fsync.sync_names(copy.parent)
    except (StorageError, OSError) as error:
        shutil.rmtree(copy, ignore_errors=True)
        refuse(copy, f"{error.strerror or error}: there is no copy")
    except BaseException:
        shutil.rmtree(copy, ignore_errors=True)
        raise


@contextmanager
def writing() -> Iterator[None]:
    """Errors of SQLite in here are those of the copy: raises StorageError for them, but not for what it reads."""
    try:
        yield
    except sqlite3.Error as error:
        if primary_code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, *_KEPT_OUT) and (
            getattr(error, "sqlite_errorcode", 0) not in _OF_READING
        ):
            raise StorageError(str(error)) from error
        raise
