"""The dataset `intervals`: one row for each broker and end of an interval; and what files are counted by.

All values are checked here, in a pass of its own over the files: nothing is written of impossible ones, and in the long
expressions of the sums each further column makes Java's code slower.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.datasets import raw
from spark_jobs.datasets.limits import impossible
from spark_jobs.datasets.merged import by_key
from spark_jobs.metrics import NO_CLIENT
from spark_jobs.store.schema import HOUR_US, INTERVALS


def by_file(rows: DataFrame) -> DataFrame:
    """For each file, broker, listener and end of an interval the raw rows of sessions, of groups and their members, and
    the impossible ones.
    """
    return rows.groupBy(raw.FILE, "broker", "listener", "interval_end_us").agg(
        F.count_if(F.col("client_id") != NO_CLIENT).alias("rows"),
        F.count_if(raw.in_groups()).alias("grouped"),
        F.count_if(impossible(raw.COLUMNS)).alias("wrong"),
    )


def intervals(counts: DataFrame, before: DataFrame | None = None) -> DataFrame:
    """The dataset, from rows of `by_file` without copies; `before`: rows that they are added to."""
    found = (
        counts.where("rows > 0 OR grouped > 0")
        .groupBy("broker", "interval_end_us")
        .agg(F.sum("rows").alias("rows"), F.count_distinct(raw.FILE).alias("files"))
    )
    return found if before is None else by_key(INTERVALS, found.unionByName(before))


def by_hour(counts: DataFrame) -> DataFrame:
    """For each file, hour and broker the rows, their first and last interval_end, and `grouped` and `wrong` ones."""
    return counts.groupBy(raw.FILE, raw.start_of("interval_end_us", HOUR_US).alias("hour_us"), "broker").agg(
        F.sum("rows").alias("rows"),
        F.min("interval_end_us").alias("first_us"),
        F.max("interval_end_us").alias("last_us"),
        F.sum("grouped").alias("grouped"),
        F.sum("wrong").alias("wrong"),
    )


def listeners(counts: DataFrame) -> list[str]:
    """The listeners of sessions, sorted."""
    return sorted(row["listener"] for row in counts.where("rows > 0").select("listener").distinct().collect())
