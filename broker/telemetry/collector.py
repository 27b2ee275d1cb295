"""Rows of metrics as columns, gathered from counters on the event loop; cheap enough to be done in small slices."""

from array import array

import pyarrow as pa

from broker.telemetry.schema import MetricsSchema
from session.counters import Counters
from session.histogram import BUCKETS, Histogram
from session.session import Session


class Columns:
    """The rows of one export, column by column, in buffers that Arrow takes over without copying.

    All end at the same moment: `interval_end` on the monotonic clock, `wall` as the time of day, both in microseconds.
    """

    def __init__(self, schema: MetricsSchema, broker: str, interval_end: int, wall: int) -> None:
        self.rows = 0
        self.interval_end = interval_end
        self.wall = wall
        self._wall_offset = wall - interval_end
        self._schema = schema
        self._broker = broker
        self._strings: dict[str, list[str]] = {"client_id": [], "listener": []}
        self._flags: dict[str, list[bool]] = {"connected": [], "ended": []}
        self._versions = array("i")
        self._times = {name: array("q") for name in ("session_started", "interval_start", "interval_end")}
        self._integers = [(name, array("q")) for name in (*schema.counters, *schema.drops)]
        self._counters = self._integers[: len(schema.counters)]
        self._drops = self._integers[len(schema.counters) :]
        self._histograms = [(name, array("i", [0]), array("q"), bytearray()) for name in schema.histograms]

    def add(self, session: Session, counters: Counters, ended: bool) -> None:
        """Append one row: what `session` counted in the interval."""
        self.rows += 1
        self._strings["client_id"].append(session.client_id)
        self._strings["listener"].append(session.listener)
        self._flags["connected"].append(session.outbound.connected and not ended)
        self._flags["ended"].append(ended)
        self._versions.append(session.version)
        self._times["session_started"].append(session.created_at + self._wall_offset)
        self._times["interval_start"].append(counters.interval_start + self._wall_offset)
        self._times["interval_end"].append(self.wall)
        for name, column in self._counters:
            column.append(getattr(counters, name))
        drops = counters.drops
        for name, column in self._drops:
            column.append(drops.get(name, 0) if drops is not None else 0)
        for name, offsets, values, valid in self._histograms:
            histogram: Histogram | None = getattr(counters, name)
            if histogram is not None:
                values.extend(histogram.counts())
            offsets.append(len(values))
            valid.append(histogram is not None)

    def table(self) -> pa.Table:
        """The rows as an Arrow table."""
        arrays: dict[str, pa.Array] = {
            "broker": pa.array([self._broker] * self.rows, pa.string()),
            "protocol_version": _from_buffer(pa.int32(), self._versions),
        }
        for name, strings in self._strings.items():
            arrays[name] = pa.array(strings, pa.string())
        for name, flags in self._flags.items():
            arrays[name] = pa.array(flags, pa.bool_())
        for name, times in self._times.items():
            arrays[name] = _from_buffer(pa.timestamp("us", tz="UTC"), times)
        for name, integers in self._integers:
            arrays[name] = _from_buffer(pa.int64(), integers)
        for name, offsets, values, valid in self._histograms:
            missing = pa.array([not there for there in valid], pa.bool_())
            arrays[name] = pa.ListArray.from_arrays(
                _from_buffer(pa.int32(), offsets), _from_buffer(pa.int64(), values), mask=missing
            )
        schema = self._schema.arrow
        return pa.Table.from_arrays([arrays[field.name] for field in schema], schema=schema)


def _from_buffer(kind: pa.DataType, values: "array[int]") -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


assert BUCKETS == 32  # what the schema's document promises
