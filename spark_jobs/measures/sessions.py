"""Merges the hours and sessions of each client: one row per client, with the columns for its measures.

**Due** is what was offered to a client less what it missed because it was away: what was dropped meanwhile, and what
still waits for it at the end (`datasets.raw.away_dropped` and `away_waiting`). To a client that never came nothing was
due.
"""

from functools import reduce
from operator import add
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs import columns
from spark_jobs.datasets.raw import added, dropped, gated, total
from spark_jobs.metrics import DROP_REASONS, QOS

CLIENT: Final = ("broker", "client_id")
_OVERLAP_PER_CENT: Final = 5  # tolerance of the sum of an hour's intervals over the time that they span

_BY_QOS: Final = ("offered", "sent", "dropped", "received", "waiting_start", "waiting", "away_dropped", "away_waiting")
_SUMS: Final = (
    *(f"{name}_qos{q}" for name in _BY_QOS for q in QOS),
    "rows",
    "duration_us",
    "connected_us",
    "received_bytes",
    "window_full_us",
    "window_bytes_full_us",
    "rate_limited_us",
    "congested_us",
    "reading_paused_us",
    "publish_throttled_us",
    "publish_paced_us",
    "paced_for_us",
    "publish_parked_us",
    "publish_refused",
    "publish_parked",
    "publish_paged",
    "publish_discarded",
    "stalled_window",
    "slow_consumer",
    "starved_rows",
    "inverted_qos0",
    "blocked_rows",
    "books_off_rows",
    "reasons_off_rows",
)
_MAXIMA: Final = ("mqueue_max", "mailbox_max", "window_limit", "max_inflight")
_LATEST: Final = 1 << 60  # more than any time


def totals_of() -> dict[str, Column]:
    """What is added up within a row of `store.schema.SESSION_COLUMNS`: by QoS, by reason, and all that was gated."""
    by_reason = {f"dropped_{reason}": dropped(reason) for reason in DROP_REASONS}
    return {"gated": gated(), **by_reason, **{name: total(name) for name in _BY_QOS}}


def due() -> dict[str, Column]:
    """What was due at each QoS and over all, see the module; of one row or of their sums."""
    found: dict[str, Column] = {}
    for q in QOS:
        offered, dropped, before, after, kept = (
            F.col(f"{name}_qos{q}")
            for name in ("offered", "away_dropped", "waiting_start", "waiting", "away_waiting")
        )
        missed = dropped + F.greatest(F.least(after - before, kept), F.lit(0))
        found[f"due_qos{q}"] = F.when(F.col("connected_us") > 0, F.greatest(offered - missed, F.lit(0))).otherwise(0)
    return found | {"due": reduce(add, found.values())}


def begun() -> Column:
    """Whether a row is the first of its session: it begins with it."""
    return F.col("first_us") <= F.col("session_started_us")


def there() -> Column:
    """Whether a client was there and had something offered or waiting: only then it can be served well or badly."""
    return (F.col("connected_us") > 0) & (added("offered", "waiting_start") > 0)


def per_client(rows: DataFrame) -> DataFrame:
    """One row per client: client_prefix, listener (of its last hour), sums and maxima, those over all QoS, due, gated,
    dropped_<reason>, the sessions that began, and hours with overlapping intervals.

    Args:
        rows: rows by `store.schema.SESSION_COLUMNS`.
    """
    # In floating point, because whole numbers would overflow. An interval belongs to the hour in which it ends.
    span = F.col("last_us") - F.col("first_us")
    overlong = F.col("duration_us") * 100.0 > span * (100.0 + _OVERLAP_PER_CENT)
    # Only numbers are aggregated: with a text among them Spark would sort the rows instead of hashing them.
    last = F.col("hour_us").cast("decimal(38,0)") * _LATEST + F.col("session_started_us")
    names = rows.select("listener").distinct().withColumn("name", F.xxhash64("listener"))
    clients = rows.groupBy(*CLIENT, "client_prefix").agg(
        F.max_by(F.xxhash64("listener"), last).alias("name"),
        *columns.sums(_SUMS),
        *[F.sum(column).alias(name) for name, column in totals_of().items()],
        F.count_if(overlong).alias("overlong_hours"),
        F.count_if(begun()).alias("begun"),
        *columns.maxima((*_MAXIMA, "last_us")),
        F.min("first_us").alias("first_us"),
    )
    return clients.join(F.broadcast(names), "name").drop("name").withColumns(due())
