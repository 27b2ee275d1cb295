"""Compaction by Spark: the same store as without it, from any storage, for valid and invalid files."""

import shutil
from pathlib import Path

import pytest

from spark_jobs.compaction import plan
from spark_jobs.storage import opening
from spark_jobs.store.store import Store, open_store
from tests.support.damage import overstate, spoil, turn_a_bit
from tests.support.spark.compacting import HOUR, NEXT, Run, minutes, rows_of, tables
from tests.support.spark.metrics_files import row, write_file

pytestmark = pytest.mark.spark


def known(store: Store) -> tuple[object, ...]:
    """All that a store has beside the compacted rows."""
    intervals = [table.to_pylist() for _, table in store.snapshot.by_hour("intervals", None, None)]
    return store.ledgers(), store.skipped(), store.watermarks, store.slot_us, intervals


def test_spark_makes_the_store_that_this_process_makes(run: Run, run_spark: Run, tmp_path: Path) -> None:
    """Late and duplicate files, rows added to hours whose raw files are gone: the same rows, files and watermarks."""
    raw, here, there = tmp_path / "raw", tmp_path / "here", tmp_path / "there"
    write_file(raw / HOUR / "a.parquet", minutes(1, 2, sent_qos1=0) + minutes(2, client="b/1", listener="tls"))
    write_file(raw / NEXT / "b.parquet", minutes(61, wait_qos0_buckets=None, waiting_start_qos1=4, gated_rate=2))
    shutil.copy(raw / HOUR / "a.parquet", raw / HOUR / "copy.parquet")
    for each, store in ((run, here), (run_spark, there)):
        done = each(raw, store)
        assert (done.hours, done.rows, done.duplicates) == (2, 4, 3)
    (raw / HOUR / "a.parquet").unlink()
    write_file(raw / HOUR / "again.parquet", minutes(2, 3, sent_qos1=0) + minutes(2, client="new"))
    for each, store in ((run, here), (run_spark, there)):
        done = each(raw, store)
        assert (done.hours, done.late, done.duplicates) == (1, 1, 4)
    assert tables(here) == tables(there)
    assert known(open_store(str(here))) == known(open_store(str(there)))


@pytest.mark.slow
def test_damage_that_workers_meet_is_found(run_spark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is named, the rest is compacted, and hours that were built before stay.

    One has garbage in its pages. One has wrong values that only checksums reveal. One has a page whose header states
    more values than there are, which only Spark refuses; its name has to be quoted.
    """
    monkeypatch.setattr(plan, "BATCH_HOURS", 1)
    raw, store = tmp_path / "raw", tmp_path / "store"
    write_file(raw / HOUR / "first.parquet", minutes(1))
    write_file(raw / NEXT / "good.parquet", minutes(61))
    spoil(write_file(raw / NEXT / "garbage.parquet", minutes(*range(62, 110))))
    counted = [row(end=3600 + n, offered_qos1=n * n) for n in range(1, 21)]
    turn_a_bit(write_file(raw / NEXT / "turned.parquet", counted))
    overstate(write_file(raw / NEXT / "b a%20d.parquet", counted), "offered_qos1")
    done = run_spark(raw, store)
    assert (done.hours, done.rows, done.skipped) == (2, 2, 3)
    found = {file.name.rpartition("/")[2]: file for file in open_store(str(store)).skipped()}
    for name in ("garbage.parquet", "turned.parquet", "b a%20d.parquet"):
        assert found[name].why.startswith("is damaged"), name
    assert found["b a%20d.parquet"].why == "is damaged: Spark can read 0 of its 40 rows"
    made = [(made["rows"], made["offered_qos1"]) for made in rows_of(open_store(str(store)).sessions())]
    assert made == [(1, 3), (1, 3)]
    assert run_spark(raw, store, idle=True).skipped == 3


def test_metrics_of_every_storage(run_spark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Object stores and local folders give the same rows and the same findings."""
    raw = tmp_path / "raw metrics"
    write_file(raw / HOUR / "a b%20.parquet", minutes(1, 2))
    shutil.copy(raw / HOUR / "a b%20.parquet", raw / HOUR / "copy.parquet")
    (raw / HOUR / "cut.parquet").write_bytes(b"PAR1" + b"x" * 50)
    (tmp_path / "store").mkdir()  # deltalake opens a folder on this machine only if it is there
    with monkeypatch.context() as patch:
        patch.setattr(opening, "is_local", lambda uri: False)
        done = run_spark(f"file://{tmp_path}/raw metrics", f"file://{tmp_path}/store")
    assert (done.rows, done.duplicates, done.skipped) == (2, 2, 1)
    for base in (f"file://{tmp_path}", str(tmp_path)):
        found = run_spark(f"{base}/raw metrics", f"{base}/store")
        assert (found.hours, found.files, found.skipped) == (0, 2, 1)
        assert rows_of(open_store(f"{base}/store").sessions())[0]["rows"] == 2
