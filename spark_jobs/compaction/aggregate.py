"""Aggregates the rows of raw files, a part of a file at a time, and says what it has read and left out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.arrays import TEXT, Groups, Ints, Mask, encoded, ints, text_bytes, total_of
from spark_jobs.compaction import kernel
from spark_jobs.metrics import OF_INTERVALS, QOS, SCHEMA
from spark_jobs.storage import Storage
from spark_jobs.store.delta import HourFiles
from spark_jobs.store.schema import INTERVALS, SESSIONS, TIMELINE
from spark_jobs.store.store import ALL, StoredRows

BATCH_ROWS: Final = 100_000
"""Raw rows that are aggregated at once, approximately: some 200 MB."""
BATCH_BYTES: Final = 128 << 20
"""Bytes of the texts of rows that are aggregated at once, approximately; fewer rows if their client ids are long."""
PARTS: Final = "parts"
"""Rows of each file, hour and broker, and their first and last interval_end."""
DROPPED: Final = "dropped"
"""Rows of each file and hour that were left out, because their key occurs in another file or in the store."""

_MOST_MEASURED: Final = 20  # files whose rows say what the usual interval is
_COLUMNS: Final = (*(field.name for field in SCHEMA.fields), *OF_INTERVALS)
_SESSION: Final = ("broker", "client_id", "session_started_us")
_INTERVAL: Final = ("broker", "interval_end_us")
_KEYS: Final = pa.schema([(name, pa.int64() if name.endswith("_us") else TEXT) for name in kernel.ROW_KEY])
_TEXTS: Final = [field.name for field in SCHEMA.fields if field.type == "string"]

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
                    if _are_many(rows):
                        yield from self._datasets(rows, intervals)
                        rows, intervals = [], []
        if rows:
            yield from self._datasets(rows, intervals)

    def _keys(self, names: Sequence[str]) -> pa.Table:
        """The keys of all rows of sessions, with the hour, and the place of the file in `names`."""
        found, most = [_KEYS.append(pa.field("file", pa.int64())).empty_table()], BATCH_BYTES
        for number, name in enumerate(names):
            for raw in _batches(self.metrics, name, _RAW_KEYS):
                there = kernel.of_sessions(raw).select(_RAW_KEYS)
                columns = [
                    encoded(column) if wanted.type == TEXT else column.cast(wanted.type)
                    for column, wanted in zip(there.columns, _KEYS, strict=True)
                ]
                keys = pa.Table.from_arrays(columns, schema=_KEYS)
                found.append(keys.append_column("file", pa.array(np.full(keys.num_rows, number))))
                if sum(table.nbytes for table in found) > most:  # each batch has texts of its own
                    found = [pa.concat_tables(found).combine_chunks()]
                    most = max(BATCH_BYTES, 2 * found[0].nbytes)
        return kernel.with_hour(pa.concat_tables(found).combine_chunks())

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
        yield from kernel.datasets(pa.concat_tables(rows)).items()
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
    numbers = ["interval_start", "interval_end", *flow]
    some = names[:: -(-len(names) // _MOST_MEASURED)]
    batches = (raw for name in some for raw in _batches(metrics, name, ["client_id", *numbers]))
    parts = [kernel.of_sessions(raw).select(numbers) for raw in batches]
    rows = pa.concat_tables(parts, promote_options="default")
    lengths = np.maximum(ints(rows, "interval_end") - ints(rows, "interval_start"), 0)
    active = total_of(rows, flow) > 0
    ordered = np.sort(lengths[active] if active.any() else lengths)
    return int(ordered[(len(ordered) - 1) // 2]) if len(ordered) else 0


def _batches(metrics: Storage, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of a file, a part of it at a time; texts are encoded, since client ids may be long."""
    # Without checksums a flipped bit in a page would mostly give a wrong number instead of an error.
    with pq.ParquetFile(
        metrics.source(name), page_checksum_verification=True, pre_buffer=False, read_dictionary=_TEXTS
    ) as file:
        for batch in file.iter_batches(_rows_at_once(file.metadata), columns=list(columns), use_threads=False):
            _require_numbers(batch)
            yield from _slices(pa.Table.from_batches([batch]))


def _rows_at_once(metadata: pq.FileMetaData) -> int:
    """BATCH_ROWS, or fewer if rows have very many bytes in the file."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    largest = max((group.total_byte_size // max(1, group.num_rows) for group in groups), default=0)
    return max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, largest)))


def _slices(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows, BATCH_BYTES of texts at a time."""
    upto = np.cumsum(_bytes_of_texts(rows))
    cuts = np.flatnonzero(np.diff(upto // BATCH_BYTES)) + 1
    for start, end in pairwise([0, *cuts.tolist(), rows.num_rows]):
        yield rows.slice(start, end - start)


def _are_many(rows: Sequence[pa.Table]) -> bool:
    """Whether these are as many as are aggregated at once."""
    if sum(table.num_rows for table in rows) >= BATCH_ROWS:
        return True
    return sum(int(_bytes_of_texts(table).sum()) for table in rows) >= BATCH_BYTES


def _bytes_of_texts(rows: pa.Table) -> Ints:
    """The bytes of the texts of each row, each written out."""
    columns = [text_bytes(rows[name]) for name in _TEXTS if name in rows.column_names]
    found: Ints = np.sum(columns, axis=0, dtype=np.int64)
    return found


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
    return zip(*[_values(rows[name]) for name in names], strict=True)


def _values(column: pa.ChunkedArray) -> list[object]:
    """The values of a column; equal texts are one object."""
    if column.type != TEXT:
        return list(column.to_pylist())
    array = column.combine_chunks()
    texts = array.dictionary.to_pylist()
    return [texts[place] for place in array.indices.to_pylist()]


def _where(rows: pa.Table, which: Mask) -> pa.Table:
    return rows if which.all() else rows.filter(pa.array(which))
