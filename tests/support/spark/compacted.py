"""Compacted rows for tests of the measures: literal rows by the columns of `spark_jobs.store.schema`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_jobs.measures.frames import StoreFrames
from spark_jobs.store import schema

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


def table(dataset: str, rows: Sequence[Row]) -> pa.Table:
    """Rows as a table with the dataset's columns, times in microseconds."""
    return pa.Table.from_pylist(list(rows), schema=pa.schema(list(schema.arrow_types(dataset).items())))


@dataclass(frozen=True)
class HeldRows:
    """Rows in memory, in parts of some length."""

    rows: pa.Table
    length: int = 1_000_000

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """See `Rows`."""
        wanted = self.rows if columns is None else self.rows.select([n for n in self.rows.column_names if n in columns])
        for start in range(0, max(1, wanted.num_rows), self.length):
            yield wanted.slice(start, self.length)


def store_frames(
    sessions: Sequence[Row],
    timeline: Sequence[Row] = (),
    starvation: Sequence[Row] = (),
    **values: Any,
) -> StoreFrames:
    """All the rows of a selection."""
    return StoreFrames(
        HeldRows(table(schema.SESSIONS, sessions)),
        HeldRows(table(schema.TIMELINE, timeline)),
        HeldRows(table(schema.STARVATION, starvation)),
        slot_us=SLOT,
        **values,
    )
