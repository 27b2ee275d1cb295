"""The directory of a journal: one broker uses it, and no other user may write to it."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from broker.storage.directory import LOCK
from broker.storage.errors import StorageError
from broker.storage.segments import Segments

NOBODY = 65_534


def test_the_lock_file_is_removed(tmp_path: Path) -> None:
    """A second broker is refused also if `journal.lock` has been removed, and so is one before that was locked so."""
    with closing(Segments(tmp_path)):
        (tmp_path / LOCK).unlink()
        with pytest.raises(StorageError, match="another broker uses it: stop that one"):
            Segments(tmp_path)
    Segments(tmp_path).close()


def test_only_the_lock_file_is_locked(tmp_path: Path) -> None:
    """A broker whose file system locks no directories, or of an older version, keeps others away by the file."""
    with closing(Segments(tmp_path)) as segments:
        os.close(segments._locks.pop(0))
        with pytest.raises(StorageError, match="another broker uses it"):
            Segments(tmp_path)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702, 0o757])
def test_others_may_write(tmp_path: Path, mode: int) -> None:
    """A directory in which other users can make files is refused, with its mode and what to do, and not touched."""
    directory = tmp_path / "journal"
    directory.mkdir()
    directory.chmod(mode)
    with pytest.raises(StorageError, match=rf"its mode is {mode:04o}, .*`chmod go-w {directory}`"):
        Segments(directory)
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755, 0o2770])
def test_others_may_not_write(tmp_path: Path, mode: int) -> None:
    """A directory that others can only read is used, and one that a group of the broker's own can write to."""
    tmp_path.chmod(mode)
    Segments(tmp_path).close()


def test_another_user_owns_it(tmp_path: Path) -> None:
    """A directory of another user is refused, with what to do, and not touched: that user can replace segments."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory away")
    os.chown(tmp_path, NOBODY, -1)
    with pytest.raises(StorageError, match=rf"it belongs to user {NOBODY}, .*`chown -R 0 {tmp_path}`"):
        Segments(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_group_of_strangers_may_write(tmp_path: Path) -> None:
    """A directory that a group can write to of which the broker is no member is refused."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory to a foreign group")
    os.chown(tmp_path, -1, NOBODY)
    tmp_path.chmod(0o770)
    with pytest.raises(StorageError, match="other users can replace the journal"):
        Segments(tmp_path)
