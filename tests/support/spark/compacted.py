"""Compacted rows for tests of the measures: literal rows by the columns of `spark_jobs.compaction.schema`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spark_jobs.compaction import schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.measures.frames import StoreFrames

HOUR = schema.HOUR_US
SECOND = 1_000_000
MINUTE = 60 * SECOND
NOON = 1_795_262_400 * SECOND  # 2026-11-21 12:00 UTC, an hour's beginning
SLOT = MINUTE

Row = dict[str, Any]

_DEFAULTS: dict[str, Any] = {"string": "", "bigint": 0, "int": 0, "boolean": False, "array<bigint>": None}


def _row(dataset: str, values: Row) -> Row:
    made = {column.name: _DEFAULTS[column.type] for column in schema.DATASETS[dataset]}
    assert not (unknown := values.keys() - made.keys()), f"no such columns: {unknown}"
    return made | values


def session_hour(client_id: str = "a", hour: int = 0, **values: Any) -> Row:
    """A session connected for one whole hour (counted from noon) in 60 intervals of a minute; the rest is 0."""
    start = NOON + hour * HOUR
    defaults: Row = {
        "broker": "b1",
        "client_id": client_id,
        "session_started_us": NOON,
        "hour_us": start,
        "listener": "tcp",
        "protocol_version": 5,
        "rows": 60,
        "connected_rows": 60,
        "duration_us": HOUR,
        "connected_us": HOUR,
        "first_us": start,
        "last_us": start + HOUR,
    }
    return _row(schema.SESSIONS, defaults | values)


def slot(minute: int = 0, broker: str = "b1", **values: Any) -> Row:
    """One slot of a minute of one broker; fair_min_* is 1 unless given."""
    lowest = {f"fair_min_{scope}": None for scope in schema.FAIR_SCOPES}
    return _row(schema.TIMELINE, {"broker": broker, "slot": NOON + minute * MINUTE, **lowest, **values})


def starved_run(client_id: str = "a", start: int = 0, intervals: int = 1, **values: Any) -> Row:
    """A run of starved intervals of a minute each, beginning `start` minutes after noon, inside one hour."""
    begin, end = NOON + start * MINUTE, NOON + (start + intervals) * MINUTE
    defaults: Row = {
        "broker": "b1",
        "client_id": client_id,
        "session_started_us": NOON,
        "hour_us": (end - 1) // HOUR * HOUR,
        "start_us": begin,
        "end_us": end,
        "intervals": intervals,
        "offered": intervals,
        "waiting": 1,
    }
    return _row(schema.STARVATION, defaults | values)


def frame(spark: "SparkSession", dataset: str, rows: Sequence[Row]) -> "DataFrame":
    """Rows as a frame with the dataset's columns."""
    names = [column.name for column in schema.DATASETS[dataset]]
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], schema.ddl(dataset))


def store_frames(
    spark: "SparkSession",
    sessions: Sequence[Row],
    timeline: Sequence[Row] = (),
    starvation: Sequence[Row] = (),
    **values: Any,
) -> "StoreFrames":
    """All the frames of a selection."""
    from spark_jobs.measures.frames import StoreFrames

    return StoreFrames(
        frame(spark, schema.SESSIONS, sessions),
        frame(spark, schema.TIMELINE, timeline),
        frame(spark, schema.STARVATION, starvation),
        slot_us=SLOT,
        **values,
    )
