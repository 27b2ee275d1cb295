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
_SPLIT: Final = ("offered_qos0", "sent_qos0", "dropped_qos0")


def interval_row(rows: pa.Table, schema: MetricsSchema) -> pa.Table:
    """The row of broker and interval for the rows of one export, of which there is at least one."""
    rows = rows.combine_chunks()
    start = pc.min(rows["interval_start"])
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
    made |= {name: _first(rows, name) for name in ("broker", "interval_end")}
    for name in ("client_id", "listener"):
        made[name] = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(bytes(8)), pa.py_buffer(b"")])
    made["protocol_version"] = pa.Array.from_buffers(pa.int32(), 1, [None, pa.py_buffer(bytes(4))])
    for name in ("connected", "ended"):
        made[name] = pa.Array.from_buffers(pa.bool_(), 1, [None, pa.py_buffer(b"\0")])
    return pa.Table.from_arrays([made[field.name] for field in schema.arrow], schema=schema.arrow)


def _of_interval(rows: pa.Table) -> dict[str, int | None]:
    """The columns that only this row has."""
    zero = _column([0])[0]
    gated = [name for name in rows.column_names if name.startswith("gated_")]
    pressed = pc.greater(_total(rows, (*_PRESSURE, *gated)), zero)
    offered, sent, waiting = (_by_qos(rows, name) for name in ("offered", "sent", "waiting_start"))
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
    found |= _fair("all", offered, sent)
    for qos in range(3):
        found |= _fair(str(qos), rows[f"offered_qos{qos}"], rows[f"sent_qos{qos}"])
    return found


def _fair(scope: str, offered: pa.ChunkedArray, sent: pa.ChunkedArray) -> dict[str, int | None]:
    """Number, sum, sum of squares and minimum of the delivery ratios."""
    one = _column([FAIR_ONE])[0]
    asked = pc.greater(offered, _column([0])[0])
    offered, sent = offered.filter(asked), sent.filter(asked)
    ratio = pc.min_element_wise(pc.divide(pc.multiply(sent, one), offered), one)
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
