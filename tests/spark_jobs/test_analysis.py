"""The computation from files to tables, where no table is made."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.analysis import Extent, analyse, common_window, measure, rows_of
from spark_jobs.errors import ReportError
from spark_jobs.files import survey
from spark_jobs.progress import Progress
from tests.support_spark.metrics_files import at, first_schema, row, write_file, write_metrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_extent_of_a_range(spark: "SparkSession", tmp_path: Path) -> None:
    """Rows, first and last end and the usual interval of what lies in the range."""
    write_metrics(tmp_path, [row("a", end, 5, offered_qos0=1) for end in (5, 10, 15, 20)])
    found = survey(tmp_path)
    extent = measure(rows_of(spark, found, at(10), at(20)), found, at(10), at(20))
    assert (extent.rows, extent.interval_us) == (2, 5_000_000)
    assert extent.last_us - extent.first_us == 5_000_000


def test_files_of_all_versions_are_read_together(spark: "SparkSession", tmp_path: Path) -> None:
    """What the first version did not count is 0 in its rows, and adds up with what later ones count."""
    hour = tmp_path / "date=2026-11-21" / "hour=12"
    write_file(hour / "first.parquet", [row("a", 10, offered_qos0=5, sent_qos0=5, gated_backlog=1)], first_schema())
    later = row("a", 20, offered_qos0=5, sent_qos0=5, gated_rate=3, rate_limited_us=2_000_000)
    write_file(hour / "second.parquet", [later, row("b", 20, offered_qos0=1, window_bytes_full_us=1_000_000)])
    found = survey(tmp_path)
    assert len(found.good) == 2
    rows = rows_of(spark, found, None, None)
    counted = {(r["client_id"], r["interval_end"]): r for r in rows.collect()}
    assert sorted(r["gated_rate"] for r in counted.values()) == [0, 0, 3]
    run = analyse(rows, measure(rows, found, None, None), "both", found, 60_000_000, Progress(quiet=True))
    reasons = {r["reason"]: r["deliveries"] for r in run.rows_of("reasons") if r["what"] == "gated"}
    assert (reasons["backlog"], reasons["rate"]) == (1, 3)
    assert {r["client_id"]: r["gated"] for r in run.rows_of("worst_sessions")} == {"a": 4, "b": 0}
    queues = run.one("queues")
    assert (queues["rate_limited_seconds"], queues["window_bytes_full_seconds"]) == (2, 1)
    assert run.one("books", qos="all")["rows_off"] == 0


def test_a_range_between_the_rows_is_an_error(spark: "SparkSession", tmp_path: Path) -> None:
    """The hour has files but the range no rows: the message says what the files hold."""
    write_metrics(tmp_path, [row("a", 10), row("a", 20)])
    found = survey(tmp_path)
    with pytest.raises(ReportError) as caught:
        measure(rows_of(spark, found, at(60), None), found, at(60), None)
    assert "no rows in the asked range (2026-11-21T12:01:00+00:00 to the end)" in str(caught.value)
    assert "the files hold 2026-11-21T12:00:10+00:00 to 2026-11-21T12:00:20+00:00" in str(caught.value)


def test_files_without_rows_are_an_error(spark: "SparkSession", tmp_path: Path) -> None:
    """A sound file may be empty."""
    write_file(tmp_path / "date=2026-11-21" / "hour=12" / "x.parquet", [])
    found = survey(tmp_path)
    with pytest.raises(ReportError, match="the files are empty"):
        measure(rows_of(spark, found, None, None), found, None, None)


def test_compared_runs_share_their_windows() -> None:
    """The longer of two runs decides; a length that was asked for is checked against both."""
    short = Extent(10, 0, 60_000_000, 1_000_000)
    long = Extent(10, 0, 3_600_000_000, 10_000_000)
    assert common_window([short, long], None) == 30
    assert common_window([short, long], 60) == 60
    with pytest.raises(ReportError, match="at most 2000 can be shown"):
        common_window([short, long], 1)
