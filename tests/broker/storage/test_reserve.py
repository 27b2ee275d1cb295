"""FC-29: the room that is kept for what frees space."""

import errno
import os
from pathlib import Path

import pytest

from broker.storage import reserve
from broker.storage.reserve import NAME, Reserve, has_room

LOG = 20_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small one."""
    monkeypatch.setattr(reserve, "BATCHES", 30_000)


def fail(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let the disk refuse to keep room, for this reason."""

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", refuse)


def test_room_is_kept_and_given(tmp_path: Path) -> None:
    """The file takes the room until it is needed, once; an earlier one is taken over."""
    kept = Reserve(tmp_path, LOG)
    assert not kept.give()
    assert kept.hold()
    assert kept.hold()
    assert (tmp_path / NAME).stat().st_blocks * 512 >= kept.size
    assert Reserve(tmp_path, LOG).hold()
    assert kept.give()
    assert list(tmp_path.iterdir()) == []
    assert not kept.give()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """A disk or a quota without room for it is no error, and leaves no half of it behind."""
    fail(monkeypatch, number)
    assert not Reserve(tmp_path, LOG).hold()
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told from one that is full."""
    fail(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        Reserve(tmp_path, LOG).hold()


def test_whether_there_is_room(tmp_path: Path) -> None:
    """It is tried, and leaves nothing behind; a directory that is gone is an error."""
    assert has_room(tmp_path, 4_096)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        has_room(tmp_path / "gone", 1)
