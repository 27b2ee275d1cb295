"""The dataset `starvation`: one row for each run of starved intervals of a session within an hour."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_jobs.datasets import raw
from spark_jobs.store.schema import DATASETS, HOUR_US, STARVATION

TOLERANCE_US: Final = 1_000_000  # between the end of an interval and the start of the next one in a run
_SESSION: Final = (*raw.SESSION, "hour_us")


def starvation(rows: DataFrame, before: DataFrame | None = None) -> DataFrame:
    """The dataset of raw rows.

    Args:
        rows: raw rows of sessions without copies.
        before: rows of the dataset that they are added to.
    """
    pieces = rows.where(raw.starved()).select(
        *raw.SESSION,
        raw.start_of("interval_end_us", HOUR_US).alias("hour_us"),
        F.col("interval_start_us").alias("start_us"),
        F.col("interval_end_us").alias("end_us"),
        F.lit(1).cast("bigint").alias("intervals"),
        raw.total("offered").alias("offered"),
        raw.total("waiting").alias("waiting"),
    )
    return _runs(pieces if before is None else pieces.unionByName(before))


def _runs(pieces: DataFrame) -> DataFrame:
    """Runs, from intervals or shorter runs."""
    in_time = Window.partitionBy(*_SESSION).orderBy("end_us", "start_us")
    gap = F.col("start_us") - F.lag("end_us").over(in_time)
    begins = (gap.isNull() | (F.abs(gap) > TOLERANCE_US)).cast("int")
    numbered = pieces.withColumn("begins", begins).withColumn("run", F.sum("begins").over(in_time))
    runs = numbered.groupBy(*_SESSION, "run").agg(
        F.min("start_us").alias("start_us"),
        F.max("end_us").alias("end_us"),
        F.sum("intervals").alias("intervals"),
        F.sum("offered").alias("offered"),
        F.max_by("waiting", "end_us").alias("waiting"),
    )
    return runs.select(*[column.name for column in DATASETS[STARVATION]])
