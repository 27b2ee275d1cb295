"""Files that end the process that reads them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.compaction import compact as compaction
from spark_jobs.compaction import damage, kernel
from spark_jobs.compaction.damage import damaged_among
from spark_jobs.compaction.survey import inspected_here
from spark_jobs.storage import Storage, open_storage
from spark_jobs.store.store import open_store
from tests.support.damage import spoil
from tests.support.spark.compacting import HOUR, NEXT, Run, minutes, rows_of
from tests.support.spark.deadly import DEADLY, DeadlyStorage
from tests.support.spark.metrics_files import arrow_schema, write_file

pytestmark = pytest.mark.once


def test_each_damaged_file_is_named(tmp_path: Path) -> None:
    """Among sound files, one with garbage in its pages and one that ends the process are found."""
    for number in range(5):
        write_file(tmp_path / HOUR / f"{number}.parquet", minutes(number + 1))
    write_file(tmp_path / HOUR / DEADLY, minutes(9))
    spoil(write_file(tmp_path / HOUR / "garbage.parquet", minutes(*range(10, 60))))
    storage = DeadlyStorage(tmp_path)
    files = inspected_here(storage, list(storage.files()))
    found = {file.name: file.why for file in damaged_among(storage, files)}
    assert found.keys() == {f"{HOUR}/{DEADLY}", f"{HOUR}/garbage.parquet"}
    assert found[f"{HOUR}/{DEADLY}"] == "is damaged: the process that reads it ends"
    assert damaged_among(storage, []) == []


def test_a_file_that_cannot_be_aggregated_costs_only_itself(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A null within a histogram, and values on which the aggregation fails by whatever exception."""
    raw, store = tmp_path / "raw", tmp_path / "store"
    write_file(raw / HOUR / "a.parquet", minutes(1, 2))
    null = pa.Table.from_pylist(minutes(3, ack_qos1_buckets=[None]), arrow_schema())
    pq.write_table(null, raw / HOUR / "null.parquet")
    write_file(raw / NEXT / "odd.parquet", minutes(61, client="odd"))
    groups_of = kernel.topic_groups

    def failing(clients: pa.Array) -> pa.Array:
        if "odd" in clients.to_pylist():
            raise AttributeError("something else")
        return groups_of(clients)

    monkeypatch.setattr(kernel, "topic_groups", failing)
    monkeypatch.setattr(damage, "apart", lambda function, *arguments: function(*arguments))
    done = run(raw, store)
    assert (done.hours, done.rows, done.skipped) == (1, 2, 2)
    assert {file.name: file.why for file in open_store(str(store)).skipped()} == {
        f"{HOUR}/null.parquet": "is damaged: ack_qos1_buckets has nulls in its lists (1); expected whole numbers",
        f"{NEXT}/odd.parquet": "is damaged: something else",
    }
    assert run(raw, store, idle=True).skipped == 2


def without_deadly(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that ends the process is named and left out, and the next run leaves it out at once."""
    raw, store = folder / "raw", folder / "store"
    write_file(raw / HOUR / "a.parquet", minutes(1, 2))
    write_file(raw / NEXT / DEADLY, minutes(61))

    def opened(uri: str) -> Storage:
        return DeadlyStorage(Path(uri)) if uri == str(raw) else open_storage(uri)

    monkeypatch.setattr(compaction, "open_storage", opened)
    done = run(raw, store, apart=True, slot_us=None)
    assert (done.hours, done.rows, done.skipped) == (1, 2, 1)
    [skipped] = open_store(str(store)).skipped()
    assert (skipped.name, skipped.why) == (f"{NEXT}/{DEADLY}", "is damaged: the process that reads it ends")
    assert [made["rows"] for made in rows_of(open_store(str(store)).sessions())] == [2]
    assert run(raw, store, idle=True, slot_us=None).skipped == 1


@pytest.mark.slow
def test_a_process_that_dies_costs_one_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file on which the process of a compaction dies does not stop it."""
    without_deadly(run, tmp_path, monkeypatch)


@pytest.mark.spark
@pytest.mark.slow
def test_a_worker_that_dies_costs_one_file(run_spark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file on which Spark's workers die does not stop a compaction."""
    without_deadly(run_spark, tmp_path, monkeypatch)
