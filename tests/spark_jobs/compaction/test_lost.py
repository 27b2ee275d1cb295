"""What a store has lost, what has gone from the folder beside it, and what a selection of it does not have."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs import sources
from spark_jobs.compaction.check import require_sound
from spark_jobs.compaction.compact import Compacted, Options, compact
from spark_jobs.compaction.store import ALL, Selection, Store, open_store
from spark_jobs.errors import ReportError
from spark_jobs.measures.measure import measure
from spark_jobs.measures.quality import files_table
from spark_jobs.progress import Progress
from tests.support.spark.metrics_files import row, write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Run = Callable[[Path, Path], Compacted]
NOON, AFTER = "date=2026-11-21/hour=12", "date=2026-11-21/hour=13"


@pytest.fixture
def run(spark: "SparkSession") -> Run:
    """Brings a store up to date."""

    def run_it(metrics: Path, store: Path) -> Compacted:
        options = Options(str(metrics), str(store), 60_000_000)
        return compact(options, lambda rows: spark, Progress(quiet=True))

    return run_it


@pytest.fixture
def two_hours(run: Run, tmp_path: Path) -> Path:
    """The metrics of two hours; beside it lies `store`, which has them."""
    raw = tmp_path / "raw"
    write_file(raw / NOON / "a.parquet", [row("a", 60 * n, 60, offered_qos0=1, sent_qos0=1) for n in (1, 2)])
    write_file(raw / AFTER / "b.parquet", [row("a", 3660, 60, offered_qos0=1, sent_qos0=1)])
    run(raw, tmp_path / "store")
    return raw


def held(store: Store) -> list[str]:
    """The store's sessions."""
    return sorted(map(str, store.sessions().collect()))


def test_an_hour_that_was_removed_is_made_anew(
    spark: "SparkSession", run: Run, two_hours: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Remove an hour's folder and compact: it is there again, and the run says that it was gone."""
    store = tmp_path / "store"
    before = held(open_store(spark, str(store)))
    shutil.rmtree(store / AFTER)
    assert run(two_hours, store).hours == 1
    assert "2026-11-21T13 is gone from the store" in capsys.readouterr().err
    assert held(open_store(spark, str(store))) == before
    shutil.rmtree(store / AFTER)
    shutil.rmtree(two_hours / AFTER)
    assert run(two_hours, store).hours == 0
    assert len(held(open_store(spark, str(store)))) == 1  # of the hour that is left


def test_what_cannot_be_read_is_named_with_the_remedy(
    spark: "SparkSession", two_hours: Path, tmp_path: Path
) -> None:
    """A file cut short, an hour that is gone: the message has its address and what to do about it."""
    store = open_store(spark, str(tmp_path / "store"))
    require_sound(store)
    [part] = (tmp_path / "store" / AFTER).glob("*/sessions/part-*.parquet")
    part.write_bytes(part.read_bytes()[:-9])
    remedy = r"sessions: .*; remove the folder .*hour=13/\w+ and run `sluice compact` again"
    with pytest.raises(ReportError, match=remedy):
        require_sound(store)
    require_sound(store, Selection(end_us=store.hours()[1]))
    part.unlink()
    with pytest.raises(ReportError, match="is gone from the store"):
        require_sound(store)


def test_rows_that_the_store_has_lost_are_counted(
    spark: "SparkSession", run: Run, two_hours: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part of an hour that somebody removed is named in the data quality, and said while the report is made."""
    extra = [row("b", 3660, 60, offered_qos0=1, sent_qos0=1)]
    write_file(tmp_path / "other" / AFTER / "c.parquet", extra)
    run(tmp_path / "other", tmp_path / "less")
    [part] = (tmp_path / "store" / AFTER).glob("*/sessions/part-*.parquet")
    [smaller] = (tmp_path / "less" / AFTER).glob("*/sessions/part-*.parquet")
    write_file(two_hours / AFTER / "c.parquet", extra)
    run(two_hours, tmp_path / "store")
    whole = sources.frames_of(open_store(spark, str(tmp_path / "store")), ALL)
    assert not measure(whole, "run", Progress(quiet=True)).maybe("quality", kind="damaged_hours")
    [part] = (tmp_path / "store" / AFTER).glob("*/sessions/part-*.parquet")
    shutil.copy(smaller, part)
    short = sources.frames_of(open_store(spark, str(tmp_path / "store")), ALL)
    found = measure(short, "run", Progress(quiet=True)).one("quality", kind="damaged_hours")
    assert (found["count"], found["example"]) == (1, "2026-11-21T13")
    assert "has lost rows of: remove their folders" in capsys.readouterr().err


def test_a_skipped_file_is_remembered(spark: "SparkSession", run: Run, two_hours: Path, tmp_path: Path) -> None:
    """What was wrong with an hour's files is still said when they have been deleted, of that hour alone."""
    (two_hours / NOON / "cut.parquet").write_bytes(b"PAR1")
    run(two_hours, tmp_path / "store")
    (two_hours / NOON / "cut.parquet").unlink()
    run(two_hours, tmp_path / "store")
    store = open_store(spark, str(tmp_path / "store"))
    noon, after = store.hours()
    names = [file.name for file in sources.frames_of(store, Selection(end_us=after)).files]
    assert names == [f"{NOON}/a.parquet", f"{NOON}/cut.parquet"]
    assert f"{NOON}/cut.parquet" not in [f.name for f in sources.frames_of(store, Selection(start_us=after)).files]
    assert noon < after


def test_what_is_said_of_files_does_not_depend_on_when_they_came(
    spark: "SparkSession", run: Run, two_hours: Path, tmp_path: Path
) -> None:
    """A file that came after its hour had been compacted is listed as in a store that has seen all at once."""
    write_file(two_hours / NOON / "0.parquet", [row("late", 60, 60, offered_qos0=1)])
    assert run(two_hours, tmp_path / "store").late == 1
    run(two_hours, tmp_path / "whole")
    listed = [
        files_table(sources.frames_of(open_store(spark, str(tmp_path / name)), ALL).files)
        for name in ("store", "whole")
    ]
    assert listed[0] == listed[1]


def test_an_unknown_broker_is_refused_with_those_that_there_are(
    spark: "SparkSession", two_hours: Path, tmp_path: Path
) -> None:
    """A name with a slip in it is no empty report."""
    store = open_store(spark, str(tmp_path / "store"))
    with pytest.raises(ReportError, match=r"broker b2: .*store has no rows of it; it has: b1"):
        sources.frames_of(store, Selection(broker="b2"))
