"""FC-29: free segments that are made ahead."""

import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.storage import spares
from broker.storage.errors import StorageError
from broker.storage.spares import ANY, NEW, Spares

SIZE = 20_000


class Usage(NamedTuple):
    """What `shutil.disk_usage` returns, in bytes."""

    total: int
    used: int
    free: int


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are small."""
    monkeypatch.setattr(spares, "SEGMENT", SIZE)


def test_they_are_made(tmp_path: Path) -> None:
    """There are as many as are kept, of zeros, under the next names."""
    free = Spares(tmp_path, [], 4)
    assert free.has_room()
    free.wait()
    assert [(tmp_path / f"segment-{number}").read_bytes() for number in (5, 6, 7)] == [bytes(SIZE)] * 3
    assert {each.name for each in tmp_path.iterdir()} == {"segment-5", "segment-6", "segment-7"}
    assert free.left() >= 3 * SIZE
    assert free.take(SIZE) == tmp_path / "segment-5"


def test_one_that_is_longer(tmp_path: Path) -> None:
    """A commit that is longer than a segment gets a file of its length."""
    path = Spares(tmp_path, [], 0).take(5 * SIZE)
    assert path is not None
    assert path.stat().st_size == 5 * SIZE


def test_nobody_waits_for_one_that_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a file is made on a slow disk, a free one is taken, and one that is free again is given, at once."""
    free = Spares(tmp_path, [], 0)
    path = free.take(SIZE)
    assert path is not None
    free.give(path)
    slow, go_on = threading.Event(), threading.Event()
    write = os.write

    def waiting(file: int, content: bytes) -> int:
        slow.set()
        assert go_on.wait(10)
        return write(file, content)

    monkeypatch.setattr(os, "write", waiting)
    free.has_room()
    assert slow.wait(10)
    assert free.take(SIZE) == path
    free.give(path)
    go_on.set()
    free.wait()
    assert free.has_room()


def test_what_is_not_needed_is_removed(tmp_path: Path) -> None:
    """No more files are kept than are needed, and none of another length."""
    paths = [tmp_path / f"segment-{number}" for number in range(1, 6)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes(SIZE + (number == 0)))
    Spares(tmp_path, paths, 4)
    assert sorted(tmp_path.iterdir()) == paths[1:4]


def test_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without room there is no file, nothing half made stays, and it is tried again."""
    free = Spares(tmp_path, [], 0)
    write = os.write

    def full(file: int, content: bytes) -> int:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "write", full)
    assert free.take(SIZE) is None
    assert list(tmp_path.iterdir()) == []
    assert not free.has_room()
    free.wait()
    monkeypatch.setattr(os, "write", write)
    free.has_room()
    free.wait()
    assert free.has_room()


def test_a_disk_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fails while files are made ahead is reported when they are asked for."""
    free = Spares(tmp_path, [], 0)

    def failing(file: int, content: bytes) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "write", failing)
    free.has_room()
    with pytest.raises(OSError, match="Input/output error"):
        free.wait()


def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    """A directory that has been removed is named as such."""
    (tmp_path / "journal").mkdir()
    free = Spares(tmp_path / "journal", [], 0)
    (tmp_path / "journal").rmdir()
    with pytest.raises(StorageError, match="it has been removed, moved or replaced"):
        free.take(SIZE)


def test_a_name_that_is_in_use(tmp_path: Path) -> None:
    """What an earlier process has not finished is overwritten."""
    (tmp_path / NEW).write_bytes(b"half")
    assert Spares(tmp_path, [], 0).take(SIZE) == tmp_path / "segment-1"
    assert not (tmp_path / NEW).exists()


@pytest.mark.parametrize(
    ("number", "end"),
    [
        (errno.ENOSPC, "the disk has room"),
        (errno.EMFILE, "another file can be opened"),
        (errno.EFBIG, "another file can be made in the directory (File too large)"),
        (errno.EACCES, "another file can be made in the directory (Permission denied)"),
        (errno.EROFS, "another file can be made in the directory (Read-only file system)"),
    ],
)
def test_what_has_to_be_before_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, end: str
) -> None:
    """A file that cannot be made is missing room, whatever forbids it; it says what has to change."""
    free = Spares(tmp_path, [], 0)
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", failing(number))
        free.make_first()
        assert not free.has_room()
        assert end in free.room_until()
        free.wait()
    assert free.take(SIZE) is not None
    free.has_room()
    free.wait()
    assert free.has_room()


def failing(number: int) -> Callable[..., int]:
    """A call that fails with this error."""

    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail


def test_a_file_system_that_does_not_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-29: a file system that says nothing of its size has room until a file cannot be made."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 0))
    free = Spares(tmp_path, [], 0)
    assert free.left() >= ANY
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100, 60, 40))
    assert Spares(tmp_path, [], 0).left() == 40


def test_less_than_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-29: a disk on which not all free segments fit has no room at once, and it says what is free and needed."""
    monkeypatch.setattr(spares, "SEGMENT", 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(9, 0, 3 * 2**20 - 1))
    free = Spares(tmp_path, [], 0)
    assert not free.has_room()
    assert free.room_until() == "the disk has room: 2 MiB are free, and 3 MiB are needed"
    free.wait()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(9, 0, 3 * 2**20))
    assert Spares(tmp_path, [], 3).has_room()
