"""The directory of each run: its lock, what is stale, and what is nobody's business."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from broker.addresses.paging import directory
from broker.addresses.paging.directory import Removed, RunDirectory, remove_stale
from broker.addresses.paging.queue import PageQueue
from broker.addresses.paging.record import Draft
from protocol.publish import Publish
from tests.support.waiting import wait_until

pytestmark = pytest.mark.once

A_RUN = """
import sys
from pathlib import Path
from broker.addresses.paging.directory import RunDirectory
from broker.addresses.paging.record import Draft
from protocol.publish import Publish

run = RunDirectory(Path(sys.argv[1]), "other")
run.queue().append([Draft(Publish(b"t", b"x"), "c").record()] * 5)
print(run.path.name, flush=True)
sys.stdin.read()
"""
"""Another process that has five pages until its input ends or it is killed."""

RECORD = Draft(Publish(b"t", b"x"), "c").record()


def a_run(parent: Path) -> subprocess.Popen[str]:
    """Another process with five pages in `parent`."""
    command = [sys.executable, "-c", A_RUN, str(parent)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("other-")
    return process


def figures(removed: Removed) -> tuple[int, int, int, int]:
    """What has been removed, and how often that failed."""
    return removed.directories, removed.messages, removed.bytes, len(removed.problems)


def test_made_and_removed(tmp_path: Path) -> None:
    """FC-26: a run has a directory that only its owner may look into; it is gone with all pages when the run ends."""
    parent = tmp_path / "not" / "there"
    run = RunDirectory(parent, "node-1")
    assert run.path.parent == parent
    assert run.path.name.startswith("node-1-")
    assert run.path.stat().st_mode & 0o777 == 0o700
    queues = [run.queue() for _ in range(3)]
    for queue in queues:
        assert queue.append([RECORD] * 10) == (10, None)
    assert len(list(run.path.glob("*.page"))) == 3
    assert figures(run.remove())[3] == 0
    assert list(parent.iterdir()) == []


def test_a_run_that_is_killed_is_stale(tmp_path: Path) -> None:
    """FC-26: what a killed broker leaves behind is removed and counted; what a living one has is not touched."""
    killed, living = a_run(tmp_path), a_run(tmp_path)
    try:
        own = RunDirectory(tmp_path, "node")
        own.queue().append([RECORD])
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        assert figures(remove_stale(tmp_path)) == (1, 5, 5 * len(RECORD), 0)
        assert figures(remove_stale(tmp_path)) == (0, 0, 0, 0)
        left = {path.name.split("-")[0]: len(list(path.glob("*.page"))) for path in tmp_path.iterdir()}
        assert left == {"other": 1, "node": 1}
    finally:
        for process in (killed, living):
            process.kill()
            process.communicate()
    wait_until(lambda: remove_stale(tmp_path).directories == 1, "the other one's directory stale")
    own.remove()
    assert list(tmp_path.iterdir()) == []


def stale(parent: Path, number: int = 1) -> Path:
    """The directory of a run that ended without removing it."""
    path = parent / f"node-{number:016x}.pages"
    path.mkdir()
    (path / "lock").touch()
    (path / "1-1.page").write_bytes(RECORD * 2 + RECORD[:-1])
    return path


def test_only_whole_messages_count(tmp_path: Path) -> None:
    """FC-26: a record that was being written when its broker died is not a message."""
    stale(tmp_path)
    assert figures(remove_stale(tmp_path)) == (1, 2, 3 * len(RECORD) - 1, 0)


def test_stale_messages_are_counted(tmp_path: Path) -> None:
    """FC-26: messages are counted over all files of all addresses, those that had been read already not."""
    path = stale(tmp_path)
    for name in ("2", "33"):
        queue = PageQueue(path, name, 5 * len(RECORD))
        queue.append([RECORD] * 23)
        queue.take(7 * len(RECORD))
        queue.take(7 * len(RECORD))
    removed = remove_stale(tmp_path)
    assert (removed.directories, removed.messages) == (1, 2 + 2 * 13)


def test_foreign_files_stay(tmp_path: Path) -> None:
    """FC-26: what no run has made stays where it is, in the directory and inside a stale run's."""
    foreign = [tmp_path / "file", tmp_path / "node-0123456789abcdef.pages", tmp_path / "1-1.page"]
    for path in foreign:
        path.write_text("mine")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "lock").touch()
    (folder / "1-1.page").touch()
    no_lock = tmp_path / "node-00000000000000aa.pages"
    no_lock.mkdir()
    (no_lock / "1-1.page").touch()
    (tmp_path / "link-00000000000000bb.pages").symlink_to(folder)
    before = sorted(tmp_path.rglob("*"))
    assert figures(remove_stale(tmp_path)) == (0, 0, 0, 0)
    assert sorted(tmp_path.rglob("*")) == before
    visited = stale(tmp_path)
    (visited / "notes.txt").write_text("mine")
    removed = remove_stale(tmp_path)
    assert figures(removed)[:2] == (0, 2)
    assert "not empty" in removed.problems[0]
    assert list(visited.iterdir()) == [visited / "notes.txt"]
    assert figures(remove_stale(tmp_path)) == (0, 0, 0, 0)


def test_a_start_that_did_not_come_far(tmp_path: Path) -> None:
    """A directory without a lock and without anything else is what a killed start leaves: it goes, too."""
    (tmp_path / "node-00000000000000aa.pages").mkdir()
    remove_stale(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_read_is_removed(tmp_path: Path) -> None:
    """A page that is no file is said to be there still; one stale run in the way does not save the others."""
    first, second = stale(tmp_path, 1), stale(tmp_path, 2)
    (first / "2-1.page").mkdir()
    removed = remove_stale(tmp_path)
    assert (removed.directories, len(removed.problems)) == (1, 1)
    assert str(first) in removed.problems[0]
    assert not second.exists()


def test_nothing_there(tmp_path: Path) -> None:
    """A directory that cannot be looked into is a problem in words."""
    removed = remove_stale(tmp_path / "gone")
    assert figures(removed) == (0, 0, 0, 1)
    assert str(tmp_path / "gone") in removed.problems[0]


def test_a_start_among_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-26: a broker whose new directory another start takes for a stale one just makes another.

    The other start comes between the making and the locking here, which no test could time.
    """
    lock = directory._lock
    interrupted: list[Path] = []

    def interrupted_lock(path: Path, create: int) -> int:
        if create and not interrupted:
            interrupted.append(path)
            remove_stale(tmp_path)
        return lock(path, create)

    monkeypatch.setattr(directory, "_lock", interrupted_lock)
    run = RunDirectory(tmp_path, "node")
    assert [run.path] == list(tmp_path.iterdir())
    assert run.path != interrupted[0]
    assert run.queue().append([RECORD]) == (1, None)


def test_a_lock_that_is_removed_before_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """FC-26: the same where the other start comes between the opening and the locking of the lock."""
    flock = fcntl.flock
    removed: list[Path] = []

    def late_flock(file: int, operation: int) -> None:
        if not removed:
            removed.extend(tmp_path.iterdir())
            (removed[0] / "lock").unlink()
            removed[0].rmdir()
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", late_flock)
    run = RunDirectory(tmp_path, "node")
    assert [run.path] == list(tmp_path.iterdir())
    assert run.path != removed[0]


def test_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without locks is no place for pages: nobody could tell whose they are.

    There is none at hand, so the system call is a stand-in.
    """

    def refuse(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="cannot be locked: No locks available"):
        RunDirectory(tmp_path, "node")


@pytest.mark.parametrize("where", ["file", "file/below"])
def test_impossible(tmp_path: Path, where: str) -> None:
    """A directory that cannot be made is an error that names it."""
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=str(tmp_path / where)):
        RunDirectory(tmp_path / where, "node")
