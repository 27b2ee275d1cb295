"""How `sluice store` opens a journal: what it refuses, that it changes nothing, and what a failed copy leaves."""

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from broker.storage import frame, records
from broker.storage.database import NAME, OLDEST, VERSION, Database
from tests.broker.cli.test_store import store

pytestmark = pytest.mark.once

READS: Final = f"this broker reads versions {OLDEST} to {VERSION}"
COMMANDS: Final = ("stats", "check", "backup", "salvage")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """The directory of a journal whose broker was stopped."""
    directory = tmp_path / "journal"
    with closing(Database(directory)) as database:
        for number in range(1, 21):
            database.append(number, frame.encode(number, [records.cleared(b"t" * 5000)]))
    return directory


@pytest.fixture
def killed(journal: Path, tmp_path: Path) -> Path:
    """The same journal, of a broker that was killed: with its write-ahead log."""
    with closing(Database(journal)) as database:
        database.append(21, frame.encode(21, [records.cleared(b"t")]))
        return Path(shutil.copytree(journal, tmp_path / "killed"))


def run(command: str, directory: Path, copy: Path) -> tuple[int, str]:
    """Run a command; those that copy do so to a new directory, which is removed."""
    found = store(command, directory, *([copy] if command in ("backup", "salvage") else []))
    shutil.rmtree(copy, ignore_errors=True)
    return found


def files(directory: Path) -> dict[str, bytes]:
    """All that is in a directory, except what SQLite makes anew from the rest."""
    return {each.name: each.read_bytes() for each in directory.iterdir() if not each.name.endswith("-shm")}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_changes_a_file(journal: Path, killed: Path, tmp_path: Path, command: str) -> None:
    """A command leaves the files of a journal as they are, also where its broker was killed."""
    for directory in (journal, killed):
        before = files(directory)
        assert run(command, directory, tmp_path / "copy")[0] == 0
        assert files(directory) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_file_with_a_log(killed: Path, tmp_path: Path, command: str) -> None:
    """An empty file is refused before SQLite removes its write-ahead log, which has all that is left."""
    os.truncate(killed / NAME, 0)
    before = files(killed)
    status, said = run(command, killed, tmp_path / "copy")
    assert status == 1
    assert "the file is empty; " in said
    assert f"{NAME}-wal has what is left: keep both" in said
    assert files(killed) == before


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("pragma user_version = 99", f"version 99; {READS}: start a newer broker with it"),
        ("pragma user_version = 1", f"version 1; {READS}: start an older broker with it"),
        ("pragma application_id = 1", "a database of another program: this is not the directory of a journal"),
    ],
)
def test_foreign(journal: Path, tmp_path: Path, command: str, statement: str, expected: str) -> None:
    """What is not a journal of this version is refused, and `salvage` is not advised."""
    with closing(sqlite3.connect(journal / NAME)) as database:
        database.execute(statement)
    status, said = run(command, journal, tmp_path / "copy")
    assert status == 1
    assert expected in said
    assert "salvage" not in said.replace(str(tmp_path), "")


def test_another_table(journal: Path, tmp_path: Path) -> None:
    """A journal with another table is damaged: only `salvage` copies it, without the table."""
    with closing(sqlite3.connect(journal / NAME)) as database:
        database.execute("create table other (number)")
    for command in COMMANDS:
        status, said = store(command, journal, *([tmp_path / command] if command in ("backup", "salvage") else []))
        assert status == 1
        assert "its tables are not those of a journal" in said
    assert not (tmp_path / "backup").exists()
    assert store("check", tmp_path / "salvage") == (0, "20 frames, no damage found\n")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_who_may_only_read(journal: Path, killed: Path) -> None:
    """Who may only read can check a journal whose broker was stopped; for others it is said what is missing."""
    (killed / f"{NAME}-shm").unlink()
    with tempfile.TemporaryDirectory() as folder:
        for each in (
            Path(folder),
            *[Path(shutil.copytree(each, f"{folder}/{each.name}")) for each in (journal, killed)],
        ):
            each.chmod(0o755)
            for file in each.glob("journal.*"):
                file.chmod(0o644)
        os.seteuid(65534)
        try:
            found = store("check", Path(folder) / "journal")
            status, said = store("check", Path(folder) / "killed")
        finally:
            os.seteuid(0)
    assert found == (0, "21 frames, no damage found\n")
    assert status == 1
    assert f"and to write there while a broker uses it or has left {NAME}-wal" in said


@pytest.mark.parametrize("command", ["backup", "salvage"])
def test_a_disk_that_is_full(journal: Path, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that does not fit is named as what has failed, and nothing of it is left."""
    connect = sqlite3.connect

    def small(database: str | Path, *arguments: object, **options: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(database, *arguments, **options)  # type: ignore[call-overload]
        connection.execute("pragma max_page_count = 5")
        return connection

    monkeypatch.setattr(sqlite3, "connect", small)
    status, said = store(command, journal, tmp_path / "copy")
    assert status == 1
    assert f"sluice: {tmp_path / 'copy'}: database or disk is full: there is no copy" in said
    assert not (tmp_path / "copy").exists()


def test_a_copy_of_nothing(journal: Path, tmp_path: Path) -> None:
    """Where no frame can be read there is no copy, which would look like an empty journal."""
    with (journal / NAME).open("r+b") as file:
        file.seek(16 * 1024)
        file.write(b"\xff" * 100)
    status, said = store("salvage", journal, tmp_path / "copy")
    assert status == 1
    assert "it has no frame that can be read: there is no copy" in said
    assert not (tmp_path / "copy").exists()


def test_a_broker_that_begins_meanwhile(journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read while a broker begins to use the journal is not trusted."""
    brokers: list[Database] = []

    def begin(_: sqlite3.Connection) -> list[str]:
        brokers.append(Database(journal))
        return []

    monkeypatch.setattr("broker.cli.store.problems", begin)
    status, said = store("salvage", journal, tmp_path / "copy")
    brokers[0].close()
    assert status == 1
    assert "a broker has begun to use it meanwhile, so that this may be wrong: try again" in said
    assert not (tmp_path / "copy").exists()


def test_no_database(journal: Path, tmp_path: Path) -> None:
    """Of a file that SQLite cannot open at all it is said that no frame can be read."""
    (journal / NAME).write_bytes(b"hello world" * 5000)
    status, said = store("salvage", journal, tmp_path / "copy")
    assert status == 1
    assert "file is not a database: SQLite cannot open it, so no frame can be read; restore a backup" in said


def test_damaged_pages(journal: Path, tmp_path: Path) -> None:
    """`stats` of a journal with a bad page says which commands help."""
    with (journal / NAME).open("r+b") as file:
        file.seek(16 * 1024)
        file.write(b"\xff" * 100)
    status, said = store("stats", journal)
    assert status == 1
    assert "malformed: the journal is damaged; `sluice store check` lists all damage; restore a backup, or" in said
