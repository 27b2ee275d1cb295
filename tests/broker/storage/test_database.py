"""The file of the journal (FC-27)."""

import sqlite3
from pathlib import Path

import pytest

from broker.storage.database import NAME, Database, StorageError


def test_frames_come_back(tmp_path: Path) -> None:
    """Frames are there again when the file is opened again, in the order of their numbers, without those removed."""
    database = Database(tmp_path / "new" / "folder")
    for number in (1, 2, 3):
        database.append(number, b"frame %d" % number)
    database.remove(1)
    database.close()
    database = Database(tmp_path / "new" / "folder")
    assert list(database.frames()) == [(2, b"frame 2"), (3, b"frame 3")]
    assert database.content(3) == b"frame 3"
    database.close()


def test_only_for_one(tmp_path: Path) -> None:
    """A second broker is kept out until the first has closed the file."""
    database = Database(tmp_path)
    with pytest.raises(StorageError, match="another broker uses it"):
        Database(tmp_path)
    database.close()
    Database(tmp_path).close()


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    """Payloads may be secret: a directory that is made is for the broker's user alone."""
    Database(tmp_path / "journal").close()
    assert (tmp_path / "journal").stat().st_mode & 0o077 == 0


def test_of_another_program(tmp_path: Path) -> None:
    """The database of another program is left as it is."""
    with sqlite3.connect(tmp_path / NAME) as other:
        other.execute("create table theirs (a)")
    other.close()
    before = (tmp_path / NAME).read_bytes()
    with pytest.raises(StorageError, match="another program"):
        Database(tmp_path)
    assert (tmp_path / NAME).read_bytes() == before


def test_of_another_version(tmp_path: Path) -> None:
    """A journal of a later version is refused, with both numbers."""
    database = Database(tmp_path)
    database._connection.execute("pragma user_version = 9")
    database.close()
    with pytest.raises(StorageError, match="version 9; this broker reads version 1"):
        Database(tmp_path)


def test_no_database(tmp_path: Path) -> None:
    """A file that is no database is refused."""
    (tmp_path / NAME).write_bytes(b"these are my notes, not a database; " * 100)
    with pytest.raises(StorageError, match="not a journal, or it is damaged"):
        Database(tmp_path)


def test_no_directory(tmp_path: Path) -> None:
    """A directory that cannot be made is named."""
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"persistence.directory .*file"):
        Database(tmp_path / "file" / "journal")
