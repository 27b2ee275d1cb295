"""Table `reconnecting_clients`: clients of which many sessions began within an hour."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_jobs.measures.numbers import ratio
from spark_jobs.measures.result import Row
from spark_jobs.measures.sessions import CLIENT, begun

LEAST: Final = 10
MOST: Final = 20
LONGEST_US: Final = 60_000_000
"""From one start to the next, at most, on average."""


def by_client(rows: DataFrame) -> DataFrame:
    """Each of these clients with its worst hour, most sessions first.

    Args:
        rows: rows by `store.schema.SESSION_COLUMNS`.
    """
    count = F.col("begun")
    hours = (
        rows.where(begun())
        .groupBy("hour_us", *CLIENT)
        .agg(
            F.count(F.lit(1)).alias("begun"),
            F.sum("connected_us").alias("connected_us"),
            F.min("session_started_us").alias("first_us"),
            F.max("session_started_us").alias("last_us"),
        )
        .where((count >= LEAST) & (F.col("last_us") - F.col("first_us") <= LONGEST_US * count))
    )
    worst_first = Window.partitionBy(*CLIENT).orderBy(F.desc("begun"), "hour_us")
    worst = hours.withColumn("place", F.row_number().over(worst_first)).where(F.col("place") == 1)
    return worst.orderBy(F.desc("begun"), *CLIENT).limit(MOST)


def reconnecting(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The rows of the table.

    `connected_share` is the share of the time from the first to the last start in which those sessions were connected.

    Args:
        rows: of `by_client`.
    """
    made = []
    for row in rows:
        time_us = row["last_us"] - row["first_us"]
        named = {name: row[name] for name in (*CLIENT, "begun", "first_us", "last_us")}
        made.append({**named, "connected_share": ratio(min(row["connected_us"], time_us), time_us)})
    return made
