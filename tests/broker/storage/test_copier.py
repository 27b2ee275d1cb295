"""The write-ahead log is copied to the database while commits go on (FC-27)."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.storage import database
from broker.storage.copier import Copier
from broker.storage.database import NAME, Database
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


def test_copying_fails(tmp_path: Path) -> None:
    """What has failed in the thread is raised where the log is written, once; or when it is closed."""

    def unusable() -> sqlite3.Connection:
        raise sqlite3.OperationalError("disk I/O error")

    copier = Copier(unusable)
    assert not copier.has_ended()
    copier.begin()
    assert copier.is_copying()
    with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):
        wait_until(copier.has_ended, "it has ended")
    assert not copier.is_copying()
    copier.begin()
    with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):
        copier.close()
