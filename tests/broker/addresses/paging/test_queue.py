"""Page files: what has been written comes back in order, whatever happens to the disk."""

import errno
import os
import resource
import subprocess
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.addresses.paging.queue import EXHAUSTED, PageQueue
from broker.addresses.paging.record import Draft, Record
from broker.addresses.paging.segment import Segment
from protocol.decoder import Decoder
from protocol.publish import Publish
from tests.support.broker.paging import with_packet

pytestmark = pytest.mark.once

SMALL: Final = 100
"""Bytes of a segment here: two or three records."""


def record(number: int, size: int = 0) -> bytes:
    """A record that can be told from others, with `size` more bytes of payload."""
    return Draft(Publish(b"t", b"%d " % number + bytes(size), 1, packet_id=1), "c").record()


def numbers(records: list[Record]) -> list[int]:
    """Which records these are."""
    return [int(each.publish.payload.split()[0]) for each in records]


def drain(queue: PageQueue, limit: int = 65_536) -> list[int]:
    """All that can be taken, as numbers."""
    found: list[int] = []
    while queue.messages:
        found += numbers(queue.take(limit).records)
    return found


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file may grow past `size` bytes: writes are cut short there and fail, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@given(
    st.lists(st.one_of(st.lists(st.integers(0, 150), max_size=8), st.integers(0, 500)), max_size=30),
)
def test_first_in_first_out(tmp_path_factory: pytest.TempPathFactory, steps: list[list[int] | int]) -> None:
    """FC-26: pages are in order, over any number of files, whatever is written and taken when."""
    folder = tmp_path_factory.mktemp("pages")
    queue = PageQueue(folder, "1", SMALL)
    expected: deque[int] = deque()
    count = 0
    for step in steps:
        if isinstance(step, int):
            taken = queue.take(step)
            assert (taken.lost, taken.problem) == (0, "")
            assert bool(taken.records) == bool(expected)
            assert sum(each.size for each in taken.records) <= step or len(taken.records) <= 1
            assert numbers(taken.records) == [expected.popleft() for _ in taken.records]
        else:
            assert queue.append([record(count + n, size) for n, size in enumerate(step)]) == (len(step), None)
            expected.extend(range(count, count + len(step)))
            count += len(step)
        assert queue.messages == len(expected)
    assert drain(queue) == list(expected)
    assert list(folder.iterdir()) == []


def test_files_are_removed_as_they_are_read(tmp_path: Path) -> None:
    """FC-26: what has been read takes no room on the disk any more, file by file."""
    queue = PageQueue(tmp_path, "1", SMALL)
    queue.append([record(number) for number in range(30)])
    counts = [len(list(tmp_path.iterdir()))]
    while queue.messages:
        queue.take(1)
        counts.append(len(list(tmp_path.iterdir())))
    assert counts[0] >= 10
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} <= {0o600}


def test_only_its_owner_may_read_a_page(tmp_path: Path) -> None:
    """What clients have sent is for nobody else on the machine."""
    PageQueue(tmp_path, "1").append([record(1)])
    assert [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()] == [0o600]


def test_a_large_message(tmp_path: Path) -> None:
    """A message larger than a file should be, and than what is read at once, is one file and one look."""
    queue = PageQueue(tmp_path, "1", SMALL)
    assert queue.append([record(1), record(2, 1_000_000), record(3)]) == (3, None)
    assert numbers(queue.take(10).records) == [1]
    assert numbers(queue.take(10).records) == [2]
    assert numbers(queue.take(10).records) == [3]


@pytest.mark.parametrize("before", [0, 1])
def test_disk_full_at_every_byte(tmp_path: Path, before: int) -> None:
    """FC-26: of what does not fit, whole records count and stay; the half-written tail is cut off, and written over."""
    records = [record(number, number) for number in range(before, before + 3)]
    size = sum(map(len, records))
    first = len(record(0)) if before else 0
    for room in range(size):
        folder = tmp_path / str(room)
        folder.mkdir()
        queue = PageQueue(folder, "1")
        if before:
            queue.append([record(0)])
        with largest_file(first + room):
            written, error = queue.append(records)
        fitting = [len(b"".join(records[:count])) <= room for count in (1, 2, 3)].count(True)
        assert (written, error is not None and error.errno) == (fitting, errno.EFBIG)
        assert [path.stat().st_size for path in folder.iterdir()] == (
            [first + len(b"".join(records[:written]))] if before + written else []
        )
        assert queue.append([record(9)]) == (1, None)
        assert drain(queue) == [*range(before + written), 9]


def test_no_space_left(tmp_path: Path) -> None:
    """FC-26: a file system that is really full keeps what it has, and takes more when there is room again."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("only root can mount a small file system")
    try:
        queue = PageQueue(tmp_path, "1", 10_000)
        written, error = queue.append([record(number, 1000) for number in range(100)])
        assert error is not None
        assert error.errno == errno.ENOSPC
        assert 50 < written < 64
        assert queue.append([record(1, 9000)])[0] == 0
        first = numbers(queue.take(20_000).records)
        assert first == list(range(len(first)))
        assert queue.append([record(100, 1000)]) == (1, None)
        assert drain(queue) == [*range(len(first), written), 100]
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_missing_directory(tmp_path: Path) -> None:
    """A directory that is not there takes nothing, says so each time, and is used as soon as it is there."""
    queue = PageQueue(tmp_path / "gone", "1")
    for _ in range(2):
        written, error = queue.append([record(1)])
        assert written == 0
        assert isinstance(error, FileNotFoundError)
        assert queue.messages == 0
    (tmp_path / "gone").mkdir()
    assert queue.append([record(2)]) == (1, None)
    assert drain(queue) == [2]


def filled(folder: Path) -> tuple[PageQueue, list[Path]]:
    """A queue with three records in each of three files."""
    queue = PageQueue(folder, "1", 3 * len(record(1)))
    queue.append([record(number) for number in range(1, 10)])
    return queue, sorted(folder.iterdir())


def test_truncated_at_every_byte(tmp_path: Path) -> None:
    """FC-26: of a file that has lost its end, what is whole is read; the rest is given up, counted and said."""
    size = len(record(1))
    for end in range(3 * size):
        folder = tmp_path / str(end)
        folder.mkdir()
        queue, files = filled(folder)
        files[0].write_bytes(files[0].read_bytes()[:end])
        found, lost, lost_bytes = [], 0, 0
        while queue.messages:
            taken = queue.take(65_536)
            found += numbers(taken.records)
            lost += taken.lost
            lost_bytes += taken.lost_bytes
            assert not taken.lost or str(files[0]) in taken.problem
        whole = end // size
        assert found == [*range(1, whole + 1), *range(4, 10)]
        assert (lost, lost_bytes) == (3 - whole, (3 - whole) * size)
        assert list(folder.iterdir()) == []


def test_every_bit(tmp_path: Path) -> None:
    """FC-26: nothing behind a flipped bit is read in its file, all of the next file is."""
    size = len(record(1))
    queue, files = filled(tmp_path)
    good = files[0].read_bytes()
    for bit in range(8 * len(good)):
        queue, files = filled(tmp_path)
        flipped = bytearray(good)
        flipped[bit // 8] ^= 1 << bit % 8
        files[0].write_bytes(flipped)
        assert drain(queue) == [*range(1, bit // 8 // size + 1), *range(4, 10)]


def test_lost_files(tmp_path: Path) -> None:
    """Files that somebody removes, or puts something else in the place of, cost what was in them and no more."""
    queue, files = filled(tmp_path)
    files[0].unlink()
    files[1].unlink()
    files[1].mkdir()
    taken = [queue.take(65_536) for _ in range(3)]
    assert [each.lost for each in taken] == [3, 3, 0]
    assert "No such file" in taken[0].problem
    assert "Is a directory" in taken[1].problem
    assert numbers(taken[2].records) == [7, 8, 9]


def test_another_file_format(tmp_path: Path) -> None:
    """A checksum that holds over what is no message costs that file, and none of the next."""
    queue, files = filled(tmp_path)
    wrong = with_packet(b"\x36\x05\0\x01a\0x")
    files[0].write_bytes(wrong + bytes(3 * len(record(1)) - len(wrong)))
    taken = queue.take(65_536)
    assert (taken.records, taken.lost) == ([], 3)
    assert "QoS is 3" in taken.problem
    assert drain(queue) == list(range(4, 10))


def test_out_of_file_descriptors(tmp_path: Path) -> None:
    """A broker that can open no file just now has lost nothing: the pages are read when it can."""
    queue, _ = filled(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files") as raised:
            queue.take(65_536)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert raised.value.errno in EXHAUSTED
    assert drain(queue) == list(range(1, 10))


def test_a_file_that_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, and what was in it has been read nevertheless.

    Root may remove anything, so the system call is a stand-in here.
    """

    def refuse(_: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    queue, _ = filled(tmp_path)
    monkeypatch.setattr(Path, "unlink", refuse)
    taken = queue.take(65_536)
    assert numbers(taken.records) == [1, 2, 3]
    assert (taken.lost, taken.problem) == (0, "[Errno 30] Read-only file system")
    assert drain(queue) == list(range(4, 10))


def test_a_close_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems say only at the end that they have taken nothing: then none of it counts.

    Local ones never do, so the system call is a stand-in here.
    """
    segment = Segment(tmp_path / "1-1.page")
    segment.append([record(1)])
    close = os.close

    def close_and_fail(file: int) -> None:
        close(file)
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    with monkeypatch.context() as patched:
        patched.setattr(os, "close", close_and_fail)
        written, error = segment.append([record(2), record(3)])
    assert (written, error is not None and error.errno) == (0, errno.EDQUOT)
    assert segment.append([record(4)]) == (1, None)
    assert numbers(segment.take(65_536, Decoder(version=5))) == [1, 4]
