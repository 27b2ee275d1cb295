"""Aggregates the rows of raw files, a part of a file at a time, and says what it has read and left out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.arrays import Groups, Mask, ints, total_of
from spark_jobs.compaction import kernel
from spark_jobs.metrics import BEFORE, OF_INTERVALS, QOS, SCHEMA
from spark_jobs.storage import Storage
from spark_jobs.store.delta import HourFiles
from spark_jobs.store.schema import INTERVALS, SESSIONS, TIMELINE
from spark_jobs.store.store import ALL, StoredRows

BATCH_ROWS: Final = 100_000
"""Raw rows that are aggregated at once, approximately: some 200 MB."""
PARTS: Final = "parts"
"""Rows of each file, hour and broker, and their first and last interval_end."""
DROPPED: Final = "dropped"
"""Rows of each file and hour that were left out, because their key occurs in another file or in the store."""

_MOST_MEASURED: Final = 20  # files whose rows say what the usual interval is
_COLUMNS: Final = (*(field.name for field in SCHEMA.fields), *OF_INTERVALS, *BEFORE.values())
_SESSION: Final = ("broker", "client_id", "session_started_us")
_INTERVAL: Final = ("broker", "interval_end_us")
_KEYS: Final = pa.schema([(name, pa.int64() if name.endswith("_us") else pa.string()) for name in kernel.ROW_KEY])

Made = Iterator[tuple[str, pa.Table]]


@dataclass(frozen=True)
class Aggregation:
    """What is made of raw files.

    Attributes:
        metrics: their folder.
        hours: the starts of the hours that are made; rows of others are left out.
        slot_us: length of the timeline's slots.
        before: the compacted rows that the new ones are added to, of one hour; None: hours are made from files only.
    """

    metrics: Storage
    hours: Sequence[int]
    slot_us: int
    before: HourFiles | None = None

    def of(self, groups: Iterable[Sequence[str]]) -> Made:
        """The compacted rows of files by dataset, in any number of tables; also PARTS and DROPPED.

        Args:
            groups: names of files; files of different groups have no rows of the same broker and interval.
        """
        known = _Known(self.before)
        rows: list[pa.Table] = []
        intervals: list[pa.Table] = []
        for names in groups:
            keys = self._keys(names)
            kept = self._kept(keys, known)
            yield from self._counted(keys, kept, names)
            seen, at = set(known.intervals), 0
            for name in names:
                for raw in _batches(self.metrics, name, _COLUMNS):
                    found = kernel.with_hour(kernel.raw_rows(raw))
                    rows.append(_where(found, kept[at : at + found.num_rows]))
                    at += found.num_rows
                    intervals.append(self._new(kernel.with_hour(kernel.interval_rows(raw)), seen))
                    if sum(table.num_rows for table in rows) >= BATCH_ROWS:
                        yield from self._datasets(rows, intervals)
                        rows, intervals = [], []
        if rows:
            yield from self._datasets(rows, intervals)

    def _keys(self, names: Sequence[str]) -> pa.Table:
        """The keys of all rows of sessions, with the hour, and the place of the file in `names`."""
        found = []
        for number, name in enumerate(names):
            for raw in _batches(self.metrics, name, [*_RAW_KEYS, OF_INTERVALS[0]]):
                there = kernel.of_sessions(raw)
                keys = there.select(_RAW_KEYS).rename_columns(_KEYS.names).cast(_KEYS)
                found.append(keys.append_column("file", pa.array(np.full(keys.num_rows, number))))
        empty = _KEYS.append(pa.field("file", pa.int64())).empty_table()
        return kernel.with_hour(pa.concat_tables([empty, *found]))

    def _inside(self, rows: pa.Table) -> Mask:
        """Which rows are of the hours that are made."""
        inside: Mask = np.isin(ints(rows, "hour_us"), np.array(self.hours))
        return inside

    def _kept(self, keys: pa.Table, known: "_Known") -> Mask:
        """Which rows are counted: of those with the same key the one of the first file, and none that is known."""
        groups = Groups(keys, kernel.ROW_KEY, ["file"])
        first = np.zeros(keys.num_rows, np.bool_)
        first[groups.order[groups.starts]] = True
        kept = first & self._inside(keys)
        return kept & ~known.rows(keys) if self.before is not None else kept

    def _counted(self, keys: pa.Table, kept: Mask, names: Sequence[str]) -> Made:
        inside = self._inside(keys)
        yield PARTS, _parts(_where(keys, inside), names)
        if (lost := inside & ~kept).any():
            groups = Groups(_where(keys, lost), ("file", "hour_us"))
            yield DROPPED, _named(groups.keys() | {"rows": pa.array(groups.count())}, names)
        yield INTERVALS, kernel.intervals(_where(keys, kept))

    def _new(self, intervals: pa.Table, seen: set[tuple[object, ...]]) -> pa.Table:
        """The rows of broker and interval that have not been seen yet."""
        intervals = _where(intervals, self._inside(intervals))
        new = []
        for pair in _tuples(intervals, _INTERVAL):
            new.append(pair not in seen)
            seen.add(pair)
        return _where(intervals, np.array(new, np.bool_))

    def _datasets(self, rows: Sequence[pa.Table], intervals: Sequence[pa.Table]) -> Made:
        yield from kernel.datasets(pa.concat_tables(rows), self.slot_us).items()
        yield TIMELINE, kernel.timeline_of(pa.concat_tables(intervals), self.slot_us)


_RAW_KEYS: Final = [name.removesuffix("_us") for name in kernel.ROW_KEY]


class _Known:
    """The intervals and sessions of the compacted rows that new ones are added to."""

    def __init__(self, before: HourFiles | None) -> None:
        self.intervals = self._read(before, INTERVALS, _INTERVAL)
        self._sessions = self._read(before, SESSIONS, _SESSION)

    def rows(self, keys: pa.Table) -> Mask:
        """Rows of a known interval and a known session: their raw file is missing, so they are duplicates."""
        pairs = zip(_tuples(keys, _INTERVAL), _tuples(keys, _SESSION), strict=True)
        return np.array([one in self.intervals and other in self._sessions for one, other in pairs], np.bool_)

    @staticmethod
    def _read(before: HourFiles | None, dataset: str, names: Sequence[str]) -> set[tuple[object, ...]]:
        parts = StoredRows(before, dataset, ALL).parts(names) if before is not None else ()
        return {key for part in parts for key in _tuples(part, names)}


def usual_interval(metrics: Storage, names: Sequence[str]) -> int:
    """The median length of an interval in microseconds, of active sessions if there are any, in some of the files."""
    flow = [f"{name}_qos{qos}" for name in ("offered", "sent") for qos in QOS]
    columns = ["client_id", "interval_start", "interval_end", OF_INTERVALS[0], *flow]
    some = names[:: -(-len(names) // _MOST_MEASURED)]
    rows = pa.concat_tables(kernel.raw_rows(raw) for name in some for raw in _batches(metrics, name, columns))
    lengths = np.maximum(ints(rows, "interval_end_us") - ints(rows, "interval_start_us"), 0)
    active = total_of(rows, flow) > 0
    ordered = np.sort(lengths[active] if active.any() else lengths)
    return int(ordered[(len(ordered) - 1) // 2]) if len(ordered) else 0


def _batches(metrics: Storage, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of a file as they are, a part of it at a time."""
    # Without checksums a flipped bit in a page would mostly give a wrong number instead of an error.
    with pq.ParquetFile(metrics.source(name), page_checksum_verification=True, pre_buffer=False) as file:
        there = set(file.schema_arrow.names)
        wanted = [name for name in columns if name in there]
        for batch in file.iter_batches(BATCH_ROWS, columns=wanted, use_threads=False):
            _require_numbers(batch)
            yield pa.Table.from_batches([batch])


def _require_numbers(rows: pa.RecordBatch) -> None:
    """Raise ValueError for a null in a histogram: the footer counts it with the histograms that are null."""
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if isinstance(column, pa.ListArray | pa.LargeListArray) and (nulls := column.flatten().null_count):
            raise ValueError(f"{name} has nulls in its lists ({nulls:,}); expected whole numbers")


def _parts(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    groups = Groups(rows, ("file", "hour_us", "broker"), ["interval_end_us"])
    ends = {"first_us": groups.first("interval_end_us"), "last_us": groups.last("interval_end_us")}
    return _named(groups.keys() | {"rows": pa.array(groups.count())} | ends, names)


def _named(columns: dict[str, pa.Array], names: Sequence[str]) -> pa.Table:
    """A table in which `file` is a name instead of its place."""
    return pa.table(columns | {"file": pa.array(names, pa.string()).take(columns["file"])})


def _tuples(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[object, ...]]:
    return zip(*[rows[name].to_pylist() for name in names], strict=True)


def _where(rows: pa.Table, which: Mask) -> pa.Table:
    return rows if which.all() else rows.filter(pa.array(which))
