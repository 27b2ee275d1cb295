"""Reads a store: the compacted rows of a range, and what has been taken in."""

from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.errors import ReportError
from spark_jobs.formats import span
from spark_jobs.storage import Storage, open_storage
from spark_jobs.store.delta import BROKERS, FILES, SKIPPED, Snapshot, open_snapshot
from spark_jobs.store.erased import erased_of
from spark_jobs.store.schema import DATASETS, HOUR_US, SESSIONS, STARVATION, TIMELINE, TIMES, arrow_types
from spark_jobs.store.taken import FileRecord, Ledger, records_of, watermarks_of

_COMPACT: Final = "sluice compact --metrics METRICS --store"


@dataclass(frozen=True)
class Selection:
    """A part of a store: [start, end) in microseconds; None: open.

    `broker` is the name of one broker; None: all.
    """

    start_us: int | None = None
    end_us: int | None = None
    broker: str | None = None

    def has_hour(self, hour_us: int) -> bool:
        """Whether the hour with this start overlaps the range."""
        return (self.start_us is None or hour_us + HOUR_US > self.start_us) and (
            self.end_us is None or hour_us < self.end_us
        )


ALL: Final = Selection()


@dataclass(frozen=True)
class StoredRows:
    """The rows of one dataset in a selection, with times in microseconds."""

    snapshot: Snapshot
    dataset: str
    selection: Selection

    def parts(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows, one row group of a file after the other; at least one part, which may be empty."""
        wanted = [column for column in DATASETS[self.dataset] if columns is None or column.name in columns]
        types = arrow_types(self.dataset)
        schema = pa.schema([(column.name, types[column.name]) for column in wanted])
        yield schema.empty_table()
        names = {TIMES.get(column.name, column.name) for column in wanted} | self._filtered_by()
        for file in self.snapshot.files(self.dataset, self.selection.start_us, self.selection.end_us):
            with pq.ParquetFile(self.snapshot.storage.source(f"{self.dataset}/{file.path}")) as parquet:
                for group in range(parquet.num_row_groups):
                    rows = self._selected(parquet.read_row_group(group, columns=sorted(names)))
                    arrays = [rows[TIMES.get(name, name)].cast(types[name]) for name in schema.names]
                    yield pa.Table.from_arrays(arrays, schema=schema)

    def _filtered_by(self) -> set[str]:
        return ({"broker"} if self.selection.broker is not None else set()) | (
            {TIMES["slot"]} if self.dataset == TIMELINE else set()
        )

    def _selected(self, rows: pa.Table) -> pa.Table:
        if self.selection.broker is not None:
            rows = rows.filter(pc.equal(rows["broker"], self.selection.broker))
        if self.dataset == TIMELINE:
            slot = rows[TIMES["slot"]].cast(pa.int64())
            if self.selection.start_us is not None:
                rows = rows.filter(pc.greater_equal(slot, self.selection.start_us))
                slot = rows[TIMES["slot"]].cast(pa.int64())
            if self.selection.end_us is not None:
                rows = rows.filter(pc.less(slot, self.selection.end_us))
        return rows


def stored(dataset: str, rows: pa.Table) -> pa.Table:
    """Rows with times in microseconds as they are stored, without the partition columns."""
    time = pa.timestamp("us", tz="UTC")
    return pa.table(
        {TIMES.get(name, name): rows[name].cast(time) if name in TIMES else rows[name] for name in rows.column_names}
    )


@dataclass(frozen=True)
class Store:
    """A store in the state of its opening."""

    snapshot: Snapshot

    @property
    def storage(self) -> Storage:
        """The store's folder."""
        return self.snapshot.storage

    @property
    def slot_us(self) -> int:
        """The length of a slot of the timeline."""
        return self.snapshot.slot_us

    @property
    def watermarks(self) -> dict[str, int]:
        """Broker -> last compacted interval_end."""
        return watermarks_of(self.snapshot.arrow(BROKERS))

    def sessions(self, selection: Selection = ALL) -> StoredRows:
        """One row per session and hour, of all hours that overlap the range."""
        return StoredRows(self.snapshot, SESSIONS, selection)

    def timeline(self, selection: Selection = ALL) -> StoredRows:
        """One row per broker and slot, of the slots that start in the range."""
        return StoredRows(self.snapshot, TIMELINE, selection)

    def starvation(self, selection: Selection = ALL) -> StoredRows:
        """Runs of starved intervals in the hours that overlap the range; split at the end of each hour."""
        return StoredRows(self.snapshot, STARVATION, selection)

    def ledgers(self, selection: Selection = ALL) -> list[Ledger]:
        """The raw files of the hours that overlap the range, in order."""
        return list(ledgers_of(self.snapshot, selection).values())

    def skipped(self) -> list[FileRecord]:
        """The raw files that could not be used."""
        return records_of(self.snapshot.arrow(SKIPPED))

    def hours(self, selection: Selection = ALL) -> list[int]:
        """The starts of the compacted hours that overlap the range."""
        files = self.snapshot.files(FILES, selection.start_us, selection.end_us)
        return sorted({file.hour_us for file in files if file.hour_us is not None})

    @property
    def there(self) -> str:
        """The hours of the store, for the message about an empty range."""
        hours, name = self.hours(), self.storage.shown
        dropped = "".join(f" Dropped: {span(*hours)}." for hours in erased_of(self.snapshot).hours)
        if not hours:
            return f"{name} holds no hours in version {self.snapshot.version}.{dropped}"
        return f"{name} holds {span(hours[0], hours[-1] + HOUR_US)}.{dropped}"


def open_store(uri: str, version: int | None = None) -> Store:
    """The store at a URI, in its newest state or that of a version.

    Raises:
        ReportError: there is no store, or no such version.
    """
    storage = open_storage(uri)
    snapshot = open_snapshot(storage, version)
    if snapshot is None:
        raise ReportError(f"{uri}: is not a store of compacted metrics; create one: {_COMPACT} {uri}")
    return Store(snapshot)


def ledgers_of(
    snapshot: Snapshot, selection: Selection = ALL, hours: Container[int] | None = None
) -> dict[int, Ledger]:
    """Hour -> its raw files, for the hours that overlap a range; of some hours if they are given."""
    found: dict[int, list[FileRecord]] = defaultdict(list)
    for hour_us, table in snapshot.by_hour(FILES, selection.start_us, selection.end_us, hours):
        found[hour_us] += records_of(table)
    return {hour_us: Ledger(hour_us, tuple(found[hour_us])) for hour_us in sorted(found)}
