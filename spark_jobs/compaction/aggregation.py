"""Aggregates raw rows to the rows of the compacted datasets: DataFrame in, DataFrame out.

All sums are of whole numbers, so the result does not depend on how the input is partitioned.

A session is **starved** in an interval in which it was connected, had deliveries offered or waiting, and was sent
nothing. QoS 0 is **inverted** if it overtook waiting QoS 1 or 2: in an interval that began and ended with QoS 1 or 2
waiting, the QoS 0 deliveries sent minus those that waited at its start and those that the gate queued.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.conditions import books_off, duration, gated, pressure, reasons_off
from spark_jobs.metrics import BUCKETS, COUNTERS, HISTOGRAMS
from spark_jobs.store.schema import (
    CALM_OR_PRESSED,
    DATASETS,
    FAIR_ONE,
    FAIR_SCOPES,
    GAUGES,
    HOUR_US,
    INTERVALS,
    PRESSED_COUNTERS,
    PRESSED_HISTOGRAMS,
    SESSIONS,
    STARVATION,
    TIMELINE,
    TIMELINE_COUNTERS,
    TIMELINE_GAUGES,
    TIMELINE_HISTOGRAMS,
    How,
    keys,
)
from spark_jobs.store.schema import Column as SchemaColumn

TOLERANCE_US: Final = 1_000_000  # between the end of an interval and the start of the next one in a run
GROUP_PATTERN: Final = "^([^-_/.:]*)[-_/.:]"
"""The part of a client id before the first separator is its topic group."""

_SESSION: Final = ("broker", "client_id", "session_started")
_LISTENERS: Final = 1 << 16  # how many `_code` can encode
_VERSIONS: Final = 1 << 8


def total(prefix: str) -> Column:
    """The sum over the three QoS of the columns <prefix>_qos0 to <prefix>_qos2."""
    return F.col(f"{prefix}_qos0") + F.col(f"{prefix}_qos1") + F.col(f"{prefix}_qos2")


def start_of(time_us: Column, length_us: int) -> Column:
    """The start of the hour or slot of a time in microseconds."""
    return time_us - F.pmod(time_us, F.lit(length_us))


def starved() -> Column:
    """Whether the raw row's session was connected, had deliveries offered or waiting, and was sent nothing."""
    demand = (total("offered") > 0) | (total("waiting_start") > 0)
    return F.col("connected") & demand & (total("sent") == 0)


def blocked() -> Column:
    """Whether QoS 1 or 2 waited at the start and at the end of the raw row's interval."""
    before = F.col("waiting_start_qos1") + F.col("waiting_start_qos2")
    after = F.col("waiting_qos1") + F.col("waiting_qos2")
    return (before > 0) & (after > 0)


def inverted() -> Column:
    """QoS 0 deliveries sent in a blocked interval that had not waited at its start and were not gated."""
    overtook = F.col("sent_qos0") - F.col("waiting_start_qos0") - gated()
    return F.greatest(overtook, F.lit(0))


def topic_group(client_id: Column) -> Column:
    """The part of a client id before its first of `-_/.:`; empty without one."""
    return F.regexp_extract(client_id, GROUP_PATTERN, 1)


def sessions(rows: DataFrame, listeners: Sequence[str]) -> DataFrame:
    """One row per session and hour, with the columns of the dataset `sessions`.

    Args:
        rows: raw rows.
        listeners: all names of listeners in the rows.
    """
    return folded_pressure(by_pressure(rows, listeners), listeners)


def by_pressure(rows: DataFrame, listeners: Sequence[str]) -> DataFrame:
    """One row per session, hour, and whether it was under pressure: each histogram as 32 columns.

    So the histograms are summed once; `folded_pressure` computes the sums under pressure from few rows. On 1.9 million
    rows that takes 25 seconds of processor time; a second set of sums takes 34. All values are numbers (see `_code`):
    with a string among them Spark would sort the rows instead of hashing them.
    """
    with_hour = _with_hour(rows).withColumn("pressed", pressure())
    return with_hour.groupBy(*_SESSION, "hour_us", "pressed").agg(
        F.count(F.lit(1)).alias("rows"),
        F.count_if("connected").alias("connected_rows"),
        F.sum("duration_us").alias("duration_us"),
        F.sum(_where(F.col("connected"), F.col("duration_us"))).alias("connected_us"),
        F.min(F.unix_micros("interval_start")).alias("first_us"),
        F.max("end_us").alias("last_us"),
        F.max(F.col("ended").cast("int")).alias("ended"),
        F.max(_code(listeners)).alias("code"),
        *[F.sum(name).alias(name) for name in COUNTERS],
        *[F.max(name).alias(name) for name in GAUGES],
        *_buckets(HISTOGRAMS),
        F.count_if(starved()).alias("starved_rows"),
        F.sum(_where(blocked(), inverted())).alias("inverted_qos0"),
        F.count_if(blocked()).alias("blocked_rows"),
        F.count_if(books_off(0) | books_off(1) | books_off(2)).alias("books_off_rows"),
        F.count_if(reasons_off()).alias("reasons_off_rows"),
    )


def folded_pressure(parts: DataFrame, listeners: Sequence[str]) -> DataFrame:
    """Merge the rows of `by_pressure`: one row per session and hour."""
    pressed = F.col("pressed")
    buckets = [f"{name}_{bucket}" for name in HISTOGRAMS for bucket in range(BUCKETS)]
    summed = [c.name for c in DATASETS[SESSIONS] if c.how is How.SUM and not c.name.startswith("pressed_")]
    twice = [f"{name}_{bucket}" for name in PRESSED_HISTOGRAMS for bucket in range(BUCKETS)]
    sums = parts.groupBy(*_SESSION, "hour_us").agg(
        F.min("first_us").alias("first_us"),
        *[F.max(name).alias(name) for name in ("last_us", "ended", "code", *GAUGES)],
        *[F.sum(name).alias(name) for name in (*summed, *buckets)],
        F.sum(_where(pressed, F.col("duration_us"))).alias("pressed_us"),
        F.sum(_where(pressed, F.col("rows"))).alias("pressed_rows"),
        *[F.sum(_where(pressed, F.col(name))).alias(f"pressed_{name}") for name in PRESSED_COUNTERS],
        *[F.sum(F.when(pressed, F.col(name))).alias(f"pressed_{name}") for name in twice],
    )
    computed = {
        "session_started_us": F.unix_micros("session_started"),
        "listener": _listener(listeners),
        "protocol_version": F.col("code").bitwiseAND(F.lit(_VERSIONS - 1)).cast("int"),
        "topic_group": topic_group(F.col("client_id")),
        "ended": F.col("ended") == 1,
        **{c.name: _histogram(c.name) for c in DATASETS[SESSIONS] if c.how is How.HISTOGRAM},
    }
    columns = [computed.get(c.name, F.col(c.name)).cast(c.type).alias(c.name) for c in DATASETS[SESSIONS]]
    return sums.select(*columns)


def timeline(rows: DataFrame, slot_us: int) -> DataFrame:
    """One row per broker and slot of `slot_us` microseconds, with the columns of the dataset `timeline`."""
    slot = start_of(F.col("end_us"), slot_us)
    with_slot = _with_hour(rows).withColumn("pressed", pressure()).withColumn("slot", slot)
    busy = (total("offered") > 0) | (total("waiting_start") > 0)
    sides = {"calm": ~F.col("pressed") & busy, "pressed": F.col("pressed") & busy}
    sums = with_slot.groupBy("broker", "slot").agg(
        F.count(F.lit(1)).alias("rows"),
        F.count_if("pressed").alias("pressed_rows"),
        *[F.sum(name).alias(name) for name in ("duration_us", *TIMELINE_COUNTERS)],
        *[F.max(name).alias(name) for name in TIMELINE_GAUGES],
        *[
            F.sum(_where(which, F.col(name))).alias(f"{side}_{name}")
            for side, which in sides.items()
            for name in CALM_OR_PRESSED
        ],
        *[column for scope in FAIR_SCOPES for column in _fairness(scope)],
        *_buckets(TIMELINE_HISTOGRAMS),
    )
    computed = {name: _histogram(name) for name in TIMELINE_HISTOGRAMS}
    return sums.select(*[computed.get(c.name, F.col(c.name)).cast(c.type).alias(c.name) for c in DATASETS[TIMELINE]])


def _fairness(scope: str) -> list[Column]:
    """The sums for Jain's index over the slot's session intervals with offered deliveries."""
    kinds = (
        (total("offered"), total("sent"))
        if scope == "all"
        else (F.col(f"offered_qos{scope}"), F.col(f"sent_qos{scope}"))
    )
    offered, sent = kinds
    # The check comes first: no division by 0.
    share = F.when(offered > 0, F.least(F.lit(FAIR_ONE).cast("bigint"), _quotient(sent * FAIR_ONE, offered)))
    return [
        F.count_if(offered > 0).alias(f"fair_n_{scope}"),
        F.coalesce(F.sum(share), F.lit(0)).alias(f"fair_x_{scope}"),
        F.coalesce(F.sum(share * share), F.lit(0)).alias(f"fair_xx_{scope}"),
        F.min(share).alias(f"fair_min_{scope}"),
    ]


def starvation(rows: DataFrame) -> DataFrame:
    """One row per run of starved intervals of one session within an hour."""
    pieces = _with_hour(rows.where(starved())).select(
        "broker",
        "client_id",
        F.unix_micros("session_started").alias("session_started_us"),
        "hour_us",
        F.unix_micros("interval_start").alias("start_us"),
        "end_us",
        F.lit(1).cast("bigint").alias("intervals"),
        total("offered").alias("offered"),
        total("waiting").alias("waiting"),
    )
    return _runs(pieces)


def _runs(pieces: DataFrame) -> DataFrame:
    """Runs of starved intervals within an hour, from intervals or shorter runs."""
    session = ("broker", "client_id", "session_started_us", "hour_us")
    in_time = Window.partitionBy(*session).orderBy("end_us", "start_us")
    gap = F.col("start_us") - F.lag("end_us").over(in_time)
    begins = gap.isNull() | (F.abs(gap) > TOLERANCE_US)
    numbered = pieces.withColumn("begins", begins.cast("bigint")).withColumn("run", F.sum("begins").over(in_time))
    runs = numbered.groupBy(*session, "run").agg(
        F.min("start_us").alias("start_us"),
        F.max("end_us").alias("end_us"),
        F.sum("intervals").alias("intervals"),
        F.sum("offered").alias("offered"),
        F.max_by("waiting", "end_us").alias("waiting"),
    )
    return runs.select(*[F.col(c.name).cast(c.type).alias(c.name) for c in DATASETS[STARVATION]])


def intervals(rows: DataFrame) -> DataFrame:
    """One row per broker and interval_end. `rows` has the raw columns and `file`."""
    return intervals_of(rows.groupBy("broker", "interval_end", "file").agg(F.count(F.lit(1)).alias("rows")))


def intervals_of(groups: DataFrame) -> DataFrame:
    """The same, from row counts by broker, interval_end and file."""
    sums = groups.groupBy("broker", "interval_end").agg(
        F.sum("rows").alias("rows"), F.count_distinct("file").alias("files")
    )
    named = sums.withColumn("interval_end_us", F.unix_micros("interval_end"))
    return named.select(*[F.col(c.name).cast(c.type).alias(c.name) for c in DATASETS[INTERVALS]])


def merged(dataset: str, frames: Sequence[DataFrame]) -> DataFrame:
    """Compacted rows of the same hours, merged by key."""
    rows = reduce(DataFrame.unionByName, frames)
    if dataset == STARVATION:
        return _runs(rows)
    at = "last_us" if dataset == SESSIONS else "slot"
    columns = [c for c in DATASETS[dataset] if c.how is not How.KEY]
    return rows.groupBy(*keys(dataset)).agg(*[_merge(c, at).alias(c.name) for c in columns])


def _merge(column: SchemaColumn, at: str) -> Column:
    name = column.name
    match column.how:
        case How.SUM:
            return F.sum(name)
        case How.MIN:
            return F.min(name)
        case How.MAX:
            return F.max(name)
        case How.ANY:
            return F.bool_or(name)
        case How.HISTOGRAM:
            buckets = [F.sum(F.get(F.col(name), F.lit(bucket))) for bucket in range(BUCKETS)]
            return F.when(buckets[0].isNotNull(), F.array(*buckets))
        case _:
            return F.max_by(name, F.struct(at, name))


def _with_hour(rows: DataFrame) -> DataFrame:
    """Add end_us, hour_us and duration_us."""
    timed = rows.withColumn("end_us", F.unix_micros("interval_end")).withColumn("duration_us", duration())
    return timed.withColumn("hour_us", start_of(F.col("end_us"), HOUR_US))


def _code(listeners: Sequence[str]) -> Column:
    """A number that is greatest in an hour's last row and encodes that row's listener and protocol version.

    From the highest bit: microseconds since the start of the hour (32 bits), position in `listeners` from 1 (16),
    version (8).
    """
    names = F.array(*[F.lit(name) for name in listeners[: _LISTENERS - 1]]) if listeners else F.array(F.lit(""))
    place = F.array_position(names, F.col("listener"))
    version = F.pmod(F.col("protocol_version").cast("bigint"), F.lit(_VERSIONS))
    return ((F.col("end_us") - F.col("hour_us")) * _LISTENERS + place) * _VERSIONS + version


def _listener(listeners: Sequence[str]) -> Column:
    names = F.array(F.lit(""), *[F.lit(name) for name in listeners[: _LISTENERS - 1]])
    place = F.shiftright("code", _VERSIONS.bit_length() - 1).bitwiseAND(F.lit(_LISTENERS - 1))
    return F.get(names, place.cast("int"))


def _buckets(names: Sequence[str]) -> list[Column]:
    """The sums of histograms' buckets, one column each: <name>_0 and so on."""
    return [
        F.sum(F.get(F.col(name), F.lit(bucket))).alias(f"{name}_{bucket}")
        for name in names
        for bucket in range(BUCKETS)
    ]


def _histogram(name: str) -> Column:
    """32 columns of sums as one array; null without a histogram."""
    sums = [F.col(f"{name}_{bucket}") for bucket in range(BUCKETS)]
    return F.when(sums[0].isNotNull(), F.array(*sums))


def _quotient(part: Column, whole: Column) -> Column:
    """part / whole, rounded down to a whole number."""
    return F.call_function("div", part, whole)


def _where(condition: Column, value: Column) -> Column:
    return F.when(condition, value).otherwise(F.lit(0).cast("bigint"))
