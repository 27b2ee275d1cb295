"""Collects rows of metrics from counters on the event loop, in small slices, and converts them to columns.

Arrow gets the memory of the columns. Its own `array` would convert each value, and would import pandas if that is
installed, which blocks the event loop for a third of a second and takes 40 MB.
"""

from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Final

import pyarrow as pa

from broker.sessions import Ended
from broker.telemetry.schema import MetricsSchema
from broker.telemetry.wall import WallClock
from session.counters import Counters
from session.histogram import Histogram
from session.session import Session
from session.shared_queue import SharedQueue

BATCH: Final = 250
"""Rows that are converted to Arrow columns at once: about a millisecond, of which most is for the columns."""


class Rows:
    """The rows of one export. All intervals end at `interval_end` on the monotonic clock.

    Integers are collected row by row in one flat array; `batch` converts them to columns.
    """

    def __init__(self, schema: MetricsSchema, broker: str, interval_end: int, clock: WallClock) -> None:
        self.interval_end = interval_end
        self.wall_end = clock.at(interval_end)
        """Time of day at interval_end, in microseconds since 1970 UTC."""
        self._schema = schema
        self._broker = broker
        self._clock = clock
        self._counters_of = attrgetter(*[_where(name) for name in schema.counters])
        self._batches: list[pa.RecordBatch] = []
        self._batched = 0
        self._begin()

    def __len__(self) -> int:
        return self._batched + len(self._client_ids)

    def _begin(self) -> None:
        """Start a batch."""
        self._client_ids: list[str] = []
        self._listeners: list[str] = []
        self._groups: list[Sequence[str]] = []
        self._names = 0  # of groups
        self._connected: list[bool] = []
        self._ended: list[bool] = []
        self._versions = array("i")
        self._started = array("q")
        self._starts = array("q")
        self._integers = array("q")
        self._drops: list[dict[str, int] | None] = []
        self._histograms = [(name, array("i", [0]), array("q"), list[bool]()) for name in self._schema.histograms]

    def add(
        self, session: Session | Ended, counters: Counters, connected: bool, ended: bool, groups: Sequence[str] = ()
    ) -> None:
        """Append one row with the interval's counters of `session`, a member of these groups."""
        self._client_ids.append(session.client_id)
        self._listeners.append(session.listener)
        self._versions.append(session.version)
        self._started.append(self._clock.at(session.created_at))
        self._add(counters, connected, ended, groups)

    def add_group(self, group: SharedQueue, counters: Counters, ended: bool) -> None:
        """Append one row with the interval's counters of a group."""
        self._client_ids.append("")
        self._listeners.append("")
        self._versions.append(0)
        self._started.append(self._clock.at(counters.interval_start))
        self._add(counters, group.is_online(), ended, (group.name,))

    def _add(self, counters: Counters, connected: bool, ended: bool, groups: Sequence[str]) -> None:
        self._groups.append(groups)
        self._names += len(groups)
        self._connected.append(connected)
        self._ended.append(ended)
        self._starts.append(self._clock.at(counters.interval_start))
        self._integers.extend(self._counters_of(counters))
        self._drops.append(counters.drops)
        for name, offsets, values, present in self._histograms:
            histogram: Histogram | None = getattr(counters, name)
            if histogram is not None:
                values.extend(histogram.entries())
            offsets.append(len(values))
            present.append(histogram is not None)

    @property
    def full(self) -> bool:
        """Whether `batch` is due."""
        return len(self._client_ids) >= BATCH or self._names >= BATCH

    def batch(self) -> None:
        """Convert the rows that were added since the last call to columns."""
        rows = len(self._client_ids)
        if not rows:
            return
        schema = self._schema
        arrays: dict[str, pa.Array] = {
            "broker": _strings([self._broker] * rows),
            "client_id": _strings(self._client_ids),
            "listener": _strings(self._listeners),
            "protocol_version": _column(pa.int32(), self._versions),
            "connected": pa.Array.from_buffers(pa.bool_(), rows, [None, _bits(self._connected)]),
            "ended": pa.Array.from_buffers(pa.bool_(), rows, [None, _bits(self._ended)]),
            "share_groups": pa.ListArray.from_arrays(
                _column(pa.int32(), array("i", accumulate(map(len, self._groups), initial=0))),
                _strings(list(chain.from_iterable(self._groups))),
            ),
        }
        ends = array("q", [self.wall_end]) * rows
        for name, times in zip(_TIMES, (self._started, self._starts, ends), strict=True):
            arrays[name] = _column(pa.timestamp("us", tz="UTC"), times)
        for number, name in enumerate(schema.counters):
            arrays[name] = _column(pa.int64(), self._integers[number :: len(schema.counters)])
        for name in schema.drops:
            arrays[name] = _column(
                pa.int64(), array("q", [drops.get(name, 0) if drops else 0 for drops in self._drops])
            )
        for name, offsets, values, present in self._histograms:
            buffers = [_bits(present), pa.py_buffer(offsets)]
            counts = _column(pa.int64(), values)
            arrays[name] = pa.Array.from_buffers(pa.list_(pa.int64()), rows, buffers, children=[counts])
        columns = [arrays[field.name] for field in schema.sessions]
        self._batches.append(pa.RecordBatch.from_arrays(columns, schema=schema.sessions))
        self._batched += rows
        self._begin()

    def table(self) -> pa.Table:
        """All rows as an Arrow table, once. In any thread; nothing may be added any more.

        The batches are freed one by one: all at once would keep the interpreter from the event loop for 2 ms.
        """
        self.batch()
        whole = pa.Table.from_batches(self._batches, self._schema.sessions).combine_chunks()
        while self._batches:
            self._batches.pop()
        return whole


def _where(name: str) -> str:
    """The attribute of `Counters` for a column."""
    return name if hasattr(Counters, name) else f"uncommon.{name}"


_TIMES: Final = ("session_started", "interval_start", "interval_end")


def _column(kind: pa.DataType, values: "array[int]") -> pa.Array:
    """The values as a column, without a copy."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _strings(values: list[str]) -> pa.Array:
    encoded = [value.encode() for value in values]
    offsets = array("i", [0, *accumulate(map(len, encoded))])
    return pa.Array.from_buffers(
        pa.string(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    )


def _bits(flags: list[bool]) -> pa.Buffer:
    """Booleans in Arrow's format: eight in a byte, the first in the lowest bit."""
    packed = bytearray((len(flags) + 7) // 8)
    for number, flag in enumerate(flags):
        if flag:
            packed[number >> 3] |= 1 << (number & 7)
    return pa.py_buffer(packed)
