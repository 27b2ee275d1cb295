"""Aggregates raw rows in this process: as many as a desk has, without starting Spark."""

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.arrays import Groups, Ints, Mask, ints, total_of
from spark_jobs.compaction import kernel
from spark_jobs.compaction.hour_builder import Aggregated, FileHour, named
from spark_jobs.compaction.plan import Hour
from spark_jobs.metrics import BEFORE, OF_INTERVALS, QOS, SCHEMA
from spark_jobs.progress import Progress
from spark_jobs.storage import Storage
from spark_jobs.store.delta import Snapshot, add_rows
from spark_jobs.store.schema import HOUR_OF, HOUR_US, INTERVALS, SESSIONS, TIMELINE
from spark_jobs.store.store import Selection, StoredRows, stored

BATCH_ROWS: Final = 100_000
"""Raw rows that are compacted at once, approximately: some 200 MB."""

_READERS: Final = 8  # threads
_COLUMNS: Final = (*(field.name for field in SCHEMA.fields), *OF_INTERVALS, *BEFORE.values())
_SESSION: Final = ("broker", "client_id", "session_started_us")


@dataclass(frozen=True)
class ArrowEngine:
    """See `hour_builder.Engine`."""

    metrics: Storage

    def aggregate(self, hours: Sequence[Hour], snapshot: Snapshot, progress: Progress) -> Aggregated:
        """See `hour_builder.Engine`."""
        names = sorted({file.name for hour in hours for file in hour.files})
        with progress.stage(f"{named(hours)}: compacting {len(names)} files") as stage:
            starts = np.array([hour.hour_us for hour in hours])
            raw = self._read(names)
            rows = _inside(kernel.with_hour(kernel.raw_rows(raw)), starts)
            intervals = _inside(kernel.with_hour(kernel.without_copies(kernel.interval_rows(raw))), starts)
            stage.note = f"{rows.num_rows:,} rows"
            parts = _parts(rows, names)
            dropped: dict[tuple[str, int], int] = defaultdict(int)
            rows = _kept(rows, ~_duplicates(rows), names, dropped)
            if hours[0].adds:
                rows = _kept(rows, ~_known(rows, hours[0], snapshot), names, dropped)
                intervals = intervals.filter(pa.array(~_known_intervals(intervals, hours[0], snapshot)))
            made = kernel.datasets(rows, snapshot.slot_us)
            if intervals.num_rows:
                timeline = kernel.timeline_of(intervals, snapshot.slot_us)
                made[TIMELINE] = kernel.merged(TIMELINE, [made[TIMELINE], timeline])
            made = made | {INTERVALS: kernel.intervals(rows)}
            if hours[0].adds:
                made = {name: kernel.merged(name, [_before(hours[0], snapshot, name), made[name]]) for name in made}
            added = {
                name: [add_rows(snapshot.storage, name, part, hour_us) for hour_us, part in _split(name, table)]
                for name, table in made.items()
            }
        return Aggregated(added, parts, dropped)

    def usual_interval(self, names: Sequence[str]) -> int:
        """See `hour_builder.Engine`."""
        flow = [f"{name}_qos{qos}" for name in ("offered", "sent") for qos in QOS]
        there = ("client_id", "interval_start", "interval_end", OF_INTERVALS[0])
        rows = kernel.raw_rows(self._read(names, [*there, *flow]))
        lengths = np.maximum(ints(rows, "interval_end_us") - ints(rows, "interval_start_us"), 0)
        active = total_of(rows, flow) > 0
        ordered = np.sort(lengths[active] if active.any() else lengths)
        return int(ordered[(len(ordered) - 1) // 2]) if len(ordered) else 0

    def _read(self, names: Sequence[str], columns: Sequence[str] = _COLUMNS) -> pa.Table:
        """The rows of files as they are; `file` is the place of a row's file in `names`."""
        with ThreadPoolExecutor(_READERS) as pool:
            tables = list(pool.map(lambda name: self._file(name, columns), names))
        numbers = np.repeat(np.arange(len(tables)), [table.num_rows for table in tables])
        rows = pa.concat_tables(tables, promote_options="permissive")
        return rows.append_column("file", pa.array(numbers, pa.int64()))

    def _file(self, name: str, columns: Sequence[str]) -> pa.Table:
        # Without checksums a flipped bit in a page would mostly give a wrong number instead of an error.
        with pq.ParquetFile(self.metrics.source(name), page_checksum_verification=True) as file:
            there = set(file.schema_arrow.names)
            return file.read(columns=[name for name in columns if name in there], use_threads=False)


def _parts(rows: pa.Table, names: Sequence[str]) -> list[FileHour]:
    groups = Groups(rows, ("file", "hour_us", "broker"), ["interval_end_us"])
    columns = [array.to_pylist() for array in groups.keys().values()]
    ends = [groups.first("interval_end_us").to_pylist(), groups.last("interval_end_us").to_pylist()]
    return [
        FileHour(names[file], hour_us, broker, count, first, last)
        for file, hour_us, broker, count, first, last in zip(*columns, groups.count().tolist(), *ends, strict=True)
    ]


def _duplicates(rows: pa.Table) -> Mask:
    """Rows with the same key as one in an earlier file."""
    groups = Groups(rows, (*_SESSION, "interval_end_us"), ["file"])
    again = np.ones(rows.num_rows, np.bool_)
    again[groups.order[groups.starts]] = False
    return again


def _inside(rows: pa.Table, starts: Ints) -> pa.Table:
    """The rows of some hours."""
    inside = np.isin(ints(rows, "hour_us"), starts)
    return rows if inside.all() else rows.filter(pa.array(inside))


def _known_intervals(intervals: pa.Table, hour: Hour, snapshot: Snapshot) -> Mask:
    """Rows of broker and interval whose interval is in the compacted rows."""
    before = _before(hour, snapshot, INTERVALS)
    known = set(zip(before["broker"].to_pylist(), before["interval_end_us"].to_pylist(), strict=True))
    pairs = zip(intervals["broker"].to_pylist(), intervals["interval_end_us"].to_pylist(), strict=True)
    return np.array([pair in known for pair in pairs], np.bool_)


def _known(rows: pa.Table, hour: Hour, snapshot: Snapshot) -> Mask:
    """Rows whose interval and session are in the compacted rows: their raw file is missing, so they are duplicates."""

    def keys(table: pa.Table, names: Sequence[str]) -> list[tuple[object, ...]]:
        return list(zip(*[table[name].to_pylist() for name in names], strict=True))

    intervals = set(keys(_before(hour, snapshot, INTERVALS), ("broker", "interval_end_us")))
    sessions = set(keys(_before(hour, snapshot, SESSIONS), _SESSION))
    pairs = zip(keys(rows, ("broker", "interval_end_us")), keys(rows, _SESSION), strict=True)
    return np.array([interval in intervals and session in sessions for interval, session in pairs], np.bool_)


def _kept(rows: pa.Table, kept: Mask, names: Sequence[str], dropped: dict[tuple[str, int], int]) -> pa.Table:
    """These rows; counts the others as dropped."""
    lost = rows.filter(pa.array(~kept))
    for file, hour_us in zip(lost["file"].to_pylist(), lost["hour_us"].to_pylist(), strict=True):
        dropped[names[file], hour_us] += 1
    return rows.filter(pa.array(kept)) if lost.num_rows else rows


def _before(hour: Hour, snapshot: Snapshot, dataset: str) -> pa.Table:
    """The compacted rows of an hour."""
    return pa.concat_tables(StoredRows(snapshot, dataset, Selection(hour.hour_us, hour.hour_us + HOUR_US)).parts())


def _split(dataset: str, rows: pa.Table) -> list[tuple[int, pa.Table]]:
    """The rows of each hour as they are stored."""
    time = ints(rows, HOUR_OF[dataset])
    hour = time - time % HOUR_US
    return [(hour_us, stored(dataset, rows.filter(pa.array(hour == hour_us)))) for hour_us in np.unique(hour).tolist()]
