"""Reads a store: the compacted rows of a range, and what has been taken in."""

from collections import defaultdict
from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from spark_jobs.errors import ReportError
from spark_jobs.formats import span
from spark_jobs.storage import Storage, open_storage
from spark_jobs.store.delta import BROKERS, FILES, SKIPPED, Snapshot, open_snapshot
from spark_jobs.store.erased import erased_of
from spark_jobs.store.schema import HOUR_US
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
