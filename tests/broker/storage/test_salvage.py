"""Damaged journals: which frames can be read, and which are listed as lost."""

import errno
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage import spares
from broker.storage.errors import StorageError
from broker.storage.found import find
from broker.storage.frame import HEAD_SIZE, SECTOR
from broker.storage.salvage import pieces
from broker.storage.segments import Segments
from tests.support.broker.segmented import add, killed, make, overwrite, record

FRAMES = 40
IN_EACH = 9


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine frames fit into each segment."""
    monkeypatch.setattr(spares, "SEGMENT", (IN_EACH + 1) * SECTOR)


def read(directory: Path) -> tuple[list[str], list[str], list[int]]:
    """What is wrong with the files, what is said to be lost, and the numbers of the frames that are found."""
    found = find(directory)
    there = list(pieces(found))
    whole = [each for each in there if not each.damage]
    assert all(each.content[HEAD_SIZE:] == record(each.first) for each in whole)
    lost = [f"{each}: {each.damage}" for each in there if each.damage]
    return [each.what for each in found.damage], lost, [each.first for each in whole]


def place_of(directory: Path, number: int) -> tuple[Path, int]:
    """The file of a frame, and where it is in it."""
    segment = find(directory).segments[(number - 1) // IN_EACH]
    return segment.path, SECTOR * (1 + (number - 1) % IN_EACH)


def test_whole(tmp_path: Path) -> None:
    """Of a journal without damage all frames are found, and nothing is said; so it is of one without frames."""
    make(tmp_path / "whole", FRAMES)
    assert read(tmp_path / "whole") == ([], [], list(range(1, FRAMES + 1)))
    make(tmp_path / "empty", 0)
    assert read(tmp_path / "empty") == ([], [], [])


@pytest.mark.parametrize("number", [1, 9, 10, 27, 39, 40])
def test_damaged_records(tmp_path: Path, number: int) -> None:
    """A frame whose records are damaged is listed, and all others are found."""
    path, at = place_of(make(tmp_path, FRAMES), number)
    overwrite(path, at + HEAD_SIZE + 3, b"damage")
    assert read(tmp_path)[1:] == (
        [f"frame {number}: the checksum is wrong"],
        [each for each in range(1, FRAMES + 1) if each != number],
    )


@pytest.mark.parametrize("number", [1, 9, 10, 27, 39, 40])
def test_damaged_heads(tmp_path: Path, number: int) -> None:
    """Frames whose heads are damaged are listed, and what follows them in the same file is found."""
    path, at = place_of(make(tmp_path, FRAMES), number)
    overwrite(path, at + 3, b"damage")
    said, lost, found = read(tmp_path)
    assert len(said) == 1
    assert lost == [f"frame {number}: missing or damaged"]
    assert found == [each for each in range(1, FRAMES + 1) if each != number]


def test_a_damaged_file(tmp_path: Path) -> None:
    """All frames of a file whose head is damaged in both places are listed together."""
    path, _ = place_of(make(tmp_path, FRAMES), 12)
    overwrite(path, 10, bytes(300))
    said, lost, found = read(tmp_path)
    assert said == ["its head is damaged", "frames 10 to 18 are missing or damaged"]
    assert lost == ["frames 10 to 18: missing or damaged"]
    assert len(found) == FRAMES - IN_EACH


def test_removed_frames_are_not_lost(tmp_path: Path) -> None:
    """Frames that were removed are not listed, whatever is damaged."""
    with closing(Segments(tmp_path)) as segments:
        add(segments, range(1, FRAMES + 1))
        segments.remove(20)
    last = find(tmp_path).segments[-1]
    overwrite(last.path, SECTOR + 3, b"damage")
    assert read(tmp_path)[1:] == (["frame 37: missing or damaged"], [*range(21, 37), 38, 39, 40])


def test_a_torn_commit_is_not_lost(tmp_path: Path) -> None:
    """What a power cut has torn was never acknowledged: no frame of its commit is copied, and none is called lost."""
    with killed(tmp_path) as segments:
        add(segments, [1])
        assert segments.append([[record(number)] for number in (2, 3, 4)])
    overwrite(tmp_path / "segment-1", 3 * SECTOR + HEAD_SIZE, b"torn")
    assert read(tmp_path) == ([], [], [1])


BLOCK = 2 * SECTOR
"""A disk that cannot read a sector gives nothing of what is around it."""


def break_disk(monkeypatch: pytest.MonkeyPatch, bad: Path, at: int) -> None:
    """The disk does not give the block with this byte of the file `bad`."""
    pread = os.pread
    start = at // BLOCK * BLOCK

    def broken(file: int, size: int, position: int) -> bytes:
        if os.path.samestat(os.fstat(file), bad.stat()) and position < start + BLOCK and position + size > start:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(file, size, position)

    monkeypatch.setattr(os, "pread", broken)


@pytest.mark.parametrize("number", [2, 4, 9, 12, 17, 33, 39, 40])
def test_a_block_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """A sector that the disk does not give costs the frames in it; a start is refused, and says where it is."""
    path, at = place_of(make(tmp_path, FRAMES), number)
    block = at // BLOCK
    gone = [each for each in range(1, FRAMES + 1) if place_of(tmp_path, each)[1] // BLOCK == block]
    gone = [each for each in gone if (each - 1) // IN_EACH == (number - 1) // IN_EACH]
    break_disk(monkeypatch, path, at)
    said, lost, found = read(tmp_path)
    assert found == [each for each in range(1, FRAMES + 1) if each not in gone]
    assert any("Input/output error" in each for each in said)
    assert len(lost) == (number < FRAMES)  # how many there were behind the last one that can be read is not known
    with pytest.raises(StorageError, match=rf"{path.name}: .*Input/output error: the journal is damaged; .*salvage"):
        Segments(tmp_path)


@pytest.mark.parametrize("kind", ["directory", "pipe", "link", "forbidden"])
def test_a_segment_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """What has the name of a segment, but is no file that can be read, costs its frames only."""
    path, _ = place_of(make(tmp_path, FRAMES), 12)
    if kind == "forbidden":
        opened = Path.open

        def forbidden(self: Path, *arguments: Any, **options: Any) -> Any:
            if self == path:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return opened(self, *arguments, **options)

        monkeypatch.setattr(Path, "open", forbidden)  # root may read everything
    else:
        path.unlink()
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("none")
    said, lost, found = read(tmp_path)
    reasons = {"link": "it is a link to nothing", "forbidden": "it cannot be read: Permission denied"}
    assert said[0] == reasons.get(kind, "it is not a file")
    assert lost == ["frames 10 to 18: missing or damaged"]
    assert len(found) == FRAMES - IN_EACH
    with pytest.raises(StorageError, match=f"{path.name}: "):
        Segments(tmp_path)


@given(st.data())
def test_any_damage(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever is damaged, each frame is found or listed, and no other."""
    directory = make(tmp_path_factory.mktemp("journal"), FRAMES)
    files = [each.path for each in find(directory).segments]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(SECTOR, (IN_EACH + 1) * SECTOR - 1))
        overwrite(data.draw(st.sampled_from(files)), at, data.draw(st.binary(min_size=1, max_size=600)))
    there = list(pieces(find(directory)))
    assert [number for each in there for number in range(each.first, each.last + 1)] == list(range(1, FRAMES + 1))
