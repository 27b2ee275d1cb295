"""Table `worst_hours`: the worst sessions by hour, and their waiting times.

Only the rows of a few sessions are collected. In a range of more than MOST_POINTS hours, several consecutive hours
become one point.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.compaction.schema import HOUR_US
from spark_jobs.measures.histogram import bounded, merged
from spark_jobs.measures.numbers import ratio
from spark_jobs.measures.result import Row
from spark_jobs.measures.sessions import KEY, total
from spark_jobs.metrics import BUCKETS

MOST_SHOWN: Final = 12
MOST_POINTS: Final = 400
_SUMS: Final = ("offered", "sent", "dropped", "starved_rows", "window_full_us", "duration_us")
_HISTOGRAMS: Final = {
    "wait": ("wait_qos0_hist", "wait_qos1_hist", "wait_qos2_hist"),
    "ack": ("ack_qos1_hist", "ack_qos2_hist"),
}


def hours_of(session_hours: DataFrame, few: Sequence[Row], hours: int) -> list[Row]:
    """The hours of a few sessions: rank (from 1, their index in `few`), hour_us, sums, and histograms wait and ack.

    Args:
        session_hours: rows by `compaction.schema.SESSION_COLUMNS`.
        few: the sessions by their keys.
        hours: number of hours of the range.
    """
    if not few:
        return []
    keys = [(rank, *[row[name] for name in KEY]) for rank, row in enumerate(few, 1)]
    ranked = session_hours.sparkSession.createDataFrame(
        keys, "rank int, broker string, client_id string, session_started_us bigint"
    )
    step = HOUR_US * -(-hours // MOST_POINTS)
    point = F.col("hour_us") - F.pmod(F.col("hour_us"), F.lit(step))
    own = session_hours.join(F.broadcast(ranked), on=list(KEY)).withColumn("point", point)
    flow = {name: total(name) for name in ("offered", "sent", "dropped")}
    sums = [F.sum(flow.get(name, F.col(name))).alias(name) for name in _SUMS]
    sums += [_added(parts).alias(name) for name, parts in _HISTOGRAMS.items()]
    found = (
        own.groupBy("rank", "point").agg(*sums).withColumnRenamed("point", "hour_us").toArrow().to_pylist()
    )
    return sorted(found, key=lambda row: (row["rank"], row["hour_us"]))


def _added(names: Sequence[str]) -> Column:
    """Aggregate: the sum of several histograms; null counts as empty."""
    buckets = []
    for bucket in range(BUCKETS):
        count = " + ".join(f"coalesce(get({name}, {bucket}), 0L)" for name in names)
        buckets.append(f"sum({count})")
    return F.expr(f"array({', '.join(buckets)})")


def wait_p99(hours: Sequence[Row], rank: int) -> Mapping[str, Any]:
    """The 99th percentile of one session's waiting times over all its hours, with its bounds."""
    return bounded("wait_p99", merged(row["wait"] for row in hours if row["rank"] == rank), 990)


def worst_hours(hours: Sequence[Row], few: Sequence[Row]) -> list[Row]:
    """The rows of the table: the first MOST_SHOWN of the few sessions, hour by hour."""
    rows = []
    for row in hours:
        if row["rank"] > MOST_SHOWN:
            continue
        rows.append(
            {
                **{name: few[row["rank"] - 1][name] for name in KEY},
                **{
                    name: row[name]
                    for name in ("rank", "hour_us", "offered", "sent", "dropped", "starved_rows")
                },
                "delivery_ratio": ratio(row["sent"], row["offered"]),
                **bounded("ack_p99", row["ack"], 990),
                **bounded("wait_p99", row["wait"], 990),
                "window_full_share": ratio(row["window_full_us"], row["duration_us"]),
            }
        )
    return rows
