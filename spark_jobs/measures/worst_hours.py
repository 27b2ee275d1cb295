"""Table `worst_hours`: the worst sessions by hour, and their waiting times.

Only the rows of a few sessions are collected. In a range of more than MOST_POINTS hours, several consecutive hours
become one point.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.datasets.histograms import with_sums
from spark_jobs.datasets.raw import start_of, total
from spark_jobs.measures.histogram import bounded, merged, percentile, unpacked
from spark_jobs.measures.numbers import ratio
from spark_jobs.measures.result import Row
from spark_jobs.measures.sessions import CLIENT
from spark_jobs.store.schema import HOUR_US

MOST_SHOWN: Final = 12
MOST_POINTS: Final = 400
_FLOW: Final = ("offered", "sent", "dropped")
_SUMS: Final = ("starved_rows", "window_full_us", "duration_us")
_HISTOGRAMS: Final = {
    "wait": ("wait_qos0_buckets", "wait_qos1_buckets", "wait_qos2_buckets"),
    "ack": ("ack_qos1_buckets", "ack_qos2_buckets"),
}


def by_point(rows: DataFrame, few: Sequence[Mapping[str, Any]], hours: int) -> DataFrame:
    """The hours of a few clients, or of several hours together: their key, `point`, sums and histograms.

    Args:
        rows: rows by `store.schema.SESSION_COLUMNS`.
        few: the clients by their keys.
        hours: number of hours of the range.
    """
    keys = [F.struct(*[F.lit(row[name]).alias(name) for name in CLIENT]) for row in few]
    named = F.col("client_id").isin([row["client_id"] for row in few])  # which row groups of a file know
    own = rows.where(named & F.struct(*CLIENT).isin(keys))
    own = own.withColumn("point", start_of("hour_us", HOUR_US * -(-hours // MOST_POINTS)))
    sums = own.groupBy(*CLIENT, "point").agg(
        *[F.sum(total(name)).alias(name) for name in _FLOW], *[F.sum(name).alias(name) for name in _SUMS]
    )
    lists = {name: name for names in _HISTOGRAMS.values() for name in names}
    return with_sums(sums, [*CLIENT, "point"], [(own, lists)])


def hours_of(rows: Iterable[Mapping[str, Any]], few: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Rows of `by_point` with rank (from 1, their index in `few`), hour_us, and histograms wait and ack, in order."""
    ranks = {tuple(row[name] for name in CLIENT): rank for rank, row in enumerate(few, 1)}
    found = []
    for row in rows:
        lists = {what: merged(unpacked(row[name]) for name in names) for what, names in _HISTOGRAMS.items()}
        rank = ranks[tuple(row[name] for name in CLIENT)]
        found.append({**row, **lists, "rank": rank, "hour_us": row["point"]})
    return sorted(found, key=lambda row: (row["rank"], row["hour_us"]))


def latencies(hours: Sequence[Row], rank: int) -> Mapping[str, Any]:
    """Of one client over all its hours: the 99th percentile of waiting, the 1st and 50th of acknowledgement."""
    own = [row for row in hours if row["rank"] == rank]
    ack = merged(row["ack"] for row in own)
    found = {name: percentile(ack, per_mille) for name, per_mille in (("ack_p1", 10), ("ack_p50", 500))}
    values = {name: None if each is None else each.value for name, each in found.items()}
    return {**bounded("wait_p99", merged(row["wait"] for row in own), 990), **values}


def worst_hours(hours: Sequence[Row], few: Sequence[Row]) -> list[Row]:
    """The rows of the table: the first MOST_SHOWN of the few sessions, hour by hour."""
    rows = []
    for row in hours:
        if row["rank"] > MOST_SHOWN:
            continue
        rows.append(
            {
                **{name: few[row["rank"] - 1][name] for name in CLIENT},
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
