"""New journals, and SQLite journals of older brokers that become segments, whenever that is interrupted (FC-27)."""

import os
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from broker.storage import sqlite_journal
from broker.storage.errors import StorageError
from broker.storage.making import NewJournal, convert, move
from broker.storage.segments import Segments
from tests.support.broker.segmented import make, numbers, record

FRAMES = 20


def old_frame(number: int, content: bytes) -> bytes:
    """A frame of versions 2 to 4."""
    rest = struct.pack(">Q", number) + content
    return struct.pack(">I", crc32(rest)) + rest


@pytest.fixture(params=sqlite_journal.VERSIONS)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The directory of a journal of an older broker, which had removed frames."""
    directory = tmp_path / "journal"
    directory.mkdir()
    with closing(sqlite3.connect(directory / sqlite_journal.NAME)) as connection, connection:
        connection.execute("CREATE TABLE frame (number integer primary key, content blob not null)")
        connection.execute(f"pragma application_id = {sqlite_journal.APPLICATION}")
        connection.execute(f"pragma user_version = {request.param}")
        rows = [(70 + number, old_frame(70 + number, record(number))) for number in range(1, FRAMES + 1)]
        connection.executemany("insert into frame values (?, ?)", rows)
    (directory / "journal.reserve").write_bytes(bytes(100))
    return directory


def start(directory: Path) -> None:
    """Open and close it, as a broker does."""
    Segments(directory, convert).close()


def test_an_older_journal(old: Path) -> None:
    """A journal of an older broker is converted once: all frames are there, and nothing of the old one stays."""
    start(old)
    assert numbers(old) == list(range(1, FRAMES + 1))
    assert sorted(each.name for each in old.iterdir()) == ["journal.lock", "journal.readers", "segment-1"]
    start(old)
    assert numbers(old) == list(range(1, FRAMES + 1))


class Killed(BaseException):
    """The process has ended."""


def test_killed_at_any_moment(old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is killed while it converts has lost nothing: the next one begins again, or ends it."""
    calls = 0
    last = 0

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == last:
                raise Killed
            return call(*arguments, **options)

        return counting

    for name in ("mkdir", "rename", "replace", "unlink", "pwritev", "fsync", "rmdir"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    killed = 0
    while True:
        calls = -1_000_000
        last += 1
        copy = shutil.copytree(old, tmp_path / f"{last}")
        calls = 0
        try:
            start(copy)
            break
        except Killed:
            killed += 1
        calls = -1_000_000
        start(copy)
        assert numbers(copy) == list(range(1, FRAMES + 1)), last
    assert killed > 10


def test_a_conversion_that_is_not_whole_does_not_become_the_journal(tmp_path: Path) -> None:
    """FC-27: if the database is moved away after a conversion has failed, its part is not taken for the journal."""
    new = NewJournal(sqlite_journal.begin(tmp_path))
    new.add([b"part"])
    new.close()
    convert(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("pragma user_version = 99", "version 99: this broker converts journals of the versions 2 to 4"),
        ("pragma application_id = 1", "application 0x1, version"),
        ("delete from frame where number = 77", "frame 78: the one before it is frame 76: those between are missing"),
        ("update frame set content = 'text' where number = 77", "frame 77: it is no number with a frame"),
        (
            "update frame set content = (select content from frame where number = 80) where number = 77",
            "frame 77: the checksum is wrong: the journal is damaged",
        ),
    ],
)
def test_it_cannot_be_converted(old: Path, statement: str, expected: str) -> None:
    """A damaged or foreign database is refused, and stays as it is."""
    with closing(sqlite3.connect(old / sqlite_journal.NAME)) as connection, connection:
        connection.execute(statement)
    before = (old / sqlite_journal.NAME).read_bytes()
    with pytest.raises(StorageError, match=expected):
        start(old)
    assert (old / sqlite_journal.NAME).read_bytes() == before


def test_no_database(tmp_path: Path) -> None:
    """Bytes that are no database are refused."""
    (tmp_path / sqlite_journal.NAME).write_bytes(b"no database" * 100)
    with pytest.raises(StorageError, match=r"journal.sqlite: file is not a database: the journal is damaged; restore"):
        start(tmp_path)


def test_both(old: Path) -> None:
    """Where there is a journal of each kind, it is for people to say which is theirs."""
    make(old.parent / "new", 1)
    shutil.copy(old.parent / "new" / "segment-1", old)
    with pytest.raises(StorageError, match="there are segments of a newer journal: move away what is not yours"):
        start(old)


def test_a_copy_gets_its_files_last(tmp_path: Path) -> None:
    """A copy of which not all files were moved is not taken for a whole journal."""
    new = NewJournal(tmp_path / "new")
    for number in range(1, 40):
        new.add([record(number, 1_000_000)])
    new.close()
    move(tmp_path / "new", tmp_path)
    assert numbers(tmp_path, 1_000_000) == list(range(1, 40))
    (tmp_path / "segment-1").unlink()
    with pytest.raises(StorageError, match="are missing or damaged"):
        Segments(tmp_path)


def test_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal that does not fit is reported."""

    def full(file: int, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    new = NewJournal(tmp_path / "new")
    new.add([record(1)])
    with pytest.raises(StorageError, match="there is no room"):
        new.close()
