"""Compacted rows for tests of the measures: literal rows by the columns of `spark_jobs.store.schema`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spark_jobs.measures.frames import StoreFrames
from spark_jobs.store import schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    start = NOON + minute * MINUTE
    return _row(schema.TIMELINE, {"broker": broker, "slot": start, "last_us": start + MINUTE, **lowest, **values})


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
    """Rows with the dataset's columns, times in microseconds."""
    columns = schema.DATASETS[dataset]
    kinds = ", ".join(f"`{column.name}` {column.type}" for column in columns)
    return spark.createDataFrame([tuple(row[column.name] for column in columns) for row in rows], kinds)


def collected(rows: "DataFrame") -> list[Row]:
    """The rows of a frame."""
    return [row.asDict() for row in rows.collect()]


def store_frames(
    spark: "SparkSession",
    sessions: Sequence[Row],
    timeline: Sequence[Row] = (),
    starvation: Sequence[Row] = (),
    **values: Any,
) -> StoreFrames:
    """All the rows of a selection."""
    return StoreFrames(
        frame(spark, schema.SESSIONS, sessions),
        frame(spark, schema.TIMELINE, timeline),
        frame(spark, schema.STARVATION, starvation),
        slot_us=SLOT,
        **values,
    )
