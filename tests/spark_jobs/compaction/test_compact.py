"""A store brought up to date: bad files, late ones, copies, deleted ones, and runs that are ended in the middle."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.compaction import plan
from spark_jobs.compaction.compact import Compacted, Options, compact
from spark_jobs.compaction.schema import DATASETS, SESSIONS
from spark_jobs.compaction.state import FileRecord, Manifest
from spark_jobs.compaction.store import Selection, open_store
from spark_jobs.errors import ReportError
from spark_jobs.progress import Progress
from spark_jobs.storage import StorageError
from spark_jobs.storage.local import LocalStorage
from tests.support.damage import overstate, turn_a_bit
from tests.support.spark.metrics_files import (
    SCHEMA,
    Row,
    arrow_schema,
    earlier_schema,
    histogram,
    row,
    write_file,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Run = Callable[..., Compacted]
HOUR = "date=2026-11-21/hour=12"
NEXT = "date=2026-11-21/hour=13"


@pytest.fixture
def run(spark: "SparkSession") -> Run:
    """Compacts; with `idle`, without ever asking for Spark."""

    def run_it(metrics: Path | str, store: Path | str, *, idle: bool = False, **options: Any) -> Compacted:
        def spark_of(_rows: int | None) -> "SparkSession":
            assert not idle, "there is nothing to do"
            return spark

        return compact(
            Options(str(metrics), str(store), **{"slot_us": 60_000_000} | options), spark_of, Progress(quiet=True)
        )

    return run_it


def minutes(*numbers: int, client: str = "a", **values: Any) -> list[Row]:
    """Rows of a session for some minutes after noon."""
    extra = {"offered_qos1": 3, "sent_qos1": 2, "ack_qos1_hist": histogram([5, 9])}
    return [row(client, 60 * number, 60, **extra | values) for number in numbers]


def tables(spark: "SparkSession", store: Path | str) -> Mapping[str, list[str]]:
    """All that a store holds, as text."""
    opened = open_store(spark, str(store))
    frames = {"sessions": opened.sessions(), "timeline": opened.timeline(), "starvation": opened.starvation()}
    return {name: sorted(map(str, frame.collect())) for name, frame in frames.items()}


def contents(store: Path) -> Mapping[str, bytes]:
    """Every file of a store."""
    return {str(path.relative_to(store)): path.read_bytes() for path in store.rglob("*") if path.is_file()}


def records(spark: "SparkSession", store: Path) -> dict[str, FileRecord]:
    """All files that the ledgers name, by the last part of their names."""
    return {f.name.rpartition("/")[2]: f for ledger in open_store(spark, str(store)).ledgers() for f in ledger.files}


def newer_schema() -> pa.Schema:
    """A schema of the future, with a column that nobody knows."""
    return arrow_schema(version="9").append(pa.field("unknown", pa.int64()))


def test_every_kind_of_file_is_judged_and_named(spark: "SparkSession", run: Run, tmp_path: Path) -> None:
    """Bad files are skipped with the reason, copies count once, older and newer schemas are read; again is no work."""
    raw, store = tmp_path / "raw", tmp_path / "store"
    good = write_file(raw / HOUR / "good.parquet", minutes(1, 2) + minutes(1, 2, client="b"))
    shutil.copy(good, raw / HOUR / "good-copy.parquet")
    shutil.copy(good, raw / HOUR / os.fsdecode(b"no-text-\xff.parquet"))
    shutil.copy(good, raw / HOUR / 'odd %41#?*{}[] \\ "\n.parquet')
    write_file(raw / HOUR / "overlap.parquet", minutes(2, 3))
    write_file(raw / HOUR / "first.parquet", minutes(4, slow_consumer=1), earlier_schema(1))
    write_file(raw / HOUR / "second.parquet", minutes(8, slow_consumer=1, paced_for_us=1), earlier_schema(2))
    write_file(raw / HOUR / "newer.parquet", [r | {"unknown": 1} for r in minutes(5)], newer_schema())
    write_file(raw / HOUR / "foreign.parquet", minutes(6), arrow_schema(name="other"))
    write_file(raw / HOUR / "impossible.parquet", minutes(6) + minutes(6, client="b", received_bytes=1 << 62))
    write_file(raw / "elsewhere.parquet", minutes(7))
    (raw / HOUR / "empty.parquet").touch()
    (raw / HOUR / "cut.parquet").write_bytes(good.read_bytes()[:-9])
    (raw / HOUR / "text.parquet").write_text("hello")
    (raw / HOUR / "link.parquet").symlink_to("nowhere")
    (raw / HOUR / "_new.parquet.tmp").touch()
    done = run(raw, store)
    assert (done.hours, done.rows, done.duplicates, done.skipped) == (1, 8, 9, 8)
    assert {name: file.status for name, file in records(spark, store).items()} == {
        "good-copy.parquet": "read",
        'odd %41#?*{}[] \\ "\n.parquet': "duplicate",
        os.fsdecode(b"no-text-\xff.parquet"): "unreadable",
        "good.parquet": "duplicate",
        "overlap.parquet": "overlapping",
        "first.parquet": "older",
        "second.parquet": "older",
        "newer.parquet": "newer",
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


def test_a_day_that_arrives_bit_by_bit_gives_the_same_store(spark: "SparkSession", run: Run, tmp_path: Path) -> None:
    """Files in any order, with a late one and a copy: the rows and even the bytes of those of one run over all."""
    raw, store, whole = tmp_path / "raw", tmp_path / "store", tmp_path / "whole"
    write_file(raw / HOUR / "b.parquet", minutes(2, 58))
    write_file(raw / NEXT / "c.parquet", minutes(61, 62))
    run(raw, store)
    late = write_file(raw / HOUR / "a.parquet", minutes(1, sent_qos1=0))
    shutil.copy(late, raw / HOUR / "z.parquet")
    done = run(raw, store)
    assert (done.hours, done.late, done.duplicates) == (1, 2, 1)
    assert records(spark, store)["a.parquet"].late
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


def test_what_deleted_files_gave_stays(spark: "SparkSession", run: Run, tmp_path: Path) -> None:
    """Rows that come after their neighbours have been deleted are added; those that come again are not."""
    raw, store, whole = tmp_path / "raw", tmp_path / "store", tmp_path / "whole"
    first = write_file(raw / HOUR / "first.parquet", minutes(1, 2))
    run(raw, store)
    again = tmp_path / "again.parquet"
    shutil.move(first, again)
    write_file(raw / HOUR / "second.parquet", minutes(2, 3) + minutes(3, client="new"))
    done = run(raw, store)
    assert (done.hours, done.duplicates) == (1, 1)
    write_file(tmp_path / "raw2" / HOUR / "all.parquet", minutes(1, 2, 3) + minutes(3, client="new"))
    run(tmp_path / "raw2", whole)
    assert tables(spark, store) == tables(spark, whole)
    shutil.move(again, first)
    assert run(raw, store, idle=True).hours == 0


def as_made_before(store: Path) -> None:
    """Take the columns that came with the latest version of the metrics from a store's hours, and their number."""
    latest = {field["name"] for field in SCHEMA["fields"] if field.get("since") == SCHEMA["version"]}
    for path in store.rglob("*.parquet"):
        there = pq.read_table(path, partitioning=None)
        pq.write_table(there.drop_columns([name for name in there.column_names if name in latest]), path)
    manifest = store / "manifest.json"
    manifest.write_text(manifest.read_text().replace(f'"version": {SCHEMA["version"]}', '"version": 2'))


def test_a_store_made_before_a_column_came_goes_on(spark: "SparkSession", run: Run, tmp_path: Path) -> None:
    """Its hours are read with 0 for it; added to, they have what is new; made anew, they are as if made now."""
    raw, store, whole = tmp_path / "raw", tmp_path / "store", tmp_path / "whole"
    first = write_file(raw / HOUR / "first.parquet", minutes(1), earlier_schema(2))
    write_file(raw / NEXT / "first.parquet", minutes(61), earlier_schema(2))
    run(raw, store)
    before = tables(spark, store)
    as_made_before(store)
    assert tables(spark, store) == before
    assert run(raw, store, idle=True).hours == 0
    write_file(raw / NEXT / "second.parquet", minutes(62, paced_for_us=7, publish_paced_us=5))
    write_file(raw / HOUR / "second.parquet", minutes(2, paced_for_us=7, publish_paced_us=5))
    run(raw, whole)
    first.unlink()
    assert run(raw, store).hours == 2
    assert tables(spark, store) == tables(spark, whole)
    there = open_store(spark, str(store)).sessions().collect()
    assert [(made.paced_for_us, made.publish_paced_us) for made in there] == [(7, 5), (7, 5)]


def test_an_interval_may_lie_in_two_files(spark: "SparkSession", run: Run, tmp_path: Path) -> None:
    """Its other sessions are added, also when the file with the first ones is gone."""
    raw, store, whole = tmp_path / "raw", tmp_path / "store", tmp_path / "whole"
    first = write_file(raw / HOUR / "first.parquet", minutes(1, 2))
    run(raw, store)
    first.unlink()
    write_file(raw / HOUR / "second.parquet", minutes(1, 2, client="b") + minutes(2))
    done = run(raw, store)
    assert (done.rows, done.duplicates) == (4, 1)
    write_file(tmp_path / "raw2" / HOUR / "all.parquet", minutes(1, 2) + minutes(1, 2, client="b"))
    run(tmp_path / "raw2", whole)
    assert tables(spark, store)["sessions"] == tables(spark, whole)["sessions"]


def test_a_run_that_is_ended_leaves_the_old_state(
    spark: "SparkSession", run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the manifest nothing has changed for readers; the next run removes what was left and goes through."""
    raw, store = tmp_path / "raw", tmp_path / "store"
    write_file(raw / HOUR / "a.parquet", minutes(1))
    run(raw, store)
    before = tables(spark, store)
    write_file(raw / HOUR / "b.parquet", minutes(2))
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
    assert len(list((store / HOUR).iterdir())) == 2
    (store / "_work" / "junk").mkdir(parents=True)
    run(raw, store)
    assert len(list((store / HOUR).iterdir())) == 1
    assert not (store / "_work").exists()
    assert open_store(spark, str(store)).sessions().collect()[0]["rows"] == 2


def test_a_folder_that_is_no_store_is_left_alone(spark: "SparkSession", run: Run, tmp_path: Path) -> None:
    """A store without its manifest, somebody's own folders, the metrics folder itself: refused, and nothing removed."""
    raw, store = tmp_path / "raw", tmp_path / "store"
    write_file(raw / HOUR / "a.parquet", minutes(1))
    run(raw, store)
    sessions = tables(spark, store)
    manifest = (store / "manifest.json").rename(tmp_path / "aside")
    before = contents(store)
    with pytest.raises(ReportError, match=r"store: has no manifest.json, .* date=2026-11-21 is in it; nothing was"):
        run(raw, store)
    assert contents(store) == before
    manifest.rename(store / "manifest.json")
    assert tables(spark, store) == sessions
    (tmp_path / "own" / "_work").mkdir(parents=True)
    with pytest.raises(ReportError, match="_work is in it"):
        run(raw, tmp_path / "own")
    for inside in (raw, raw / "store"):
        with pytest.raises(ReportError, match=r"lies in the metrics folder .*/raw; a folder beside it would be right"):
            run(raw, inside)
    assert run(raw, raw / "_store").hours == 1


def test_a_manifest_that_was_being_replaced_is_found(spark: "SparkSession", run: Run, tmp_path: Path) -> None:
    """Where a file cannot be replaced at once, a run may be ended while there is no manifest: the next one counts."""
    raw, store = tmp_path / "raw", tmp_path / "store"
    write_file(raw / HOUR / "a.parquet", minutes(1))
    run(raw, store)
    before = contents(store)
    sessions = tables(spark, store)
    (store / "manifest.json").rename(store / "manifest.next.json")
    assert tables(spark, store) == sessions
    assert run(raw, store, idle=True).hours == 0
    assert contents(store) == before
    (store / "manifest.next.json").write_bytes(b"of a run that was ended before it replaced the manifest")
    assert run(raw, store, idle=True).hours == 0
    assert contents(store) == before


def test_hours_made_before_damage_is_found_stay(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: "SparkSession"
) -> None:
    """A file turns out to be damaged when other hours have been made already: they are in the store afterwards."""
    monkeypatch.setattr(plan, "BATCH_HOURS", 1)
    raw, store = tmp_path / "raw", tmp_path / "store"
    write_file(raw / HOUR / "first.parquet", minutes(1))
    write_file(raw / NEXT / "good.parquet", minutes(61))
    bad = write_file(raw / NEXT / "bad.parquet", minutes(*range(62, 110)))
    data = bytearray(bad.read_bytes())
    data[4:2000] = b"\xff" * 1996
    bad.write_bytes(data)
    done = run(raw, store)
    assert (done.hours, done.rows, done.skipped) == (2, 2, 1)
    assert len(open_store(spark, str(store)).hours()) == 2
    assert [made["rows"] for made in open_store(spark, str(store)).sessions().collect()] == [1, 1]


def test_damage_behind_a_sound_footer_is_found(spark: "SparkSession", run: Run, tmp_path: Path) -> None:
    """The file is named, the rest is compacted, and the next run does not stumble over it again."""
    raw, store = tmp_path / "raw", tmp_path / "store"
    write_file(raw / HOUR / "good.parquet", minutes(1))
    bad = write_file(raw / HOUR / "bad.parquet", minutes(*range(1, 50)))
    data = bytearray(bad.read_bytes())
    data[4:2000] = b"\xff" * 1996
    bad.write_bytes(data)
    assert run(raw, store).rows == 1
    assert records(spark, store)["bad.parquet"].why.startswith("is damaged")
    assert run(raw, store, idle=True).skipped == 1


def test_a_bit_that_has_turned_over_is_found(spark: "SparkSession", run: Run, tmp_path: Path) -> None:
    """A file that reads well but for its checksums, as other numbers, is named, and the rest is compacted."""
    raw, store = tmp_path / "raw", tmp_path / "store"
    write_file(raw / HOUR / "good.parquet", minutes(1))
    bad = write_file(raw / HOUR / "bad.parquet", [row(end=n, offered_qos1=n * n) for n in range(1, 50)])
    turn_a_bit(bad)
    assert run(raw, store).rows == 1
    assert records(spark, store)["bad.parquet"].why.startswith("is damaged")
    assert run(raw, store, idle=True).skipped == 1


def test_what_could_not_be_opened_is_tried_again(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that was away, or a file that nobody might read: its rows come in when that is over."""
    raw, store = tmp_path / "raw", tmp_path / "store"
    write_file(raw / HOUR / "a.parquet", minutes(1))
    write_file(raw / HOUR / "b.parquet", minutes(2))
    opened = LocalStorage.open

    def failing(self: LocalStorage, name: str) -> BinaryIO:
        if name.endswith("b.parquet"):
            raise StorageError("Permission denied")
        return opened(self, name)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStorage, "open", failing)
        assert (run(raw, store).rows, run(raw, store, idle=True).skipped) == (1, 1)
    assert run(raw, store).rows == 2


def test_any_codec_that_is_let_through_can_be_read(run: Run, tmp_path: Path) -> None:
    """Spark reads files of each codec that the look at the footer finds good."""
    raw = tmp_path / "raw"
    path = write_file(raw / HOUR / "x.parquet", minutes(1))
    metrics = pq.read_table(path, partitioning=None)
    for minute, codec in enumerate(("snappy", "gzip", "lz4", "none", "brotli")):
        pq.write_table(metrics, raw / HOUR / f"{minute}.parquet", compression=codec)
    done = run(raw, tmp_path / "store")
    assert (done.rows, done.duplicates, done.skipped) == (1, 4, 1)


def test_what_spark_alone_cannot_read_is_found(spark: "SparkSession", run: Run, tmp_path: Path) -> None:
    """Pages that pyarrow reads and Spark does not: the file that Spark names is left out, whatever it is called."""
    raw, store = tmp_path / "raw", tmp_path / "store"
    write_file(raw / HOUR / "good.parquet", minutes(1))
    bad = write_file(raw / HOUR / "b a%20d.parquet", [row(end=n, offered_qos1=n * n) for n in range(1, 41)])
    overstate(bad, "offered_qos1")
    pq.read_table(bad, page_checksum_verification=True)
    assert run(raw, store).rows == 1
    assert records(spark, store)["b a%20d.parquet"].why.startswith("is damaged: ")
    assert run(raw, store, idle=True).skipped == 1


@pytest.mark.parametrize("kind", ["file", "viewfs"])
def test_any_address_will_do(spark: "SparkSession", run: Run, tmp_path: Path, kind: str) -> None:
    """The same rows come out whether Hadoop or Python looks after the files; bad ones are judged the same."""
    raw = tmp_path / "raw metrics"
    write_file(raw / HOUR / "a b%20.parquet", minutes(1, 2))
    shutil.copy(raw / HOUR / "a b%20.parquet", raw / HOUR / "copy.parquet")
    (raw / HOUR / "cut.parquet").write_bytes(b"PAR1" + b"x" * 50)
    base = f"file://{tmp_path}"
    if kind == "viewfs":
        mount = f"pipe{abs(hash(tmp_path))}"
        spark._jsc.hadoopConfiguration().set(f"fs.viewfs.mounttable.{mount}.link./all", f"file://{tmp_path}")
        base = f"viewfs://{mount}/all"
    done = run(f"{base}/raw metrics", f"{base}/store")
    assert (done.rows, done.duplicates, done.skipped) == (2, 2, 1)
    assert run(f"{base}/raw metrics", f"{base}/store").hours == 0
    assert open_store(spark, f"{base}/store").sessions().collect()[0]["rows"] == 2
    found = records(spark, tmp_path / "store")
    assert found["a b%20.parquet"].status == "read"
    assert found["cut.parquet"].status == "truncated"


def test_what_will_not_do_is_said(run: Run, tmp_path: Path) -> None:
    """No folder, no files, no good file, a file in the place of the store, another slot: each with its address."""
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
