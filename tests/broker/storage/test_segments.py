"""The journal's files: what is found again, what is torn, what is refused, and which files are used again (FC-27)."""

import contextlib
import errno
import fcntl
import os
import resource
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage import fsync, spares
from broker.storage.directory import READERS
from broker.storage.errors import StorageError
from broker.storage.found import find, names
from broker.storage.frame import HEAD_SIZE, SECTOR
from broker.storage.segments import Segments
from tests.support.broker.segmented import add, kill, killed, make, numbers, overwrite, record

pytestmark = pytest.mark.usefixtures("small_segments")

SMALL = 10 * SECTOR


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine sectors for frames in each segment."""
    monkeypatch.setattr(spares, "SEGMENT", SMALL)


@pytest.mark.parametrize("stopped", [True, False])
def test_all_is_found_again(tmp_path: Path, stopped: bool) -> None:
    """Frames in many segments are found again, in their order, also of a broker that was killed; and it goes on."""
    segments = Segments(tmp_path)
    add(segments, range(1, 31))
    (segments.close if stopped else lambda: kill(segments))()
    assert numbers(tmp_path) == list(range(1, 31))
    with closing(Segments(tmp_path)) as segments:
        assert [number for number, _ in segments.frames()] == list(range(1, 31))
        add(segments, range(31, 41))
    assert numbers(tmp_path) == list(range(1, 41))


def test_a_second_one(tmp_path: Path) -> None:
    """One broker at a time uses a directory."""
    with closing(Segments(tmp_path)), pytest.raises(StorageError, match="another broker uses it: stop that one"):
        Segments(tmp_path)
    Segments(tmp_path).close()


def test_a_long_commit(tmp_path: Path) -> None:
    """A commit that is longer than a segment has one of its own, which is not kept when it is free."""
    with closing(Segments(tmp_path)) as segments:
        add(segments, [1])
        add(segments, [2], 20 * SECTOR)
        add(segments, [3])
        assert [number for number, _ in segments.frames()] == [1, 2, 3]
        longest = max(each.stat().st_size for each in names(tmp_path))
        assert longest > 20 * SECTOR
        segments.remove(2)
        assert max(each.stat().st_size for each in names(tmp_path)) == SMALL


def test_frames_of_one_commit(tmp_path: Path) -> None:
    """Frames of a commit are found together or not at all: with any of them torn none is there."""
    with killed(tmp_path / "whole") as segments:
        add(segments, [1])
        assert segments.append([[record(number)] for number in (2, 3, 4)])
    assert numbers(tmp_path / "whole") == [1, 2, 3, 4]
    for torn in (2, 3, 4):
        copy = tmp_path / f"{torn}"
        shutil.copytree(tmp_path / "whole", copy)
        overwrite(copy / "segment-1", torn * SECTOR + HEAD_SIZE, b"torn")
        assert numbers(copy) == [1]
        with closing(Segments(copy)) as segments:
            add(segments, [2])
        assert numbers(copy) == [1, 2]


def test_what_is_torn_is_not_found_later(tmp_path: Path) -> None:
    """Frames that a power cut has left of a torn commit are not taken for those behind a later commit."""
    with killed(tmp_path) as segments:
        assert segments.append([[record(number)] for number in (1, 2, 3)])
    overwrite(tmp_path / "segment-1", SECTOR + HEAD_SIZE, b"torn")
    for count in (1, 2, 3):
        with killed(tmp_path) as segments:
            add(segments, [count])
        assert numbers(tmp_path) == list(range(1, count + 1))


@pytest.mark.parametrize("number", range(1, 30))
def test_damage_is_no_torn_write(tmp_path: Path, number: int) -> None:
    """A frame behind which others were written, or the mark of a stopped broker, is damaged: the start is refused."""
    make(tmp_path, 29)
    found = find(tmp_path)
    segment = next(each for each in found.segments if each.has(number))
    overwrite(segment.path, (1 + number - segment.first) * SECTOR + 2, b"damage")
    with pytest.raises(StorageError, match=r"frames? \d+.* damaged.*: the journal is damaged; `sluice store check`"):
        Segments(tmp_path)


def test_the_last_commit_of_a_killed_broker(tmp_path: Path) -> None:
    """The last commit of a broker that was killed may be torn: what is before it is there."""
    with killed(tmp_path) as segments:
        add(segments, range(1, 20))
    last = find(tmp_path).segments[-1]
    overwrite(last.path, last.end - SECTOR + 2, b"torn")
    assert numbers(tmp_path) == list(range(1, 19))


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_missing_file(tmp_path: Path, which: int) -> None:
    """A missing file is noticed, except the last one, which alone says that there was more."""
    make(tmp_path, 25)
    find(tmp_path).segments[which].path.unlink()
    if which == 2:
        assert numbers(tmp_path) == list(range(1, 19))
        return
    first = 1 + 9 * which
    with pytest.raises(StorageError, match=f"frames {first} to {first + 8} are missing or damaged: the journal is dam"):
        Segments(tmp_path)


def test_a_file_that_was_cut(tmp_path: Path) -> None:
    """A segment is as long as it was made: a shorter one was cut."""
    make(tmp_path, 1)
    os.truncate(tmp_path / "segment-1", 5 * SECTOR)
    with pytest.raises(StorageError, match="segment-1: it was cut: it has 2560 of 5120 bytes: the journal is damaged"):
        Segments(tmp_path)


def test_a_copy_of_a_file(tmp_path: Path) -> None:
    """A copy of a segment beside it is refused."""
    make(tmp_path, 1)
    shutil.copy(tmp_path / "segment-1", tmp_path / "segment-9")
    with pytest.raises(StorageError, match="it begins with frame 1, as segment-1 does"):
        Segments(tmp_path)


def test_foreign(tmp_path: Path) -> None:
    """A file of another program is refused, and not changed."""
    (tmp_path / "segment-1").write_bytes(b"something else" * 100)
    with pytest.raises(StorageError, match="segment-1: a file of another program, or its head is damaged"):
        Segments(tmp_path)
    assert (tmp_path / "segment-1").read_bytes() == b"something else" * 100


@pytest.mark.parametrize("name", ["journal.lock", "journal.readers", "segment.new", "segment-1"])
def test_a_directory_in_the_way(tmp_path: Path, name: str) -> None:
    """A directory that has the name of a file is refused, with what to do."""
    (tmp_path / name).mkdir()
    with pytest.raises(StorageError, match=f"{name}: this is not a file, and the journal needs one of this name: move"):
        Segments(tmp_path)


def test_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    """A file where the directory should be is refused, with what to do."""
    (tmp_path / "journal").touch()
    with pytest.raises(StorageError, match="it has to be a directory, and something else is in its way"):
        Segments(tmp_path / "journal")


# -- files that are used again


def test_files_are_used_again(tmp_path: Path) -> None:
    """Whatever is written and removed, a journal has few files, and only what was not removed is found."""
    with killed(tmp_path) as segments:
        for number in range(1, 200):
            add(segments, [number])
            if number > 3:
                assert segments.remove(number - 3)
    assert numbers(tmp_path) == [196, 197, 198, 199]  # the last commit was before the last removal
    assert len(names(tmp_path)) <= 2 + spares.COUNT


def test_what_is_removed_is_not_found(tmp_path: Path) -> None:
    """Frames that were removed before the last commit are not found again, though their file is still there."""
    with killed(tmp_path) as segments:
        add(segments, range(1, 6))
        segments.remove(3)
        add(segments, [6])
    assert numbers(tmp_path) == [4, 5, 6]


def test_all_is_removed(tmp_path: Path) -> None:
    """A journal of which all frames were removed goes on with the next number."""
    with closing(Segments(tmp_path)) as segments:
        add(segments, range(1, 30))
        segments.remove(29)
    assert numbers(tmp_path) == []
    with closing(Segments(tmp_path)) as segments:
        assert segments.next == 30
        add(segments, [30])
    assert numbers(tmp_path) == [30]


def test_not_while_somebody_reads(tmp_path: Path) -> None:
    """While a tool reads the journal no segment is removed or used again; afterwards it is."""
    with closing(Segments(tmp_path)) as segments:
        add(segments, range(1, 40))
        before = {path: path.read_bytes() for path in names(tmp_path)}
        with (tmp_path / READERS).open("rb") as reader:
            fcntl.flock(reader, fcntl.LOCK_SH)
            found = find(tmp_path)
            segments.remove(38)
            add(segments, range(40, 60))
            assert all(path.read_bytes()[:SECTOR] == content[:SECTOR] for path, content in before.items())
            assert all(each.content(number) for each in found.segments for number in range(each.first, each.next))
            during = len(names(tmp_path))
        segments.has_room()
        assert len(names(tmp_path)) < during


def test_a_head_of_zeros_is_free(tmp_path: Path) -> None:
    """Files that were made ahead are found, and used."""
    with closing(Segments(tmp_path)) as segments:
        segments.has_room()
    assert len(names(tmp_path)) == spares.COUNT
    with closing(Segments(tmp_path)) as segments:
        add(segments, range(1, 15))
    assert len(names(tmp_path)) == spares.COUNT


# -- calls that fail


def test_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without room for another file what is free is used first; then nothing is written, and later it is."""
    with closing(Segments(tmp_path)) as segments:
        add(segments, [1])
        segments.has_room()
        segments._spares.wait()
        assert segments.has_room()
        write = os.write
        monkeypatch.setattr(os, "write", _full)
        number = 1
        while segments.append([[record(number + 1)]]):
            number += 1
            segments.has_room()
            segments._spares.wait()
        assert number == 9 * (1 + spares.COUNT)
        assert not segments.has_room()
        monkeypatch.setattr(os, "write", write)
        add(segments, [number + 1])
        segments.has_room()
        segments._spares.wait()
        assert segments.has_room()
    assert numbers(tmp_path) == list(range(1, number + 2))


def _full(file: int, content: bytes) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_no_more_open_files(tmp_path: Path) -> None:
    """While clients have taken all descriptors of the process, nothing is written, nothing fails, and all is read."""
    with closing(Segments(tmp_path)) as segments:
        add(segments, range(1, 25))
        taken: list[int] = []
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 300), hard))
        try:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(os.open(tmp_path, os.O_RDONLY))
            number = 24
            while segments.append([[record(number + 1)]]):
                number += 1
            assert all(segments.read(each, HEAD_SIZE, 10) == record(each)[:10] for each in range(1, number + 1))
        finally:
            for file in taken:
                os.close(file)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        add(segments, [number + 1])
    assert numbers(tmp_path) == list(range(1, number + 2))


def test_no_room_in_the_midst_of_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of which only a part could be written is not there; it is written at the same place later."""
    frames = [[record(number)] for number in (2, 3)]
    with closing(Segments(tmp_path)) as segments:
        add(segments, [1])
        pwritev = os.pwritev

        def one_sector(file: int, parts: list[bytes], position: int, flags: int) -> int:
            if position == 3 * SECTOR:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return pwritev(file, [bytes(parts[0])[:SECTOR]], position, flags)

        monkeypatch.setattr(os, "pwritev", one_sector)
        assert not segments.append(frames)
        assert numbers(tmp_path) == [1]
        monkeypatch.setattr(os, "pwritev", pwritev)
        assert segments.append(frames)
    assert numbers(tmp_path) == [1, 2, 3]


def test_a_write_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that writes less than it is asked for is asked again."""
    pwritev = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda file, parts, *rest: pwritev(file, [bytes(parts[0])[:100]], *rest))
    make(tmp_path, 12)
    assert numbers(tmp_path) == list(range(1, 13))


def test_a_file_system_that_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not known whether RWF_DSYNC syncs, each commit is synced by a call of its own."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    monkeypatch.delattr(os, "RWF_DSYNC", raising=False)
    assert fsync.flag_of(tmp_path) == 0
    with closing(Segments(tmp_path)) as segments:
        add(segments, [1, 2, 3])
        assert len(synced) == 3


# -- reading


def test_parts_of_frames(tmp_path: Path) -> None:
    """Bytes of a frame can be read when it is on disk, and until it is removed."""
    with closing(Segments(tmp_path)) as segments:
        add(segments, range(1, 25))
        assert segments.read(7, HEAD_SIZE, 10) == record(7)[:10]
        assert segments.read(25, HEAD_SIZE, 10) == b""
        segments.remove(12)
        assert segments.read(7, HEAD_SIZE, 10) == b""
        assert segments.read(12, HEAD_SIZE, 10) == b""
        assert segments.read(13, HEAD_SIZE, 10) == record(13)[:10]


@given(st.lists(st.one_of(st.integers(1, 4), st.sampled_from(["stop", "kill", "remove"])), max_size=30))
def test_any_sequence(tmp_path_factory: pytest.TempPathFactory, steps: list[int | str]) -> None:
    """After any commits, removals, stops and kills the same frames are there as a list says."""
    directory = tmp_path_factory.mktemp("journal")
    segments = Segments(directory)
    said: list[tuple[int, bytes]] = []
    first = 1
    for step in steps:
        if isinstance(step, int):
            contents = [record(each, 8 * SECTOR if step == 1 else 100) for each in range(step)]
            said += list(enumerate(contents, segments.next))
            assert segments.append([[each] for each in contents])
        elif step == "remove":
            first = max(first, segments.next - 2)
            assert segments.remove(first - 1)
        else:
            segments.close() if step == "stop" else kill(segments)
            segments = Segments(directory)
        there = [(number, content[HEAD_SIZE:]) for number, content in segments.frames()]
        assert there == said[len(said) - len(there) :]
        assert segments.oldest <= first
        assert len(there) == segments.next - segments.oldest
    segments.close()
