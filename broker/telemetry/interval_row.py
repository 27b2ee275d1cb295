"""The row of broker and interval: sums over all rows of an export (`interval_doc` in metrics_schema.json).

All is computed in Arrow, which releases the interpreter. Its values are made of buffers: to make one of Python's
imports pandas where that is installed.
"""

from array import array
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from broker.telemetry.schema import MetricsSchema

FAIR_ONE: Final = 100_000
"""The delivery ratio of a row to which all was sent."""

_PRESSURE: Final = ("congested_us", "window_full_us", "window_bytes_full_us", "rate_limited_us", "mailbox_busy_samples")
_GONE: Final = ("dropped_offline_qos0_qos0", *(f"dropped_session_ended_qos{qos}" for qos in range(3)))
"""Drops because the client was away or had left."""
_SPLIT: Final = ("offered_qos0", "sent_qos0", "dropped_qos0")


def interval_row(rows: pa.Table, schema: MetricsSchema) -> pa.Table:
    """The row of broker and interval for the rows of one export, of which there is at least one; not for groups."""
    rows = rows.combine_chunks()
    start = pc.min(rows["interval_start"])
    export, of_session = rows, pc.greater(pc.binary_length(rows["client_id"]), _column([0])[0])
    if not pc.all(of_session).as_py():
        rows = rows.filter(of_session)
    values: dict[str, Any] = {
        **{name: _int(pc.sum(rows[name])) for name in (*schema.counters, *schema.drops)},
        **{name: _int(pc.max(rows[name])) for name in schema.gauges},
        **_of_interval(rows),
    }
    nothing = pa.nulls(1, pa.int64())
    made: dict[str, pa.Array] = {
        name: nothing if value is None else _column([value]) for name, value in values.items()
    }
    made |= {name: _histogram(rows[name].combine_chunks()) for name in schema.histograms}
    made |= {name: _repeat(start) for name in ("interval_start", "session_started")}
    made |= {name: _first(export, name) for name in ("broker", "interval_end")}
    for name in ("client_id", "listener"):
        made[name] = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(bytes(8)), pa.py_buffer(b"")])
    made["protocol_version"] = pa.Array.from_buffers(pa.int32(), 1, [None, pa.py_buffer(bytes(4))])
    for name in ("connected", "ended"):
        made[name] = pa.Array.from_buffers(pa.bool_(), 1, [None, pa.py_buffer(b"\0")])
    no_groups = pa.py_buffer(bytes(8))
    made["share_groups"] = pa.Array.from_buffers(
        pa.list_(pa.string()), 1, [None, no_groups], children=[made["client_id"].slice(0, 0)]
    )
    return pa.Table.from_arrays([made[field.name] for field in schema.arrow], schema=schema.arrow)


def _of_interval(rows: pa.Table) -> dict[str, int | None]:
    """The columns that only this row has."""
    zero = _column([0])[0]
    gated = [name for name in rows.column_names if name.startswith("gated_")]
    pressed = pc.greater(_total(rows, (*_PRESSURE, *gated)), zero)
    offered, waiting = (_by_qos(rows, name) for name in ("offered", "waiting_start"))
    busy = pc.or_(pc.greater(offered, zero), pc.greater(waiting, zero))
    start, end = (rows[f"interval_{name}"].cast(pa.int64()) for name in ("start", "end"))
    length = pc.max_element_wise(pc.subtract(end, start), zero)
    found: dict[str, int | None] = {
        "rows": rows.num_rows,
        "pressed_rows": _int(pc.sum(pressed)),
        "duration_us": _int(pc.sum(length)),
    }
    for side, which in (("calm", pc.and_(busy, pc.invert(pressed))), ("pressed", pc.and_(busy, pressed))):
        found |= {f"{side}_{name}": _int(pc.sum(rows[name].filter(which))) for name in _SPLIT}
        found[f"{side}_duration_us"] = _int(pc.sum(length.filter(which)))
    rows = _with_due(rows, length)
    for name in (f"{what}_qos{qos}" for what in ("due", "away_dropped") for qos in range(3)):
        found[name] = _int(pc.sum(rows[name]))
    names = [f"{name}_qos{qos}" for name in ("due", "sent") for qos in range(3)]
    rows = _by_client(rows.select(["client_id", *names]), names)
    found |= _fair("all", _by_qos(rows, "due"), _by_qos(rows, "sent"))
    for qos in range(3):
        found |= _fair(str(qos), rows[f"due_qos{qos}"], rows[f"sent_qos{qos}"])
    return found


def _with_due(rows: pa.Table, length: pa.ChunkedArray) -> pa.Table:
    """Rows with due_qosN, and away_dropped_qosN: what was due to each client, and dropped because it was away."""
    zero, two = _column([0])[0], _column([2])[0]
    connected, ended, was_there = rows["connected"], rows["ended"], pc.greater(rows["connected_us"], zero)
    most = pc.less(pc.multiply(rows["connected_us"], two), length)
    away = pc.and_(most, pc.invert(pc.and_(ended, was_there)))
    kept = pc.invert(pc.or_(connected, ended))
    for qos in range(3):
        gone = _total(rows, tuple(name for name in _GONE if name.endswith(str(qos))))
        dropped = pc.if_else(away, rows[f"dropped_qos{qos}"], gone)
        growth = pc.subtract(rows[f"waiting_qos{qos}"], rows[f"waiting_start_qos{qos}"])
        missed = pc.add(dropped, pc.if_else(kept, pc.max_element_wise(growth, zero), zero))
        due = pc.max_element_wise(pc.subtract(rows[f"offered_qos{qos}"], missed), zero)
        rows = rows.append_column(f"due_qos{qos}", pc.if_else(was_there, due, zero))
        rows = rows.append_column(f"away_dropped_qos{qos}", dropped)
    return rows


def _by_client(rows: pa.Table, names: Iterable[str]) -> pa.Table:
    """The sums of some columns by client: who has reconnected has several rows."""
    if pc.count_distinct(rows["client_id"]).as_py() == rows.num_rows:
        return rows
    order = pc.sort_indices(rows["client_id"])
    ends = pc.run_end_encode(rows["client_id"].combine_chunks().take(order)).run_ends
    last = pc.subtract(ends, _one(ends.type))
    sums = []
    for name in names:
        upto = pc.cumulative_sum(rows[name].combine_chunks().take(order)).take(last).to_pylist()
        sums.append(_column(end - start for start, end in pairwise([0, *upto])))
    return pa.Table.from_arrays(sums, names=list(names))


def _fair(scope: str, due: pa.ChunkedArray, sent: pa.ChunkedArray) -> dict[str, int | None]:
    """Number, sum, sum of squares and minimum of the clients' delivery ratios."""
    one = _column([FAIR_ONE])[0]
    asked = pc.greater(due, _column([0])[0])
    due, sent = due.filter(asked), sent.filter(asked)
    ratio = pc.min_element_wise(pc.divide(pc.multiply(sent, one), due), one)
    return {
        f"fair_n_{scope}": len(ratio),
        f"fair_x_{scope}": _int(pc.sum(ratio)),
        f"fair_xx_{scope}": _int(pc.sum(pc.multiply(ratio, ratio))),
        f"fair_min_{scope}": pc.min(ratio).as_py(),
    }


def _histogram(column: pa.Array) -> pa.Array:
    """The sum of histograms as a column of one row; null without any."""
    kind = pa.list_(pa.int64())
    if column.null_count == len(column):
        return pa.nulls(1, kind)
    entries = column.flatten()
    bucket, count = pc.bit_wise_and(entries, _column([255])[0]), pc.shift_right(entries, _column([8])[0])
    order = pc.sort_indices(bucket)
    runs = pc.run_end_encode(bucket.take(order))
    # The last sum of each run, less that of the run before. (A group_by imports pandas.)
    upto = pc.cumulative_sum(count.take(order)).take(pc.subtract(runs.run_ends, _one(runs.run_ends.type))).to_pylist()
    counts = [end - start for start, end in pairwise([0, *upto])]
    pairs = list(zip(runs.values.to_pylist(), counts, strict=True))
    values = _column([count << 8 | bucket for bucket, count in pairs])
    offsets = pa.py_buffer(array("i", [0, len(pairs)]))
    return pa.Array.from_buffers(kind, 1, [None, offsets], children=[values])


def _one(kind: pa.DataType) -> pa.Scalar:
    return _column([1]).cast(kind)[0]


def _by_qos(rows: pa.Table, prefix: str) -> pa.ChunkedArray:
    return _total(rows, tuple(f"{prefix}_qos{qos}" for qos in range(3)))


def _total(rows: pa.Table, names: tuple[str, ...]) -> pa.ChunkedArray:
    total = rows[names[0]]
    for name in names[1:]:
        total = pc.add(total, rows[name])
    return total


def _int(value: pa.Scalar) -> int:
    return int(value.as_py() or 0)


def _column(values: Iterable[int]) -> pa.Array:
    """Numbers as a column."""
    numbers = array("q", values)
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def _repeat(time: pa.Scalar) -> pa.Array:
    return _column([time.value]).cast(time.type)


def _first(rows: pa.Table, name: str) -> pa.Array:
    return rows[name].slice(0, 1).combine_chunks()
