"""How `sluice store` opens a journal: what it refuses, that it changes nothing, and what a failed copy leaves."""

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

import pytest

from broker.storage.found import names
from broker.storage.frame import HEAD_SIZE, SECTOR
from broker.storage.sqlite_journal import NAME
from tests.broker.cli.test_store import store
from tests.support.broker.segmented import add, killed, make, overwrite

pytestmark = pytest.mark.once

COMMANDS: Final = ("stats", "check", "backup", "salvage")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """The directory of a journal whose broker was stopped."""
    return make(tmp_path / "journal", 20)


def run(command: str, directory: Path, copy: Path) -> tuple[int, str]:
    """Run a command; those that copy do so to a new directory, which is removed."""
    found = store(command, directory, *([copy] if command in ("backup", "salvage") else []))
    shutil.rmtree(copy, ignore_errors=True)
    return found


def files(directory: Path) -> dict[str, bytes]:
    """All that is in a directory."""
    return {each.name: each.read_bytes() for each in directory.iterdir()}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_changes_a_file(journal: Path, tmp_path: Path, command: str) -> None:
    """A command leaves the files of a journal as they are, also where its broker was killed, or has never written."""
    with killed(tmp_path / "killed") as segments:
        add(segments, range(1, 4))
    make(tmp_path / "empty", 0)
    for directory in (journal, tmp_path / "killed"):
        before = files(directory)
        assert run(command, directory, tmp_path / "copy")[0] == 0
        assert files(directory) == before
    before = files(tmp_path / "empty")
    run(command, tmp_path / "empty", tmp_path / "copy")
    assert files(tmp_path / "empty") == before


@pytest.mark.parametrize("command", COMMANDS)
def test_foreign(journal: Path, tmp_path: Path, command: str) -> None:
    """What is not a journal of this broker is refused, and `salvage` is not advised."""
    overwrite(journal / "segment-1", 0, b"another program" * 40)
    status, said = run(command, journal, tmp_path / "copy")
    assert status == 1
    assert "segment-1: a file of another program, or its head is damaged: it is no segment of a journal" in said
    assert "salvage" not in said.replace(str(tmp_path), "")


@pytest.mark.parametrize("command", COMMANDS)
def test_of_an_older_broker(tmp_path: Path, command: str) -> None:
    """A journal that is not converted yet is named as such."""
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / NAME).touch()
    status, said = run(command, tmp_path / "journal", tmp_path / "copy")
    assert status == 1
    assert "the journal of an older broker: start this one with it, which converts it" in said


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_who_may_only_read(journal: Path) -> None:
    """Who may only read can check a journal."""
    with tempfile.TemporaryDirectory() as folder:
        for each in (Path(folder), Path(shutil.copytree(journal, f"{folder}/journal"))):
            each.chmod(0o755)
            for file in each.iterdir():
                if file.is_file():
                    file.chmod(0o644)
        os.seteuid(65534)
        try:
            found = store("check", Path(folder) / "journal")
        finally:
            os.seteuid(0)
    assert found == (0, "20 frames, no damage found\n")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_who_may_not_read(journal: Path) -> None:
    """Who may not read a file is told which."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        copy = Path(shutil.copytree(journal, f"{folder}/journal"))
        copy.chmod(0o755)
        os.seteuid(65534)
        try:
            status, said = store("check", copy)
        finally:
            os.seteuid(0)
    assert status == 1
    assert f"{copy}/journal.readers: Permission denied" in said


@pytest.mark.parametrize("command", ["backup", "salvage"])
def test_a_disk_that_is_full(journal: Path, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that does not fit is named as what has failed, and nothing of it is left."""

    def full(file: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    status, said = store(command, journal, tmp_path / "copy")
    assert status == 1
    assert f"sluice: {tmp_path / 'copy'}: " in said
    assert "there is no room: there is no copy" in said
    assert not (tmp_path / "copy").exists()


def test_a_damaged_journal_has_no_backup(journal: Path, tmp_path: Path) -> None:
    """A backup of a damaged journal would look whole: there is none."""
    overwrite(journal / "segment-1", 5 * SECTOR + HEAD_SIZE, b"damage")
    status, said = store("backup", journal, tmp_path / "copy")
    assert status == 1
    assert "frame 5: the checksum is wrong: the journal is damaged; `sluice store check`" in said
    assert not (tmp_path / "copy").exists()


def test_a_copy_of_nothing(journal: Path, tmp_path: Path) -> None:
    """Where no frame can be read there is no copy, which would look like an empty journal."""
    for path in names(journal):
        overwrite(path, SECTOR, bytes(100_000))
    overwrite(journal / "segment-1", 10, bytes(300))
    status, said = store("salvage", journal, tmp_path / "copy")
    assert status == 1
    assert "has no frame that can be read: there is no copy" in said
    assert not (tmp_path / "copy").exists()
