"""Updating stores in tests, and reading their content."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_jobs.compaction.compact import Compacted, Options, compact
from spark_jobs.progress import Progress
from spark_jobs.store.schema import SESSIONS, STARVATION, TIMELINE, TIMES, arrow_types
from spark_jobs.store.store import Store, open_store
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
        def spark_of(_rows: int) -> "SparkSession":
            assert not idle, "there is nothing to do"
            return spark

        asked = Options(str(metrics), str(store), **{"slot_us": 60_000_000} | options)
        return compact(asked, spark_of, Progress(quiet=True))

    return run_it


def rows_of(store: Store, dataset: str = SESSIONS) -> list[Row]:
    """Stored rows, with times in microseconds."""
    found: list[Row] = []
    for _, table in store.snapshot.by_hour(dataset):
        columns = {name: table[TIMES.get(name, name)].cast(kind) for name, kind in arrow_types(dataset).items()}
        found += pa.table(columns).to_pylist()
    return found


def tables(store: Path | str) -> Mapping[str, list[str]]:
    """The content of a store as text."""
    opened = open_store(str(store))
    return {name: sorted(map(str, rows_of(opened, name))) for name in (SESSIONS, TIMELINE, STARVATION)}
