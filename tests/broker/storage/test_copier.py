"""The write-ahead log is copied to the database while commits go on (FC-27)."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.storage import database
from broker.storage.copier import Copier
from broker.storage.database import NAME, Database, StorageError
from tests.support.waiting import wait_until

BODY = bytes(2_000)


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """One whose log is copied after a few frames."""
    monkeypatch.setattr(database, "CHECKPOINT", 50_000)
    opened = Database(tmp_path)
    yield opened
    opened.close()


def test_the_log_stays_short(journal: Database) -> None:
    """However much is written, it is copied, the log begins anew, and every frame is there."""
    log = journal.path.with_name(f"{NAME}-wal")
    for number in range(1, 1_000):
        journal.append(number, BODY)
    assert journal.path.stat().st_size > 1_000_000
    assert log.stat().st_size < 1_000_000
    assert [number for number, _ in journal.frames()] == list(range(1, 1_000))


def unusable() -> sqlite3.Connection:
    """A file that cannot be opened."""
    raise sqlite3.OperationalError("disk I/O error")


def test_copying_fails() -> None:
    """What has failed in the thread is raised where the log is written, once; or when it is closed."""
    copier = Copier(unusable, lambda _: False)
    assert not copier.has_ended()
    copier.begin()
    assert copier.is_copying()
    with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):
        wait_until(copier.has_ended, "it has ended")
    assert not copier.is_copying()
    copier.begin()
    with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):
        copier.close()


def test_copying_lacks_room() -> None:
    """FC-29: what was full when it copied has not failed, also if there is room again when that is looked at."""
    full = [True]
    copier = Copier(unusable, lambda _: full.pop())
    copier.begin()
    wait_until(lambda: not full, "it has been asked whether there is room")
    wait_until(copier.has_ended, "it has ended")
    copier.close()


def test_whether_there_is_room_is_not_known() -> None:
    """An error of the disk while that is found out is raised too."""

    def unknown(error: sqlite3.Error) -> bool:
        raise StorageError(str(error))

    copier = Copier(unusable, unknown)
    copier.begin()
    with pytest.raises(StorageError, match="disk I/O error"):
        copier.close()
