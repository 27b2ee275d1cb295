"""Updating stores in tests, and reading their content."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.compaction.compact import Compacted, Options, compact
from spark_jobs.progress import Progress
from spark_jobs.store.store import StoredRows, open_store
from tests.support.spark.metrics_files import Row, histogram, row, write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., Compacted]
HOUR = "date=2026-11-21/hour=12"
NEXT = "date=2026-11-21/hour=13"


def minutes(*numbers: int, client: str = "a", **values: Any) -> list[Row]:
    """Rows of a session for some minutes after noon."""
    extra = {"offered_qos1": 3, "sent_qos1": 2, "ack_qos1_buckets": histogram([5, 11])}
    return [row(client, 60 * number, 60, **extra | values) for number in numbers]


def write_two_hours(raw: Path) -> None:
    """Two minutes of a session in one hour, and one in the next."""
    write_file(raw / HOUR / "a.parquet", minutes(1, 2))
    write_file(raw / NEXT / "b.parquet", minutes(61))


def runner(spark: "SparkSession") -> Run:
    """A function that compacts; with `idle`, there must be nothing to do."""

    def run_it(metrics: Path | str, store: Path | str, *, idle: bool = False, **options: Any) -> Compacted:
        def spark_of() -> "SparkSession":
            assert not idle, "there is nothing to do"
            return spark

        asked = Options(str(metrics), str(store), **{"slot_us": 60_000_000} | options)
        return compact(asked, spark_of, Progress(quiet=True))

    return run_it


def rows_of(rows: StoredRows) -> list[Row]:
    """Stored rows."""
    return [row for part in rows.parts() for row in part.to_pylist()]


def tables(store: Path | str) -> Mapping[str, list[str]]:
    """The content of a store as text."""
    opened = open_store(str(store))
    held = {"sessions": opened.sessions(), "timeline": opened.timeline(), "starvation": opened.starvation()}
    return {name: sorted(map(str, rows_of(rows))) for name, rows in held.items()}
