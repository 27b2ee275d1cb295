"""Converts journals of versions 2 to 4, which were SQLite databases, to segments: once, when a broker starts.

A kill at any moment loses nothing: until the database gets another name it is the journal, afterwards the segments are.
"""

import shutil
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final
from zlib import crc32

from broker.storage import fsync
from broker.storage.errors import ForeignError, StorageError
from broker.storage.found import names
from broker.storage.records import DamagedError

NAME: Final = "journal.sqlite"
OLD: Final = "journal.sqlite.old"
"""The name of the database when it is converted, until it is removed."""
FOLDER: Final = "converting"
"""Where the segments are until they are whole."""

APPLICATION: Final = 0x536C7563
"""SQLite's application id of a journal: `Sluc`."""
VERSIONS: Final = range(2, 5)

_LEFT: Final = (OLD, f"{NAME}-wal", f"{NAME}-shm", "journal.reserve", "journal.probe")
_HEAD: Final = struct.Struct(">IQ")
_CHECKED: Final = 4


def frames(path: Path) -> Iterator[bytes]:
    """The records of each frame, in order. Raises DamagedError, ForeignError and StorageError."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            _check(connection)
            before = 0
            for number, content in connection.execute("select number, content from frame order by number"):
                _check_frame(number, content, before)
                before = number
                yield content[_HEAD.size :]
    except sqlite3.OperationalError as failure:
        raise StorageError(f"{path}: {failure}") from failure
    except (sqlite3.Error, UnicodeError) as damage:
        raise DamagedError(f"{NAME}: {damage}") from damage


def _check(connection: sqlite3.Connection) -> None:
    (application,) = connection.execute("pragma application_id").fetchone()
    (version,) = connection.execute("pragma user_version").fetchone()
    if application != APPLICATION or version not in VERSIONS:
        raise ForeignError(
            f"{NAME}: application {application:#x}, version {version}: this broker converts journals of the versions "
            f"{VERSIONS[0]} to {VERSIONS[-1]}: move it away, or name another persistence.directory"
        )
    (said,) = connection.execute("pragma quick_check(1)").fetchone()
    if said != "ok":
        raise DamagedError(f"{NAME}: SQLite: {said}")


def _check_frame(number: object, content: object, before: int) -> None:
    if not isinstance(number, int) or not isinstance(content, bytes) or len(content) < _HEAD.size:
        raise DamagedError(f"{NAME}: frame {number}: it is no number with a frame")
    if before and number != before + 1:
        raise DamagedError(f"{NAME}: frame {number}: the one before it is frame {before}: those between are missing")
    if _HEAD.unpack_from(content) != (crc32(memoryview(content)[_CHECKED:]), number):
        raise DamagedError(f"{NAME}: frame {number}: the checksum is wrong")


def is_there(directory: Path) -> bool:
    """Whether there is something to convert. Raises StorageError if it is not clear which is the journal."""
    source = directory / NAME
    if not source.exists():
        return (directory / FOLDER).exists() or (directory / OLD).exists()
    if names(directory):
        raise StorageError(
            f"{directory}: there is {NAME}, and there are segments of a newer journal: move away what is not yours"
        )
    return True


def begin(directory: Path) -> Path:
    """Make the folder for the segments. Raises OSError."""
    folder = directory / FOLDER
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(mode=0o700)
    return folder


def end(directory: Path) -> None:
    """The segments are whole, if the database is still there: they become the journal. Raises OSError."""
    folder = directory / FOLDER
    if (directory / NAME).exists():
        fsync.sync_names(folder)
        fsync.sync_names(directory)
        (directory / NAME).replace(directory / OLD)
        fsync.sync_names(directory)
    if folder.exists():
        if (directory / OLD).exists():  # else it is not whole: the database has been moved away
            for path in names(folder):
                path.replace(directory / path.name)
        fsync.sync_names(directory)
        shutil.rmtree(folder)
    for name in _LEFT:
        (directory / name).unlink(missing_ok=True)
    fsync.sync_names(directory)
