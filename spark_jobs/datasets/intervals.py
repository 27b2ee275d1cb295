"""The dataset `intervals`: one row for each broker and end of an interval; and what files are counted by."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.datasets import raw
from spark_jobs.datasets.merged import by_key
from spark_jobs.store.schema import HOUR_US, INTERVALS


def by_file(rows: DataFrame) -> DataFrame:
    """The number of raw rows of sessions for each file, broker, listener and end of an interval."""
    return rows.groupBy(raw.FILE, "broker", "listener", "interval_end_us").agg(F.count(F.lit(1)).alias("rows"))


def intervals(counts: DataFrame, before: DataFrame | None = None) -> DataFrame:
    """The dataset, from rows of `by_file` without copies; `before`: rows that they are added to."""
    found = counts.groupBy("broker", "interval_end_us").agg(
        F.sum("rows").alias("rows"), F.count_distinct(raw.FILE).alias("files")
    )
    return found if before is None else by_key(INTERVALS, found.unionByName(before))


def by_hour(counts: DataFrame) -> DataFrame:
    """For each file, hour and broker the rows, and their first and last interval_end."""
    return counts.groupBy(raw.FILE, raw.start_of("interval_end_us", HOUR_US).alias("hour_us"), "broker").agg(
        F.sum("rows").alias("rows"),
        F.min("interval_end_us").alias("first_us"),
        F.max("interval_end_us").alias("last_us"),
    )


def listeners(counts: DataFrame) -> list[str]:
    """The listeners of all sessions, sorted."""
    return sorted(row["listener"] for row in counts.select("listener").distinct().collect())
