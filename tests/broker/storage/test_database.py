"""The file of the journal (FC-27)."""

import errno
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from broker.storage.database import LOCK, NAME, OLDEST, VERSION, Database, StorageError

FULL: Final = 2
"""SQLite's number for `synchronous = full`."""


def test_frames_come_back(tmp_path: Path) -> None:
    """Frames are read in the order of their numbers after reopening, without the removed ones."""
    database = Database(tmp_path / "new" / "folder")
    for number in (1, 2, 3):
        database.append(number, b"frame %d" % number)
    database.remove(1)
    database.close()
    database = Database(tmp_path / "new" / "folder")
    assert list(database.frames()) == [(2, b"frame 2"), (3, b"frame 3")]
    assert database.content(3) == b"frame 3"
    database.close()


def test_commits_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-27: each commit is synced, also by an SQLite that is built not to (`SQLITE_DEFAULT_WAL_SYNCHRONOUS=1`)."""
    connect = sqlite3.connect

    def built_otherwise(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.execute("pragma synchronous = normal")
        return connection

    monkeypatch.setattr(sqlite3, "connect", built_otherwise)
    database = Database(tmp_path)
    assert database._connection.execute("pragma synchronous").fetchone() == (FULL,)
    database.close()


def test_only_for_one(tmp_path: Path) -> None:
    """A second broker cannot open the file until the first has closed it."""
    database = Database(tmp_path)
    with pytest.raises(StorageError, match="another broker uses it"):
        Database(tmp_path)
    database.close()
    Database(tmp_path).close()


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    """A new directory has rights for the broker's user only, because payloads may be secret."""
    Database(tmp_path / "journal").close()
    assert (tmp_path / "journal").stat().st_mode & 0o077 == 0


def test_of_another_program(tmp_path: Path) -> None:
    """The database of another program is refused and left unchanged."""
    with sqlite3.connect(tmp_path / NAME) as other:
        other.execute("create table theirs (a)")
    other.close()
    before = (tmp_path / NAME).read_bytes()
    with pytest.raises(StorageError, match="another program"):
        Database(tmp_path)
    assert (tmp_path / NAME).read_bytes() == before


@pytest.mark.parametrize(("version", "writer"), [(OLDEST - 1, "an older"), (VERSION + 7, "a newer")])
def test_of_another_version(tmp_path: Path, version: int, writer: str) -> None:
    """A journal of another version is refused and left unchanged, with both versions and what to do."""
    database = Database(tmp_path)
    database.append(1, b"frame 1")
    database._connection.execute(f"pragma user_version = {version}")
    database.close()
    before = (tmp_path / NAME).read_bytes()
    said = f"version {version}; this broker reads versions {OLDEST} to {VERSION}: start {writer} broker with it"
    with pytest.raises(StorageError, match=f"{said}, or this one with another persistence.directory"):
        Database(tmp_path)
    assert (tmp_path / NAME).read_bytes() == before


def test_of_an_older_version(tmp_path: Path) -> None:
    """A journal of an older version that is read has the current version from then on."""
    database = Database(tmp_path)
    database.append(1, b"frame 1")
    database._connection.execute(f"pragma user_version = {OLDEST}")
    database.close()
    for _ in range(2):
        database = Database(tmp_path)
        assert list(database.frames()) == [(1, b"frame 1")]
        assert database._connection.execute("pragma user_version").fetchone() == (VERSION,)
        database.close()


def test_no_database(tmp_path: Path) -> None:
    """A file that is not a database is refused."""
    (tmp_path / NAME).write_bytes(b"these are my notes, not a database; " * 100)
    with pytest.raises(StorageError, match="not a journal, or it is damaged"):
        Database(tmp_path)


def test_no_directory(tmp_path: Path) -> None:
    """A directory that cannot be created is named."""
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"persistence.directory .*file"):
        Database(tmp_path / "file" / "journal")


def test_an_empty_file(tmp_path: Path) -> None:
    """A journal file that is empty, or missing beside its write-ahead log, is refused and not taken for a new one."""
    (tmp_path / NAME).touch()
    with pytest.raises(StorageError, match="the file is empty: the journal is damaged; `sluice store check`"):
        Database(tmp_path)
    (tmp_path / NAME).rename(tmp_path / f"{NAME}-wal")
    with pytest.raises(StorageError, match="the file is missing, but there is its write-ahead log"):
        Database(tmp_path)


def test_other_tables(tmp_path: Path) -> None:
    """A table that is not the journal's is reported as damage."""
    database = Database(tmp_path)
    database._connection.execute("alter table frame rename to other")
    database.close()
    with pytest.raises(StorageError, match="its tables are not those of a journal: the journal is damaged"):
        Database(tmp_path)


def test_one_that_was_not_finished(tmp_path: Path) -> None:
    """The rest of a journal whose creation was interrupted does not keep the next start from creating one."""
    (tmp_path / "journal.new").write_bytes(b"half of it")
    (tmp_path / "journal.new-journal").write_bytes(b"half of it")
    Database(tmp_path).close()
    Database(tmp_path).close()
    assert not (tmp_path / "journal.new").exists()


@pytest.fixture
def foreign() -> Iterator[Path]:
    """A directory of somebody else, that this process may look into."""
    with tempfile.TemporaryDirectory(prefix="sluice-rights-") as name:
        path = Path(name)
        Database(path).close()
        (path / "no").mkdir()
        path.chmod(0o755)
        (path / "no").chmod(0o555)
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(65_534)
        try:
            yield path
        finally:
            if is_root:
                os.seteuid(0)
            for each in (path, path / "no", *path.glob("journal*")):
                each.chmod(0o700)


def test_without_rights(foreign: Path) -> None:
    """A directory or file without write permission is named, with what is needed."""
    with pytest.raises(StorageError, match=f"persistence.directory {foreign}/no: Permission denied"):
        Database(foreign / "no")
    with pytest.raises(StorageError, match=f"persistence.directory {foreign}/no/new: Permission denied"):
        Database(foreign / "no" / "new")


@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_a_file_without_rights(foreign: Path, mode: int) -> None:
    """A journal file without permission is named, with what is needed."""
    user = os.geteuid()
    os.seteuid(os.getuid())
    (foreign / NAME).chmod(mode)
    (foreign / LOCK).chmod(0o666)
    os.seteuid(user)
    with pytest.raises(StorageError, match=f"{foreign / NAME}: .* to read and write all files of the directory"):
        Database(foreign)


def test_room_that_comes_right_after_a_failed_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-29: it is no failed disk if the writes before it had no room either; that is believed once."""
    database = Database(tmp_path)
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    with monkeypatch.context() as quota:
        quota.setattr(Path, "open", _no_room)
        assert database.is_full(error)
    assert database.is_full(error)
    assert not database.is_full(error)
    with monkeypatch.context() as quota:
        quota.setattr(Path, "open", _no_room)
        assert database.is_full(error)
    database.append(1, b"there is room")
    assert not database.is_full(error)
    database.close()


def _no_room(path: Path, mode: str) -> None:
    raise OSError(errno.EDQUOT, f"no room for {path}, {mode}")
