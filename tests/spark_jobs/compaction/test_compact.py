"""Updating a store: invalid, late, duplicate and deleted files, and killed runs."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.compaction import plan
from spark_jobs.compaction.schema import DATASETS, SESSIONS
from spark_jobs.compaction.state import FileRecord, Manifest
from spark_jobs.compaction.store import Selection, open_store
from spark_jobs.errors import ReportError
from spark_jobs.storage import StorageError
from spark_jobs.storage.local import LocalStorage
from tests.support.damage import overstate, turn_a_bit
from tests.support.spark.compacting import HOUR, NEXT, Run, minutes, tables
from tests.support.spark.metrics_files import SCHEMA, arrow_schema, earlier_schema, histogram, row, write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TwoHours = tuple[Path, Path]


def contents(store: Path) -> Mapping[str, bytes]:
    """Every file of a store."""
    return {str(path.relative_to(store)): path.read_bytes() for path in store.rglob("*") if path.is_file()}


def records(spark: "SparkSession", store: Path) -> dict[str, FileRecord]:
    """All files that the ledgers name, by the last part of their names."""
    return {f.name.rpartition("/")[2]: f for ledger in open_store(spark, str(store)).ledgers() for f in ledger.files}


def newer_schema() -> pa.Schema:
    """A future schema with an unknown column."""
    return arrow_schema(version="9").append(pa.field("unknown", pa.int64()))


def test_every_kind_of_file_is_judged_and_named(spark: "SparkSession", run: Run, tmp_path: Path) -> None:
    """Invalid files are skipped, duplicates count once, other schemas and codecs are read; repeating does nothing."""
    raw, store = tmp_path / "raw", tmp_path / "store"
    good = write_file(raw / HOUR / "good.parquet", minutes(1, 2) + minutes(1, 2, client="b"))
    shutil.copy(good, raw / HOUR / "good-copy.parquet")
    write_file(raw / HOUR / "squeezed.parquet", minutes(9), compression="brotli")
    shutil.copy(good, raw / HOUR / os.fsdecode(b"no-text-\xff.parquet"))
    shutil.copy(good, raw / HOUR / 'odd %41#?*{}[] \\ "\n.parquet')
    write_file(raw / HOUR / "overlap.parquet", minutes(2, 3), compression="snappy")
    write_file(raw / HOUR / "first.parquet", minutes(4, slow_consumer=1), earlier_schema(1), "gzip")
    write_file(raw / HOUR / "second.parquet", minutes(8, slow_consumer=1, paced_for_us=1), earlier_schema(2), "lz4")
    write_file(raw / HOUR / "newer.parquet", [r | {"unknown": 1} for r in minutes(5)], newer_schema(), "none")
    write_file(raw / HOUR / "foreign.parquet", minutes(6), arrow_schema(name="other"))
    write_file(raw / HOUR / "impossible.parquet", minutes(6) + minutes(6, client="b", received_bytes=1 << 62))
    write_file(raw / "elsewhere.parquet", minutes(7))
    (raw / HOUR / "empty.parquet").touch()
    (raw / HOUR / "cut.parquet").write_bytes(good.read_bytes()[:-9])
    (raw / HOUR / "text.parquet").write_text("hello")
    (raw / HOUR / "link.parquet").symlink_to("nowhere")
    (raw / HOUR / "_new.parquet.tmp").touch()
    done = run(raw, store)
    assert (done.hours, done.rows, done.duplicates, done.skipped) == (1, 8, 9, 9)
    assert {name: file.status for name, file in records(spark, store).items()} == {
        "good-copy.parquet": "read",
        'odd %41#?*{}[] \\ "\n.parquet': "duplicate",
        os.fsdecode(b"no-text-\xff.parquet"): "unreadable",
        "good.parquet": "duplicate",
        "overlap.parquet": "overlapping",
        "first.parquet": "older",
        "second.parquet": "older",
        "newer.parquet": "newer",
        "squeezed.parquet": "unreadable",
        "foreign.parquet": "foreign",
        "impossible.parquet": "impossible",
        "elsewhere.parquet": "misplaced",
        "empty.parquet": "empty",
        "cut.parquet": "truncated",
        "text.parquet": "unreadable",
        "link.parquet": "unreadable",
    }
    sessions = {made.client_id: made for made in open_store(spark, str(store)).sessions().collect()}
    assert {name: made["rows"] for name, made in sessions.items()} == {"a": 6, "b": 2}
    assert sessions["a"].offered_qos1 == 18
    assert sessions["a"].ack_qos1_hist == histogram([5, 9] * 6)
    assert (sessions["a"].slow_consumer, sessions["a"].paced_for_us) == (1, 0)
    before = contents(store)
    assert run(raw, store, idle=True).hours == 0
    assert contents(store) == before


@pytest.mark.slow
def test_a_day_that_arrives_bit_by_bit_gives_the_same_store(
    spark: "SparkSession", run: Run, two_hours: TwoHours, tmp_path: Path
) -> None:
    """Files in any order, with a late one and a copy, give the same bytes as one run over all."""
    (raw, store), whole = two_hours, tmp_path / "whole"
    late = write_file(raw / HOUR / "0.parquet", minutes(58, sent_qos1=0))
    shutil.copy(late, raw / HOUR / "z.parquet")
    done = run(raw, store)
    assert (done.hours, done.late, done.duplicates) == (1, 2, 1)
    assert records(spark, store)["0.parquet"].late
    run(raw, whole)
    assert tables(spark, store) == tables(spark, whole)
    datasets = [{n: d for n, d in contents(folder).items() if n.endswith(".parquet")} for folder in (store, whole)]
    assert datasets[0] == datasets[1]
    assert len(datasets[0]) == 2 * len(DATASETS)
    opened = open_store(spark, str(store))
    assert opened.manifest.watermarks == {"b1": opened.timeline().agg({"slot": "max"}).collect()[0][0]}
    noon = opened.hours()[0]
    assert opened.sessions(Selection(end_us=noon + 1)).count() == 1
    assert opened.timeline(Selection(noon + 120_000_000, noon + 180_000_000)).count() == 1
    assert opened.sessions(Selection(broker="other")).count() == 0


@pytest.mark.slow
def test_what_deleted_files_gave_stays(spark: "SparkSession", run: Run, two_hours: TwoHours, tmp_path: Path) -> None:
    """New rows of an hour whose raw files were deleted are added; known rows are not.

    Other sessions of an interval that is known are added too.
    """
    (raw, store), whole = two_hours, tmp_path / "whole"
    first, again = raw / HOUR / "a.parquet", tmp_path / "again.parquet"
    shutil.move(first, again)
    other = minutes(1, 2, client="b") + minutes(3, client="new")
    write_file(raw / HOUR / "second.parquet", minutes(2, 3) + other)
    done = run(raw, store)
    assert (done.hours, done.rows, done.duplicates) == (1, 6, 1)
    write_file(tmp_path / "raw2" / HOUR / "all.parquet", minutes(1, 2, 3) + other)
    shutil.copytree(raw / NEXT, tmp_path / "raw2" / NEXT)
    run(tmp_path / "raw2", whole)
    assert tables(spark, store) == tables(spark, whole)
    shutil.move(again, first)
    assert run(raw, store, idle=True).hours == 0


def as_made_before(store: Path) -> None:
    """Remove the columns of the latest metrics version from a store's hours; returns their number."""
    latest = {field["name"] for field in SCHEMA["fields"] if field.get("since") == SCHEMA["version"]}
    for path in store.rglob("*.parquet"):
        there = pq.read_table(path, partitioning=None)
        pq.write_table(there.drop_columns([name for name in there.column_names if name in latest]), path)
    manifest = store / "manifest.json"
    manifest.write_text(manifest.read_text().replace(f'"version": {SCHEMA["version"]}', '"version": 2'))


@pytest.mark.slow
def test_a_store_made_before_a_column_came_goes_on(
    spark: "SparkSession", run: Run, two_hours: TwoHours, tmp_path: Path
) -> None:
    """Hours without a newer column are read with 0; after adding rows they have it; rebuilt, they are complete."""
    (raw, store), whole = two_hours, tmp_path / "whole"
    before = tables(spark, store)
    as_made_before(store)
    assert tables(spark, store) == before
    assert run(raw, store, idle=True).hours == 0
    write_file(raw / NEXT / "second.parquet", minutes(62, paced_for_us=7, publish_paced_us=5))
    write_file(raw / HOUR / "second.parquet", minutes(3, paced_for_us=7, publish_paced_us=5))
    run(raw, whole)
    (raw / HOUR / "a.parquet").unlink()
    assert run(raw, store).hours == 2
    assert tables(spark, store) == tables(spark, whole)
    there = open_store(spark, str(store)).sessions().collect()
    assert [(made.paced_for_us, made.publish_paced_us) for made in there] == [(7, 5), (7, 5)]


@pytest.mark.slow
def test_a_run_that_is_ended_leaves_the_old_state(
    spark: "SparkSession", run: Run, two_hours: TwoHours, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers see no change before the manifest is written; the next run removes the rest and succeeds."""
    raw, store = two_hours
    before = tables(spark, store)
    write_file(raw / NEXT / "c.parquet", minutes(62))
    written = LocalStorage.write

    def failing(self: LocalStorage, name: str, data: bytes) -> None:
        if name == "manifest.json":
            raise StorageError("ended")
        written(self, name, data)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "write", failing)
        with pytest.raises(StorageError, match="ended"):
            run(raw, store)
    assert tables(spark, store) == before
    assert len(list((store / NEXT).iterdir())) == 2
    (store / "_work" / "junk").mkdir(parents=True)
    run(raw, store)
    assert len(list((store / NEXT).iterdir())) == 1
    assert not (store / "_work").exists()
    assert [made["rows"] for made in open_store(spark, str(store)).sessions().collect()] == [2, 2]


def test_a_folder_that_is_no_store_is_left_alone(
    spark: "SparkSession", run: Run, two_hours: TwoHours, tmp_path: Path
) -> None:
    """A store without its manifest, foreign folders, the metrics folder: refused, and nothing is removed."""
    raw, store = two_hours
    sessions = tables(spark, store)
    manifest = (store / "manifest.json").rename(tmp_path / "aside")
    before = contents(store)
    with pytest.raises(ReportError, match=r"store: is not a store .* contains date=2026-11-21; nothing was"):
        run(raw, store)
    assert contents(store) == before
    manifest.rename(store / "manifest.json")
    assert tables(spark, store) == sessions
    (tmp_path / "own" / "_work").mkdir(parents=True)
    with pytest.raises(ReportError, match="contains _work"):
        run(raw, tmp_path / "own")
    for inside in (raw, raw / "store"):
        with pytest.raises(ReportError, match=r"is inside the metrics folder .*/raw; expected one outside of it"):
            run(raw, inside)
    shutil.copytree(store, raw / "_store")
    found = run(raw, raw / "_store", idle=True)
    assert (found.hours, found.files) == (0, 2)


def test_a_manifest_that_was_being_replaced_is_found(spark: "SparkSession", run: Run, two_hours: TwoHours) -> None:
    """A run killed while there is no manifest, as on object stores: the next manifest is valid."""
    raw, store = two_hours
    before = contents(store)
    sessions = tables(spark, store)
    (store / "manifest.json").rename(store / "manifest.next.json")
    assert tables(spark, store) == sessions
    assert run(raw, store, idle=True).hours == 0
    assert contents(store) == before
    (store / "manifest.next.json").write_bytes(b"of a run that was ended before it replaced the manifest")
    assert run(raw, store, idle=True).hours == 0
    assert contents(store) == before


def test_damage_behind_sound_footers_is_found(
    spark: "SparkSession", run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file is named, the rest is compacted, and the next run skips them.

    One has garbage in its pages, one has wrong values that only checksums reveal, and one can be read by pyarrow but
    not by Spark, whatever its name. Hours that were built before stay.
    """
    monkeypatch.setattr(plan, "BATCH_HOURS", 1)
    raw, store = tmp_path / "raw", tmp_path / "store"
    write_file(raw / HOUR / "first.parquet", minutes(1))
    write_file(raw / NEXT / "good.parquet", minutes(61))
    garbage = write_file(raw / NEXT / "garbage.parquet", minutes(*range(62, 110)))
    data = bytearray(garbage.read_bytes())
    data[4:2000] = b"\xff" * 1996
    garbage.write_bytes(data)
    counted = [row(end=3600 + n, offered_qos1=n * n) for n in range(1, 41)]
    turn_a_bit(write_file(raw / NEXT / "turned.parquet", counted))
    overstated = write_file(raw / NEXT / "b a%20d.parquet", counted)
    overstate(overstated, "offered_qos1")
    pq.read_table(overstated, page_checksum_verification=True)
    done = run(raw, store)
    assert (done.hours, done.rows, done.skipped) == (2, 2, 3)
    found = records(spark, store)
    for name in ("garbage.parquet", "turned.parquet", "b a%20d.parquet"):
        assert found[name].why.startswith("is damaged"), name
    assert [made["rows"] for made in open_store(spark, str(store)).sessions().collect()] == [1, 1]
    assert run(raw, store, idle=True).skipped == 3


def test_what_could_not_be_opened_is_tried_again(
    run: Run, two_hours: TwoHours, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that could not be read, such as without permission, is compacted later."""
    raw, store = two_hours
    write_file(raw / NEXT / "c.parquet", minutes(62))
    opened = LocalStorage.open

    def failing(self: LocalStorage, name: str) -> BinaryIO:
        if name.endswith("c.parquet"):
            raise StorageError("Permission denied")
        return opened(self, name)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "open", failing)
        assert [run(raw, store, idle=True).skipped for _ in range(2)] == [1, 1]
    assert run(raw, store).rows == 2


def test_every_storage(spark: "SparkSession", run: Run, tmp_path: Path) -> None:
    """Hadoop and local storages give the same rows and the same findings."""
    raw = tmp_path / "raw metrics"
    write_file(raw / HOUR / "a b%20.parquet", minutes(1, 2))
    shutil.copy(raw / HOUR / "a b%20.parquet", raw / HOUR / "copy.parquet")
    (raw / HOUR / "cut.parquet").write_bytes(b"PAR1" + b"x" * 50)
    mount = f"pipe{abs(hash(tmp_path))}"
    spark._jsc.hadoopConfiguration().set(f"fs.viewfs.mounttable.{mount}.link./all", f"file://{tmp_path}")
    mounted = f"viewfs://{mount}/all"
    done = run(f"{mounted}/raw metrics", f"{mounted}/store")
    assert (done.rows, done.duplicates, done.skipped) == (2, 2, 1)
    for base in (mounted, f"file://{tmp_path}", str(tmp_path)):
        found = run(f"{base}/raw metrics", f"{base}/store")
        assert (found.hours, found.files, found.skipped) == (0, 2, 1)
        assert open_store(spark, f"{base}/store").sessions().collect()[0]["rows"] == 2
    judged = records(spark, tmp_path / "store")
    assert judged["a b%20.parquet"].status == "read"
    assert judged["cut.parquet"].status == "truncated"


def test_what_will_not_do_is_said(run: Run, tmp_path: Path) -> None:
    """No folder, no files, no valid file, a file in place of the store, another slot: each error has the URI."""
    with pytest.raises(ReportError, match="nowhere: does not exist"):
        run(tmp_path / "nowhere", tmp_path / "store")
    raw = tmp_path / "raw"
    (raw / HOUR).mkdir(parents=True)
    with pytest.raises(ReportError, match="raw: no metrics files; expected"):
        run(raw, tmp_path / "store")
    for number in range(9):
        (raw / HOUR / f"{number}.parquet").touch()
    with pytest.raises(ReportError, match=r"none of the 9 files can be used: .*zero bytes.*and 6 more"):
        run(raw, tmp_path / "store")
    (tmp_path / "file").touch()
    with pytest.raises(ReportError, match="file"):
        run(raw, tmp_path / "file")
    store = tmp_path / "other"
    manifest = Manifest(10_000_000, {}, {"2026-11-21T12": f"{HOUR}/x"})
    LocalStorage(store).write("manifest.json", manifest.to_json())
    with pytest.raises(ReportError, match="has slots of 10s; leave --slot out"):
        run(raw, store)
    for damaged in (b"", b"\0" * 200, b"[]", b'{"format": 1}', manifest.to_json()[:-9]):
        (store / "manifest.json").write_bytes(damaged)
        with pytest.raises(ReportError, match=r"other/manifest.json: is damaged .*; restore it, or compact into"):
            run(raw, store)
        assert (store / "manifest.json").read_bytes() == damaged


def test_files_of_an_hour_hold_its_sessions_in_order(spark: "SparkSession", run: Run, tmp_path: Path) -> None:
    """One file, sorted by key, with the columns that the schema of the store names."""
    raw, store = tmp_path / "raw", tmp_path / "store"
    write_file(raw / HOUR / "a.parquet", [r for name in ("z", "b,\n", "<i>", "") for r in minutes(1, client=name)])
    run(raw, store, slot_us=None)
    [folder] = [store / name for name in open_store(spark, str(store)).manifest.hours.values()]
    table = pq.read_table(folder / SESSIONS / "part-00000.parquet", partitioning=None)
    assert table.column_names == [column.name for column in DATASETS[SESSIONS]]
    assert table["client_id"].to_pylist() == ["", "<i>", "b,\n", "z"]
    assert open_store(spark, str(store)).manifest.slot_us == 60_000_000
