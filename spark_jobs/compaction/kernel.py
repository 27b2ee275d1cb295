"""Aggregates raw rows to the rows of the compacted datasets, in Arrow and NumPy: for as many rows as fit into memory.

The bench of the report compares the result with DuckDB's.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_jobs.arrays import TEXT, Groups, Ints, Mask, encoded, equals, ints, total_of
from spark_jobs.histograms import KIND, sums_by_group
from spark_jobs.metrics import (
    COUNTERS,
    DROP_REASONS,
    GATE_REASONS,
    HISTOGRAM_TYPE,
    HISTOGRAMS,
    NO_CLIENT,
    QOS,
    SCHEMA,
    drop_column,
)
from spark_jobs.store.schema import (
    DATASETS,
    GAUGES,
    HOUR_US,
    INTERVALS,
    PRESSED_COUNTERS,
    PRESSED_HISTOGRAMS,
    SESSIONS,
    STARVATION,
    TIMELINE,
    How,
    arrow_types,
    keys,
)

TOLERANCE_US: Final = 1_000_000  # between the end of an interval and the start of the next one in a run
_GROUP: Final = re.compile("^([^-_/.:]*)[-_/.:]")
_OUTCOMES: Final = ("sent", "dropped", "superseded", "waiting")
_SESSION: Final = ("broker", "client_id", "session_started_us")
ROW_KEY: Final = (*_SESSION, "interval_end_us")
"""Raw rows with the same key are duplicates."""
_NONE: Final = np.iinfo(np.int64).max  # the lowest value of nothing
_TYPES: Final = {
    "timestamp": pa.int64(),
    "string": TEXT,
    "int32": pa.int64(),
    "int64": pa.int64(),
    "bool": pa.int64(),
    HISTOGRAM_TYPE: KIND,
}
RAW: Final = pa.schema(
    [(f"{f.name}_us" if f.type == "timestamp" else f.name, _TYPES[f.type]) for f in SCHEMA.fields]
)
"""The columns of raw rows here: times in microseconds as <name>_us, bools as 0 and 1, texts encoded."""

INTERVAL_RAW: Final = pa.schema(
    [
        ("broker", pa.string()),
        ("interval_end_us", pa.int64()),
        *((name, kind) for name, kind in arrow_types(TIMELINE).items() if name not in {"broker", "slot"}),
    ]
)
"""The columns of rows of broker and interval: those of the timeline, without its slot."""


def raw_rows(table: pa.Table) -> pa.Table:
    """The rows of sessions in files, with the columns of RAW."""
    table = of_sessions(table)
    columns = [
        encoded(table[field.name]) if wanted.type == TEXT else table[field.name].cast(wanted.type)
        for field, wanted in zip(SCHEMA.fields, RAW, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=RAW)


def of_sessions(table: pa.Table) -> pa.Table:
    """Rows of files without those of broker and interval."""
    without = equals(table["client_id"], NO_CLIENT)
    return table.filter(pa.array(~without)) if without.any() else table


def interval_rows(table: pa.Table) -> pa.Table:
    """The rows of broker and interval of files, with the columns of the timeline; times as in RAW."""
    without = equals(table["client_id"], NO_CLIENT)
    table = table.filter(pa.array(without)) if without.any() else table.slice(0, 0)
    columns = []
    for wanted in INTERVAL_RAW:
        name = wanted.name.removesuffix("_us") if wanted.name == "interval_end_us" else wanted.name
        column = table[name].cast(wanted.type)
        may_be_null = pa.types.is_list(wanted.type) or name.startswith("fair_min_")
        columns.append(column if may_be_null or not column.null_count else column.fill_null(0))
    return pa.Table.from_arrays(columns, schema=INTERVAL_RAW)


def with_hour(rows: pa.Table) -> pa.Table:
    """Raw rows with the start of their hour."""
    end = ints(rows, "interval_end_us")
    return rows.append_column("hour_us", pa.array(end - end % HOUR_US))


def datasets(rows: pa.Table) -> dict[str, pa.Table]:
    """The sessions and the runs of starved intervals of raw rows, which have hour_us and no duplicates."""
    row = _Rows(rows)
    return {SESSIONS: _sessions(rows, row), STARVATION: _starvation(rows, row)}


class _Rows:
    """Conditions and values of raw rows."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        start, end = ints(rows, "interval_start_us"), ints(rows, "interval_end_us")
        self.duration: Ints = np.maximum(end - start, 0)
        connected = np.minimum(ints(rows, "connected_us"), self.duration)
        # A session's last row ends with the export. A session that ended with its connection was not away up to that.
        left = (ints(rows, "ended") > 0) & (connected > 0)
        self.lived: Ints = np.where(left, connected, self.duration)
        """How long the session existed in the interval."""
        self.gated = total_of(rows, [f"gated_{reason}" for reason in GATE_REASONS])
        self.pressed: Mask = self.gated > 0
        for name in ("congested", "window_full", "window_bytes_full", "rate_limited"):
            self.pressed = self.pressed | (ints(rows, f"{name}_us") > 0)
        self.pressed = self.pressed | (ints(rows, "mailbox_busy_samples") > 0)
        self.offered, self.sent, before = (self.total(name) for name in ("offered", "sent", "waiting_start"))
        self.connected: Mask = ints(rows, "connected") > 0
        self.busy: Mask = (self.offered > 0) | (before > 0)
        self.starved: Mask = self.connected & self.busy & (self.sent == 0)
        waited = total_of(rows, ["waiting_start_qos1", "waiting_start_qos2"]) > 0
        self.blocked: Mask = waited & (total_of(rows, ["waiting_qos1", "waiting_qos2"]) > 0)
        overtook = ints(rows, "sent_qos0") - ints(rows, "waiting_start_qos0") - self.gated
        self.inverted: Ints = np.where(self.blocked, np.maximum(overtook, 0), 0)

    def total(self, prefix: str) -> Ints:
        """The sum over the three QoS."""
        return total_of(self.rows, [f"{prefix}_qos{qos}" for qos in QOS])

    def books_off(self) -> Mask:
        """Whether a row breaks waiting_start + offered = sent + dropped + superseded + waiting at some QoS."""
        off = np.zeros(self.rows.num_rows, np.bool_)
        for q in QOS:
            entered = total_of(self.rows, [f"waiting_start_qos{q}", f"offered_qos{q}"])
            off |= entered != total_of(self.rows, [f"{name}_qos{q}" for name in _OUTCOMES])
        return off

    def reasons_off(self) -> Mask:
        """Whether at some QoS the sum of a row's drops by reason differs from its drops."""
        off = np.zeros(self.rows.num_rows, np.bool_)
        for q in QOS:
            names = [name for reason in DROP_REASONS if (name := drop_column(reason, q)) is not None]
            off |= total_of(self.rows, names) != ints(self.rows, f"dropped_qos{q}")
        return off


def _sessions(rows: pa.Table, row: _Rows) -> pa.Table:
    groups = Groups(rows, (*_SESSION, "hour_us"), ["interval_end_us"])
    sums: dict[str, Ints | Mask] = {name: ints(rows, name) for name in COUNTERS}
    sums |= {f"pressed_{name}": np.where(row.pressed, sums[name], 0) for name in PRESSED_COUNTERS}
    sums |= {
        "rows": np.ones(rows.num_rows, np.int64),
        "connected_rows": row.connected,
        "duration_us": row.lived,
        "pressed_us": np.where(row.pressed, row.lived, 0),
        "pressed_rows": row.pressed,
        "starved_rows": row.starved,
        "inverted_qos0": row.inverted,
        "blocked_rows": row.blocked,
        "books_off_rows": row.books_off(),
        "reasons_off_rows": row.reasons_off(),
    }
    clients = groups.first("client_id")
    columns: dict[str, Any] = groups.keys() | {name: groups.last(name) for name in ("listener", "protocol_version")}
    columns |= {name: _summed(groups, values) for name, values in sums.items()}
    columns |= {name: groups.max(ints(rows, name)) for name in GAUGES}
    columns |= {name: sums_by_group(groups, rows, name) for name in HISTOGRAMS}
    columns |= {f"pressed_{name}": sums_by_group(groups, rows, name, row.pressed) for name in PRESSED_HISTOGRAMS}
    columns["first_us"] = groups.min(ints(rows, "interval_start_us"))
    columns["last_us"] = groups.last("interval_end_us")
    columns["ended"] = groups.max(ints(rows, "ended")) > 0
    columns["topic_group"] = topic_groups(clients)
    return _table(SESSIONS, columns)


def topic_groups(clients: pa.Array) -> pa.Array:
    """The part of each client id before its first of `-_/.:`; empty without one."""
    return pa.array([match[1] if (match := _GROUP.match(name)) else "" for name in clients.to_pylist()], pa.string())


def timeline_of(intervals: pa.Table, slot_us: int) -> pa.Table:
    """The timeline of rows of broker and interval, without copies."""
    end = ints(intervals, "interval_end_us")
    rows = intervals.append_column("slot", pa.array(end - end % slot_us))
    return merged(TIMELINE, [rows.select([c.name for c in DATASETS[TIMELINE]])])


def _starvation(rows: pa.Table, row: _Rows) -> pa.Table:
    starved = pa.array(row.starved)
    columns = {name: rows[name].filter(starved) for name in (*_SESSION, "hour_us")}
    columns |= {
        "start_us": rows["interval_start_us"].filter(starved),
        "end_us": rows["interval_end_us"].filter(starved),
        "intervals": pa.array(np.ones(int(row.starved.sum()), np.int64)),
        "offered": pa.array(row.offered[row.starved]),
        "waiting": pa.array(row.total("waiting")[row.starved]),
    }
    return _runs(pa.table(columns))


def _runs(pieces: pa.Table) -> pa.Table:
    """Runs of starved intervals within an hour, from intervals or shorter runs."""
    by_hour = Groups(pieces, (*_SESSION, "hour_us"), ["end_us", "start_us"])
    pieces = pieces.take(pa.array(by_hour.order))
    start, end = ints(pieces, "start_us"), ints(pieces, "end_us")
    begins = np.ones(len(start), np.bool_)
    begins[1:] = np.abs(start[1:] - end[:-1]) > TOLERANCE_US
    begins[by_hour.starts] = True
    pieces = pieces.append_column("run", pa.array(np.cumsum(begins)))
    runs = Groups(pieces, ["run"], ["end_us"])
    columns: dict[str, Any] = {name: runs.first(name) for name in (*_SESSION, "hour_us")}
    columns |= {"start_us": runs.min(start), "end_us": runs.max(end), "waiting": runs.last("waiting")}
    columns |= {name: runs.sum(ints(pieces, name)) for name in ("intervals", "offered")}
    return _table(STARVATION, columns)


def intervals(rows: pa.Table) -> pa.Table:
    """One row for each broker and interval_end; `file` is a number."""
    by_file = Groups(rows, ("broker", "interval_end_us", "file"))
    files = pa.table(dict(by_file.keys())).append_column("rows", pa.array(by_file.count()))
    groups = Groups(files, ("broker", "interval_end_us"))
    return _table(
        INTERVALS, groups.keys() | {"rows": groups.sum(ints(files, "rows")), "files": groups.count()}
    )


def merged(dataset: str, tables: Sequence[pa.Table]) -> pa.Table:
    """Compacted rows of the same hours, merged by key."""
    rows = pa.concat_tables(tables)
    if dataset == STARVATION:
        return _runs(rows)
    at = {SESSIONS: ["last_us"]}.get(dataset, [])
    groups = Groups(rows, keys(dataset), at)
    columns: dict[str, Any] = dict(groups.keys())
    for column in DATASETS[dataset]:
        name = column.name
        match column.how:
            case How.SUM:
                columns[name] = groups.sum(ints(rows, name))
            case How.MAX:
                columns[name] = groups.max(ints(rows, name))
            case How.MIN:
                there = rows[name].is_valid().to_numpy()
                columns[name] = _least(groups.min(np.where(there, ints(rows, name), _NONE)))
            case How.ANY:
                columns[name] = groups.max(ints(rows, name)) > 0
            case How.LAST:
                columns[name] = groups.last(name)
            case How.HISTOGRAM:
                columns[name] = sums_by_group(groups, rows, name)
            case How.KEY:
                pass
    return _table(dataset, columns)


def _table(dataset: str, columns: Mapping[str, Any]) -> pa.Table:
    types = arrow_types(dataset)
    arrays = []
    for name, kind in types.items():
        values = columns[name]
        arrays.append((pa.array(values) if isinstance(values, np.ndarray) else values).cast(kind))
    return pa.Table.from_arrays(arrays, schema=pa.schema(list(types.items())))


def _summed(groups: Groups, values: Ints | Mask) -> Ints:
    if not values.any():  # as most counters
        return np.zeros(len(groups), np.int64)
    summed: Ints = groups.sum(values.astype(np.int64, copy=False))
    return summed


def _least(values: Ints) -> pa.Array:
    return pa.array(values, mask=values == _NONE)
