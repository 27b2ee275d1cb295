"""A last segment that is not in its place any more is noticed with the next commit (FC-29)."""

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from broker.storage import spares
from broker.storage.errors import StorageError
from broker.storage.found import find
from broker.storage.frame import SECTOR
from broker.storage.segments import Segments
from tests.support.broker.segmented import add


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine sectors for frames in each segment."""
    monkeypatch.setattr(spares, "SEGMENT", 10 * SECTOR)


def _remove(file: Path) -> None:
    file.unlink()


def _move(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))


def _replace(file: Path) -> None:
    shutil.copy(file, file.with_name("copy"))
    file.with_name("copy").rename(file)


def _move_directory(file: Path) -> None:
    file.parent.rename(file.parent.with_name("elsewhere"))


@pytest.fixture(params=["/proc", "no /proc"])
def looked_at(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without what Linux tells of open files."""
    if request.param == "no /proc":
        monkeypatch.setattr(Path, "is_symlink", lambda _path: False)


@pytest.mark.usefixtures("looked_at")
@pytest.mark.parametrize("change", [_remove, _move, _replace, _move_directory])
def test_a_segment_that_is_gone(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """FC-29: a last segment that has been removed, moved or replaced, by itself or with its directory, is noticed."""
    with closing(Segments(tmp_path / "journal")) as segments:
        add(segments, range(1, 13))
        segments.check_place()
        change(find(tmp_path / "journal").segments[-1].path)
        with pytest.raises(StorageError, match="it has been removed, moved or replaced"):
            segments.check_place()


@pytest.mark.usefixtures("looked_at")
def test_a_place_that_cannot_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-29: a disk that answers with an error when the segment is looked for has failed."""
    segments = Segments(tmp_path)
    assert segments.append([[b"record"]])

    def fails(_path: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", fails)
        patch.setattr(os, "readlink", fails)
        with pytest.raises(StorageError, match="Input/output error"):
            segments.check_place()
    segments.close()


def test_commits_leave_the_times_of_the_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing asks for the status of the file between two commits: then each would write the inode too."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("the system does not tell where open files are")
    with closing(Segments(tmp_path)) as segments:
        add(segments, [1])
        with monkeypatch.context() as patch:
            for function in ("stat", "fstat", "lstat"):
                patch.setattr(os, function, lambda *_args, **_options: pytest.fail("asked for the status of a file"))
            add(segments, [2])
            segments.check_place()
