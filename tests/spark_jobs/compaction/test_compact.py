"""Updating a store: invalid, late, duplicate and deleted files."""

import os
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.errors import ReportError
from spark_jobs.sources import frames_of
from spark_jobs.storage import StorageError
from spark_jobs.storage.local import LocalStorage
from spark_jobs.store import delta
from spark_jobs.store.delta import ConflictError
from spark_jobs.store.schema import SESSIONS, TIMELINE, stored_schema
from spark_jobs.store.store import Selection, open_store
from spark_jobs.store.taken import FileRecord
from tests.support.spark.compacting import HOUR, NEXT, Run, minutes, rows_of, tables
from tests.support.spark.metrics_files import NOON, arrow_schema, histogram, write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.once

TwoHours = tuple[Path, Path]


def contents(store: Path) -> Mapping[str, bytes]:
    """Every file of a store."""
    return {str(path.relative_to(store)): path.read_bytes() for path in store.rglob("*") if path.is_file()}


def records(store: Path) -> dict[str, FileRecord]:
    """All files that the store knows, by the last part of their paths."""
    opened = open_store(str(store))
    files = [file for ledger in opened.ledgers() for file in ledger.files] + opened.skipped()
    return {file.name.rpartition("/")[2]: file for file in files}


def newer_schema() -> pa.Schema:
    """A future schema with an unknown column."""
    return arrow_schema(version="9").append(pa.field("unknown", pa.int64()))


def test_every_kind_of_file_is_judged_and_named(run: Run, tmp_path: Path) -> None:
    """Invalid files are skipped, duplicates count once, other schemas and codecs are read; repeating does nothing."""
    raw, store = tmp_path / "raw", tmp_path / "store"
    good = write_file(raw / HOUR / "good.parquet", minutes(1, 2) + minutes(1, 2, client="b"))
    shutil.copy(good, raw / HOUR / "good-copy.parquet")
    write_file(raw / HOUR / "squeezed.parquet", minutes(9), compression="brotli")
    shutil.copy(good, raw / HOUR / os.fsdecode(b"no-text-\xff.parquet"))
    shutil.copy(good, raw / HOUR / 'odd %41#?*{}[] \\ "\n.parquet')
    write_file(raw / HOUR / "overlap.parquet", minutes(2, 3), compression="snappy")
    write_file(raw / HOUR / "gzip.parquet", minutes(4), compression="gzip")
    write_file(raw / HOUR / "lz4.parquet", minutes(8), compression="lz4")
    write_file(raw / HOUR / "newer.parquet", [r | {"unknown": 1} for r in minutes(5)], newer_schema(), "none")
    write_file(raw / HOUR / "foreign.parquet", minutes(6), arrow_schema(name="other"))
    write_file(raw / HOUR / "impossible.parquet", minutes(6) + minutes(6, client="b", received_bytes=1 << 62))
    write_file(raw / "elsewhere.parquet", minutes(7))
    (raw / HOUR / "empty.parquet").touch()
    os.mkfifo(raw / HOUR / "pipe.parquet")
    (raw / HOUR / "zeros.parquet").symlink_to("/dev/zero")
    (raw / HOUR / "cut.parquet").write_bytes(good.read_bytes()[:-9])
    (raw / HOUR / "text.parquet").write_text("hello")
    (raw / HOUR / "link.parquet").symlink_to("nowhere")
    (raw / HOUR / "_new.parquet.tmp").touch()
    done = run(raw, store)
    assert (done.hours, done.rows, done.duplicates, done.skipped) == (1, 8, 9, 11)
    assert {name: file.status for name, file in records(store).items()} == {
        "good-copy.parquet": "read",
        'odd %41#?*{}[] \\ "\n.parquet': "duplicate",
        "no-text-\\udcff.parquet": "unreadable",
        "good.parquet": "duplicate",
        "overlap.parquet": "overlapping",
        "gzip.parquet": "read",
        "lz4.parquet": "read",
        "newer.parquet": "newer",
        "squeezed.parquet": "unreadable",
        "foreign.parquet": "foreign",
        "impossible.parquet": "impossible",
        "elsewhere.parquet": "misplaced",
        "empty.parquet": "empty",
        "cut.parquet": "truncated",
        "text.parquet": "unreadable",
        "link.parquet": "unreadable",
        "pipe.parquet": "unreadable",
        "zeros.parquet": "unreadable",
    }
    sessions = {made["client_id"]: made for made in rows_of(open_store(str(store)))}
    assert {name: made["rows"] for name, made in sessions.items()} == {"a": 6, "b": 2}
    assert sessions["a"]["offered_qos1"] == 18
    assert sessions["a"]["ack_qos1_buckets"] == histogram([5, 11] * 6)
    before = contents(store)
    assert run(raw, store, idle=True).hours == 0
    assert contents(store) == before


def test_a_day_that_arrives_bit_by_bit_gives_the_same_store(
    spark: "SparkSession", run: Run, two_hours: TwoHours, tmp_path: Path
) -> None:
    """Files in any order, with a late one and a copy, give the same rows as one run over all."""
    (raw, store), whole = two_hours, tmp_path / "whole"
    late = write_file(raw / HOUR / "0.parquet", minutes(58, sent_qos1=0))
    shutil.copy(late, raw / HOUR / "z.parquet")
    done = run(raw, store)
    assert (done.hours, done.late, done.duplicates) == (1, 2, 1)
    assert records(store)["0.parquet"].late
    run(raw, whole)
    assert tables(store) == tables(whole)
    opened = open_store(str(store))
    assert opened.watermarks == {"b1": max(row["slot"] for row in rows_of(opened, TIMELINE))}
    noon, found = opened.hours()[0], partial(frames_of, lambda _rows: spark, opened)
    assert found(Selection(end_us=noon + 1)).sessions.count() == 1
    assert found(Selection(noon + 120_000_000, noon + 180_000_000)).timeline.count() == 1
    with pytest.raises(ReportError, match="has no rows of it"):
        found(Selection(broker="other"))


def test_a_file_that_was_changed_in_place_is_taken_in(run: Run, tmp_path: Path) -> None:
    """Its hour has the new values, also if the file has as many bytes and rows as before; then nothing is new."""
    raw, store, sizes = tmp_path / "raw", tmp_path / "store", set()
    for offered in (3, 4):
        rows = minutes(1, 2, offered_qos1=offered)
        sizes.add(write_file(raw / HOUR / "a.parquet", rows, arrow_schema(), "none").stat().st_size)
        assert run(raw, store).hours == 1
        assert [made["offered_qos1"] for made in rows_of(open_store(str(store)))] == [2 * offered]
    assert len(sizes) == 1
    assert run(raw, store, idle=True).hours == 0


def test_what_deleted_files_gave_stays(run: Run, two_hours: TwoHours, tmp_path: Path) -> None:
    """New rows of an hour whose raw files were deleted are added; known rows are not.

    Other sessions of an interval that is known are added too; the timeline has the interval once.
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
    for name in ("sessions", "starvation"):
        assert tables(store)[name] == tables(whole)[name]
    slots = rows_of(open_store(str(store)), TIMELINE)
    assert [made["rows"] for made in slots] == [1, 1, 2, 1]  # as the first file with each interval says
    shutil.move(again, first)
    assert run(raw, store, idle=True).hours == 0


def test_the_second_of_two_runs_starts_again(
    run: Run, two_hours: TwoHours, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another run has committed the same hour meanwhile, its result is kept and nothing is counted twice."""
    raw, store = two_hours
    write_file(raw / NEXT / "c.parquet", minutes(62))
    committed = delta.commit
    others: list[int] = []

    def after_another(snapshot: delta.Snapshot, changes: dict[str, delta.Change]) -> delta.Snapshot:
        monkeypatch.setattr("spark_jobs.compaction.compact.commit", committed)
        others.append(run(raw, store).hours)
        return committed(snapshot, changes)

    monkeypatch.setattr("spark_jobs.compaction.compact.commit", after_another)
    assert run(raw, store).hours == 0
    assert others == [1]
    assert [made["rows"] for made in rows_of(open_store(str(store)))] == [2, 2]


def test_a_store_that_never_rests_is_named(
    run: Run, two_hours: TwoHours, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some attempts the run ends with an error; the store is unchanged."""
    raw, store = two_hours

    def taken(*_: object) -> None:
        raise ConflictError

    monkeypatch.setattr("spark_jobs.compaction.compact.commit", taken)
    (raw / HOUR / "empty.parquet").touch()
    with pytest.raises(ReportError, match="10 attempts met commits of other runs"):
        run(raw, store, idle=True)


def test_an_hour_is_built_again_when_asked(run: Run, two_hours: TwoHours) -> None:
    """--rebuild reads the raw files of the range again, and restores what a lost file of the store had."""
    raw, store = two_hours
    before = tables(store)
    opened = open_store(str(store))
    noon, after = opened.hours()
    [lost] = opened.snapshot.files(SESSIONS, after)
    (store / SESSIONS / lost.path).unlink()
    assert run(raw, store, idle=True).hours == 0
    assert run(raw, store, start_us=after, rebuild=True).hours == 1
    assert tables(store) == before
    assert noon < after


def test_a_store_in_the_metrics_folder_is_refused(run: Run, two_hours: TwoHours) -> None:
    """Its files would be read as metrics; a hidden folder is not read."""
    raw, store = two_hours
    for inside in (raw, raw / "store"):
        with pytest.raises(ReportError, match=r"is inside the metrics folder .*/raw; expected one outside of it"):
            run(raw, inside)
    shutil.copytree(store, raw / "_store")
    found = run(raw, raw / "_store", idle=True)
    assert (found.hours, found.files) == (0, 2)


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
    delta.create(LocalStorage(store), 10_000_000)
    with pytest.raises(ReportError, match="has slots of 10s; leave --slot out"):
        run(raw, store)


def test_files_of_an_hour_hold_its_sessions_in_order(run: Run, tmp_path: Path) -> None:
    """One file, sorted by key, with the columns that the schema of the store names."""
    raw, store = tmp_path / "raw", tmp_path / "store"
    write_file(raw / HOUR / "a.parquet", [r for name in ("z", "b,\n", "<i>") for r in minutes(1, client=name)])
    run(raw, store, slot_us=None)
    opened = open_store(str(store))
    [file] = opened.snapshot.files(SESSIONS)
    table = pq.read_table(store / SESSIONS / file.path, partitioning=None)
    assert table.column_names == stored_schema(SESSIONS).names[:-2]  # the partition columns are in the path
    assert table["client_id"].to_pylist() == ["<i>", "b,\n", "z"]
    assert table["session_started"].to_pylist() == [NOON] * 3
    assert opened.slot_us == 60_000_000
