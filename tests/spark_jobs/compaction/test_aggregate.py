"""Rows of files in several batches, and hours in several parts: the store is the same."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.compaction import aggregate, engine, packing
from spark_jobs.storage import open_storage
from spark_jobs.store.schema import HOUR_US, SESSIONS, STARVATION, TIMELINE
from spark_jobs.store.store import open_store
from tests.support.spark.compacted import NOON
from tests.support.spark.compacting import HOUR, NEXT, Run, minutes, tables
from tests.support.spark.metrics_files import write_file

pytestmark = pytest.mark.once


def write_days(raw: Path) -> None:
    """Twenty sessions of two hours in three files, and a copy of one file."""
    clients = [f"client-{number}" for number in range(20)]
    for folder, name, there in ((HOUR, "a", (1, 2)), (HOUR, "b", (3, 4)), (NEXT, "c", (61, 62))):
        rows = [made for client in clients for made in minutes(*there, client=client, sent_qos1=0)]
        write_file(raw / folder / f"{name}.parquet", rows)
    shutil.copy(raw / HOUR / "b.parquet", raw / HOUR / "copy.parquet")


@pytest.mark.parametrize("rows", [pytest.param(1, marks=pytest.mark.slow), 7, pytest.param(40, marks=pytest.mark.slow)])
def test_the_size_of_batches_tasks_and_parts_changes_no_row(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Rows of a session that meet late are put together as those that meet at once, also those added to an hour."""
    raw = tmp_path / "raw"
    write_days(raw)
    whole = run(raw, tmp_path / "whole")
    monkeypatch.setattr(aggregate, "BATCH_ROWS", rows)
    monkeypatch.setattr(packing.packed, "__defaults__", (rows,))
    monkeypatch.setattr(engine, "PART_ROWS", rows)
    assert run(raw, tmp_path / "pieces") == whole
    assert tables(tmp_path / "pieces") == tables(tmp_path / "whole")
    snapshot = open_store(str(tmp_path / "pieces")).snapshot
    assert all(len(snapshot.files(name)) > 2 for name in (SESSIONS, STARVATION))
    assert len(snapshot.files(TIMELINE)) == 2
    (raw / HOUR / "a.parquet").unlink()
    write_file(raw / HOUR / "late.parquet", minutes(1, 5, client="client-1"))
    for store in ("pieces", "whole"):
        done = run(raw, tmp_path / store)
        assert (done.hours, done.duplicates) == (1, 41)  # of the copy, and one that was there
    assert tables(tmp_path / "pieces") == tables(tmp_path / "whole")


def test_long_client_ids_take_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Far less than their bytes in all rows: they are read encoded, and fewer rows are aggregated at once."""
    monkeypatch.setattr(aggregate, "BATCH_BYTES", 1 << 20)
    clients = [f"{number}{'x' * 65_000}" for number in range(4)]
    rows = [made for client in clients for made in minutes(*range(1, 59), client=client)]
    written = len(rows) * 65_000
    write_file(tmp_path / HOUR / "a.parquet", rows)
    usual, watched = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    aggregation = aggregate.Aggregation(open_storage(str(tmp_path)), [NOON], HOUR_US)
    pa.set_memory_pool(watched)
    try:
        made = [(dataset, table.num_rows) for dataset, table in aggregation.of([[f"{HOUR}/a.parquet"]])]
    finally:
        pa.set_memory_pool(usual)
    assert sum(number for dataset, number in made if dataset == SESSIONS) >= len(clients)
    assert watched.max_memory() < written // 2
