"""Raw rows of the broker's files as a DataFrame, and what can be said of one of them.

A row of a session or of a group of a shared subscription covers one interval; a group has no client_id. A row of a
broker and an interval, with neither client_id nor group, has sums over sessions.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.metrics import (
    AWAY_REASONS,
    DROP_REASONS,
    GATE_REASONS,
    HISTOGRAM_TYPE,
    NO_CLIENT,
    QOS,
    SCHEMA,
    TEXTS_TYPE,
    drop_column,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSION: Final = ("broker", "client_id", "session_started_us")
ROW_KEY: Final = (*SESSION, "interval_end_us")
"""Rows of sessions with the same key are copies."""
FILE: Final = "file"
"""The URI of a row's file."""

_SQL: Final = {
    "string": "string",
    "timestamp": "timestamp",
    "int32": "int",
    "int64": "bigint",
    "bool": "boolean",
    HISTOGRAM_TYPE: "array<bigint>",
    TEXTS_TYPE: "array<string>",
}
_NONE: Final[Mapping[str, str]] = {}
COLUMNS: Final = (*SCHEMA.fields, *SCHEMA.interval_fields)
DDL: Final = ", ".join(f"`{field.name}` {_SQL[field.type]}" for field in COLUMNS)
"""The columns of the contract as Spark SQL."""


def read(spark: "SparkSession", paths: Sequence[str], options: Mapping[str, str] = _NONE) -> DataFrame:
    """The rows of files with the columns of the contract, and FILE; times are in microseconds, as <name>_us."""
    # Without checksums a flipped bit in a page would mostly give a wrong number instead of an error.
    reader = spark.read.schema(DDL).options(**{"parquet.page.verify-checksum.enabled": "true", **options})
    rows = reader.parquet(*paths)
    times = [field.name for field in COLUMNS if field.type == "timestamp"]
    more = {f"{name}_us": F.unix_micros(name) for name in times}
    return rows.withColumns({**more, FILE: F.col("_metadata.file_path")}).drop(*times)


def of_sessions(rows: DataFrame) -> DataFrame:
    """The rows of sessions."""
    return rows.where(F.col("client_id") != NO_CLIENT)


def of_intervals(rows: DataFrame) -> DataFrame:
    """The rows of a broker and an interval."""
    return rows.where((F.col("client_id") == NO_CLIENT) & ~in_groups())


def of_groups(rows: DataFrame) -> DataFrame:
    """The rows of groups of shared subscriptions."""
    return rows.where((F.col("client_id") == NO_CLIENT) & in_groups())


def in_groups() -> Column:
    """Whether a row is of a group, or of a member of one."""
    return F.size("share_groups") > 0


def start_of(time_us: str, length_us: int) -> Column:
    """The start of the hour or slot of a time in microseconds."""
    return F.col(time_us) - F.pmod(F.col(time_us), F.lit(length_us))


def added(*names: str) -> Column:
    """The sum of some columns of a row."""
    return F.expr(" + ".join(f"`{name}`" for name in names))


def total(prefix: str) -> Column:
    """The sum over the three QoS."""
    return added(*(f"{prefix}_qos{qos}" for qos in QOS))


def dropped(reason: str) -> Column:
    """The drops for this reason, over the three QoS."""
    return added(*(name for qos in QOS if (name := drop_column(reason, qos)) is not None))


def duration() -> Column:
    """The length of the interval in microseconds; 0 if its clock ran backwards."""
    return F.greatest(F.col("interval_end_us") - F.col("interval_start_us"), F.lit(0))


def lived() -> Column:
    """How long the session existed in the interval.

    A session's last row ends with the export. A session that ended with its connection was not away up to that.
    """
    connected = F.least(F.col("connected_us"), duration())
    return F.when(F.col("ended") & (connected > 0), connected).otherwise(duration())


def away_dropped(qos: int) -> Column:
    """Drops that the broker could not prevent: the client was away for most of the interval, or had left."""
    away = F.col("connected_us") * 2 < lived()
    gone = [f"dropped_{reason}_qos{qos}" for reason in AWAY_REASONS if drop_column(reason, qos) is not None]
    return F.when(away, F.col(f"dropped_qos{qos}")).otherwise(added(*gone))


def away_waiting(qos: int) -> Column:
    """The growth of what waits for a client that is away at the end of the interval."""
    growth = F.col(f"waiting_qos{qos}") - F.col(f"waiting_start_qos{qos}")
    return F.when(F.col("connected") | F.col("ended"), 0).otherwise(growth)


def gated() -> Column:
    """QoS 0 deliveries that the gate queued."""
    return added(*(f"gated_{reason}" for reason in GATE_REASONS))


def pressed() -> Column:
    """Whether the session was under pressure in the interval."""
    clocks = ("congested_us", "window_full_us", "window_bytes_full_us", "rate_limited_us", "mailbox_busy_samples")
    return reduce(or_, [*(F.col(name) > 0 for name in clocks), gated() > 0])


def starved() -> Column:
    """Whether the session was connected, had deliveries offered or waiting, and was sent nothing."""
    demand = (total("offered") > 0) | (total("waiting_start") > 0)
    return F.col("connected") & demand & (total("sent") == 0)


def blocked() -> Column:
    """Whether QoS 1 or 2 waited at the start and at the end of the interval."""
    before, after = (added(f"{name}_qos1", f"{name}_qos2") for name in ("waiting_start", "waiting"))
    return (before > 0) & (after > 0)


def inverted() -> Column:
    """QoS 0 sent in a blocked interval that had not waited at its start and was not gated: it overtook QoS 1 or 2."""
    overtook = F.col("sent_qos0") - F.col("waiting_start_qos0") - gated()
    return F.when(blocked(), F.greatest(overtook, F.lit(0))).otherwise(0)


def books_off() -> Column:
    """Whether waiting_start + offered = sent + dropped + superseded + waiting is broken at some QoS."""
    return reduce(
        or_,
        (
            added(f"waiting_start_qos{qos}", f"offered_qos{qos}")
            != added(*(f"{name}_qos{qos}" for name in ("sent", "dropped", "superseded", "waiting")))
            for qos in QOS
        ),
    )


def reasons_off() -> Column:
    """Whether at some QoS the drops by reason do not add up to the drops."""
    named = {qos: [name for reason in DROP_REASONS if (name := drop_column(reason, qos)) is not None] for qos in QOS}
    return reduce(or_, (added(*names) != F.col(f"dropped_qos{qos}") for qos, names in named.items()))
