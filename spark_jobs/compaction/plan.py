"""Decides which hours have to be built, and from which files."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs.formats import span
from spark_jobs.store.schema import HOUR_US
from spark_jobs.store.taken import FileRecord, Ledger, by_name

BATCH_ROWS: Final = 25_000_000  # raw rows compacted at once, approximately: batches are whole hours
BATCH_HOURS: Final = 48


@dataclass(frozen=True)
class Hour:
    """An hour to be built.

    Attributes:
        hour_us: its start.
        files: the raw files to read, sorted by name.
        adds: whether their rows are added to the hour's compacted rows; else the hour is built from raw files only.
    """

    hour_us: int
    files: tuple[FileRecord, ...]
    adds: bool = False

    @property
    def rows(self) -> float:
        """Its approximate number of raw rows: rows of a file are assumed to be spread evenly over its hours."""
        return sum((file.rows or 0) / max(1, len(file.hours)) for file in self.files)


def plan(
    files: Iterable[FileRecord],
    ledgers: Mapping[int, Ledger],
    start_us: int | None = None,
    end_us: int | None = None,
    *,
    rebuild: bool = False,
) -> list[Hour]:
    """The changed hours of [start, end), in order.

    An hour is rebuilt from all its raw files if one of them is new or changed. If other raw files of the hour are
    missing by then, its compacted rows are kept and only new rows are added.

    Args:
        files: the valid raw files.
        ledgers: of the store's hours, by their start.
        start_us, end_us: only hours that overlap this range.
        rebuild: build all hours that have raw files from these.
    """
    touching: dict[int, list[FileRecord]] = defaultdict(list)
    for file in sorted(files, key=lambda file: file.name):
        for hour_us in file.hours:
            if (start_us is None or hour_us + HOUR_US > start_us) and (end_us is None or hour_us < end_us):
                touching[hour_us].append(file)
    hours = []
    for hour_us, there in sorted(touching.items()):
        before = ledgers.get(hour_us)
        if before is None or rebuild:
            hours.append(Hour(hour_us, tuple(there)))
            continue
        known = {file.identity for file in before.files}
        if new := [file for file in there if file.identity not in known]:
            gone = by_name(before.files).keys() - {file.name for file in there}
            hours.append(Hour(hour_us, tuple(new if gone else there), bool(gone)))
    return hours


def batches(hours: Sequence[Hour], most_rows: float = BATCH_ROWS) -> Iterator[list[Hour]]:
    """Hours to be built together: first those from raw files only, up to `most_rows`; then, one by one, those that are
    added to compacted rows."""
    batch: list[Hour] = []
    rows = 0.0
    for hour in [hour for hour in hours if not hour.adds]:
        if batch and (rows + hour.rows > most_rows or len(batch) >= BATCH_HOURS):
            yield batch
            batch, rows = [], 0.0
        batch.append(hour)
        rows += hour.rows
    if batch:
        yield batch
    yield from ([hour] for hour in hours if hour.adds)


def named(hours: Sequence[Hour]) -> str:
    """The hours as text."""
    return span(hours[0].hour_us, hours[-1].hour_us + HOUR_US)
