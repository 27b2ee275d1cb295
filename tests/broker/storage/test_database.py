"""The file of the journal (FC-27)."""

import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from broker.storage import database as database_module
from broker.storage.database import LOCK, NAME, OLDEST, VERSION, Database, LockedError, StorageError

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


def test_all_frames_of_a_commit_or_none(tmp_path: Path) -> None:
    """Frames that are added together are there together; if one of them fails, none is, and others can be added."""
    database = Database(tmp_path)
    database.append_all([(1, b"frame 1"), (2, b"frame 2")])
    with pytest.raises(sqlite3.IntegrityError):
        database.append_all([(3, b"frame 3"), (2, b"there is a frame 2")])
    database.append(3, b"another frame 3")
    database.close()
    database = Database(tmp_path)
    assert list(database.frames()) == [(1, b"frame 1"), (2, b"frame 2"), (3, b"another frame 3")]
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
    (tmp_path / "there").mkdir(mode=0o755)
    database = Database(tmp_path / "there")
    database.append(1, b"secret")
    rights = {each.name: each.stat().st_mode & 0o777 for each in (tmp_path / "there").iterdir()}
    assert rights == dict.fromkeys([LOCK, NAME, f"{NAME}-shm", f"{NAME}-wal"], 0o600)
    database.close()


def test_a_symbolic_link(tmp_path: Path) -> None:
    """A link to the file on another disk is followed, and one broker at a time may use what it names."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "here" / NAME).symlink_to(tmp_path / "there" / "real.sqlite")
    for number in (1, 2):
        database = Database(tmp_path / "here")
        database.grow_log()
        database.append(number, b"frame %d" % number)
        with pytest.raises(StorageError, match="another broker uses it"):
            Database(tmp_path / "here")
        database.close()
    database = Database(tmp_path / "here")
    assert [number for number, _ in database.frames()] == [1, 2]
    database.close()
    assert [each.name for each in (tmp_path / "here").iterdir()] == [NAME]


@pytest.mark.parametrize("name", [NAME, f"{NAME}-wal", f"{NAME}-shm", LOCK, "journal.reserve", "journal.new"])
def test_a_directory_in_the_place_of_a_file(tmp_path: Path, name: str) -> None:
    """What has the name of one of the files and is none is named when the broker starts."""
    (tmp_path / name).mkdir()
    with pytest.raises(StorageError, match=rf"/{name}: this is not a file, .*: move it away"):
        Database(tmp_path)


def test_what_another_program_has_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another program writes to the file nothing is written, which is said, and it is opened and used later."""
    monkeypatch.setattr(database_module, "BUSY_TIMEOUT", 0.0)
    database = Database(tmp_path)
    with closing(sqlite3.connect(tmp_path / NAME, isolation_level=None)) as other:
        other.execute("begin immediate")
        with pytest.raises(LockedError, match="another program has locked it"):
            database.append(1, b"frame 1")
        with pytest.raises(LockedError, match="another program has locked it"):
            database.remove(1)
        other.execute("rollback")
        database.append(1, b"frame 1")
        database.close()
        other.execute("pragma locking_mode = exclusive")
        other.execute("begin exclusive")
        with pytest.raises(StorageError, match="another program has locked it: start the broker when that has ended"):
            Database(tmp_path)


@pytest.mark.parametrize("away", ["removed", "replaced"])
def test_what_is_not_in_its_place(tmp_path: Path, away: str) -> None:
    """A journal that has been removed or replaced has failed: the next start would not find what is written."""
    database = Database(tmp_path / "journal")
    database.append(1, b"frame 1")
    if away == "removed":
        shutil.rmtree(tmp_path / "journal")
    else:
        (tmp_path / "copy").write_bytes((tmp_path / "journal" / NAME).read_bytes())
        (tmp_path / "copy").rename(tmp_path / "journal" / NAME)
    with pytest.raises(StorageError, match="it has been removed, moved or replaced"):
        database.append(2, b"frame 2")


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
        (path / "closed").mkdir()
        path.chmod(0o755)
        (path / "no").chmod(0o555)
        (path / "closed").chmod(0o000)
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(65_534)
        try:
            yield path
        finally:
            if is_root:
                os.seteuid(0)
            for each in (path, path / "no", path / "closed", *path.glob("journal*")):
                each.chmod(0o700)


def test_without_rights(foreign: Path) -> None:
    """A directory or file without write permission is named, with what is needed."""
    for each in ("no", "no/new", "closed", "closed/new"):
        with pytest.raises(StorageError, match=f"{foreign}/{each}: Permission denied: .* has to be able"):
            Database(foreign / each)


def test_a_file_in_its_place(tmp_path: Path) -> None:
    """A file that has the directory's name, or that of one above it, is told from a directory."""
    (tmp_path / "file").touch()
    for each in ("file", "file/new"):
        with pytest.raises(StorageError, match=f"persistence.directory {tmp_path}/{each}: it has to be a directory"):
            Database(tmp_path / each)


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
