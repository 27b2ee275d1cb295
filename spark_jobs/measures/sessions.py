"""Merges the hours of each session: one row per session, with the columns for its measures."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.compaction.schema import HOUR_US
from spark_jobs.metrics import DROP_REASONS, GATE_REASONS, QOS, drop_column

KEY: Final = ("broker", "client_id", "session_started_us")
MOST_LISTENERS: Final = 4096  # a power of two, far above the number in any fleet
_OVERLAP_PER_CENT: Final = 5  # tolerance of the sum of an hour's intervals over the time that they span

_BY_QOS: Final = ("offered", "sent", "dropped", "received")
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
_MAXIMA: Final = ("mqueue_max", "mailbox_max", "window_limit")
CLOCKS: Final = ("window_full", "window_bytes_full", "rate_limited", "congested")


def total(prefix: str) -> Column:
    """The sum over the three QoS of the columns <prefix>_qos0 to <prefix>_qos2."""
    return F.col(f"{prefix}_qos0") + F.col(f"{prefix}_qos1") + F.col(f"{prefix}_qos2")


def listeners_of(sessions: DataFrame) -> list[str]:
    """The names of the listeners, sorted."""
    found = sessions.select("listener").distinct().orderBy("listener").limit(MOST_LISTENERS - 1).collect()
    return [row["listener"] for row in found]


def per_session(hours: DataFrame, listeners: Sequence[str]) -> DataFrame:
    """One row per session: key, topic_group, listener (of its last hour), sums and maxima, offered, sent and dropped.

    Also gated, dropped_<reason> over all QoS, and overlong_hours, the number of hours with overlapping intervals.

    Args:
        hours: rows by `compaction.schema.SESSION_COLUMNS`.
        listeners: the names that occur, see `listeners_of`.
    """
    # With a text among the aggregates Spark would sort the rows instead of hashing them, so the last listener is
    # encoded as a number together with the hour.
    named = F.array(*[F.lit(name) for name in listeners])
    position = F.array_position(named, F.col("listener")).cast("bigint")
    encoded = F.floor(F.col("hour_us") / HOUR_US) * MOST_LISTENERS + F.coalesce(position, F.lit(0))
    sums = hours.groupBy(*KEY, "topic_group").agg(
        *[F.sum(name).alias(name) for name in _SUMS],
        *[F.max(name).alias(name) for name in _MAXIMA],
        F.sum(_gated()).alias("gated"),
        *[F.sum(_dropped_for(reason)).alias(f"dropped_{reason}") for reason in DROP_REASONS],
        F.count_if(_overlong()).alias("overlong_hours"),
        F.max(encoded).alias("encoded"),
    )
    last = F.get(named, F.pmod(F.col("encoded"), F.lit(MOST_LISTENERS)).cast("int") - 1)
    return sums.select(
        *KEY,
        F.coalesce(last, F.lit("")).alias("listener"),
        "topic_group",
        *_SUMS,
        *_MAXIMA,
        "gated",
        *[f"dropped_{reason}" for reason in DROP_REASONS],
        "overlong_hours",
        *[total(name).alias(name) for name in _BY_QOS],
    )


def _overlong() -> Column:
    """Whether the hour's intervals overlap. (An interval belongs to the hour in which it ends.)"""
    span = F.col("last_us") - F.col("first_us")
    return F.col("duration_us") * 100.0 > span * (100.0 + _OVERLAP_PER_CENT)  # whole numbers would overflow


def _gated() -> Column:
    first, *others = [F.col(f"gated_{reason}") for reason in GATE_REASONS]
    return sum(others, first)


def _dropped_for(reason: str) -> Column:
    names = [name for qos in QOS if (name := drop_column(reason, qos)) is not None]
    first, *others = [F.col(name) for name in names]
    return sum(others, first)
