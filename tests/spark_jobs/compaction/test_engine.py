"""Compaction by Spark from any storage, for valid and invalid files."""

import shutil
from pathlib import Path

import pytest

from spark_jobs.compaction import engine
from spark_jobs.storage import opening
from spark_jobs.store.schema import GROUPS
from spark_jobs.store.store import open_store
from tests.support.spark.compacting import HOUR, Run, minutes, rows_of
from tests.support.spark.metrics_files import group_row, write_file

pytestmark = pytest.mark.spark


def test_metrics_of_every_storage(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Object stores and local folders give the same rows and the same findings."""
    raw = tmp_path / "raw metrics"
    write_file(raw / HOUR / "a b%20.parquet", minutes(1, 2))
    shutil.copy(raw / HOUR / "a b%20.parquet", raw / HOUR / "copy.parquet")
    (raw / HOUR / "cut.parquet").write_bytes(b"PAR1" + b"x" * 50)
    (tmp_path / "store").mkdir()  # deltalake opens a folder on this machine only if it is there
    with monkeypatch.context() as patch:
        patch.setattr(opening, "is_local", lambda uri: False)
        patch.setattr(engine, "SMALL", 0)  # files of few rows are read each time, as large ones are
        done = run(f"file://{tmp_path}/raw metrics", f"file://{tmp_path}/store")
    assert (done.rows, done.duplicates, done.skipped) == (2, 2, 1)
    for base in (f"file://{tmp_path}", str(tmp_path)):
        found = run(f"{base}/raw metrics", f"{base}/store")
        assert (found.hours, found.files, found.skipped) == (0, 2, 1)
        assert rows_of(open_store(f"{base}/store"))[0]["rows"] == 2


def test_a_file_with_rows_of_groups_only(run: Run, tmp_path: Path) -> None:
    """What a group drops while nobody is active is taken in, alone and behind rows of sessions of the hour."""
    name = "$share/g/jobs"
    lost = {"dropped_qos1": 3, "dropped_aged_qos1": 3}
    write_file(tmp_path / "raw" / HOUR / "a.parquet", [group_row(name, 60, 60, offered_qos1=3, **lost)])
    run(tmp_path / "raw", tmp_path / "store")
    write_file(tmp_path / "raw" / HOUR / "b.parquet", minutes(2))
    write_file(tmp_path / "raw" / HOUR / "c.parquet", [group_row(name, 180, 60, offered_qos1=3, **lost)])
    run(tmp_path / "raw", tmp_path / "store")
    shutil.copy(tmp_path / "raw" / HOUR / "c.parquet", tmp_path / "raw" / HOUR / "again.parquet")
    run(tmp_path / "raw", tmp_path / "store")
    assert [row["dropped_aged"] for row in rows_of(open_store(str(tmp_path / "store")), GROUPS)] == [6]
