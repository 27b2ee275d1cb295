"""Decides which hours have to be built, and from which files."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs.compaction.schema import FORMAT, HOUR_US
from spark_jobs.compaction.state import FileRecord, Ledger, by_name, hour_folder, hour_name
from spark_jobs.metrics import SCHEMA

BATCH_ROWS: Final = 25_000_000  # raw rows compacted at once, approximately: batches are whole hours
BATCH_HOURS: Final = 48


@dataclass(frozen=True)
class Hour:
    """An hour to be built.

    Attributes:
        hour_us: its start.
        files: the raw files to read, sorted by name.
        base: the ledger of the compacted rows to add them to; None: the hour is built from raw files only.
        version: name of the folder that will be built.
    """

    hour_us: int
    files: tuple[FileRecord, ...]
    base: Ledger | None
    version: str

    @property
    def folder(self) -> str:
        """Its folder below the store."""
        return f"{hour_folder(self.hour_us)}/{self.version}"

    @property
    def rows(self) -> float:
        """Its approximate number of raw rows: rows of a file are assumed to be spread evenly over its hours."""
        return sum((file.rows or 0) / max(1, len(file.hours)) for file in self.files)


def plan(
    files: Iterable[FileRecord],
    ledgers: Mapping[int, Ledger],
    slot_us: int,
    start_us: int | None = None,
    end_us: int | None = None,
    versions: Mapping[str, str] | None = None,
) -> list[Hour]:
    """The changed hours of [start, end), in order.

    An hour is rebuilt from all its raw files if one of them is new or changed. If other raw files of the hour are
    missing by then, its compacted rows are kept and only new rows are added.

    Args:
        files: the valid raw files.
        ledgers: of the store's hours, by their start.
        slot_us: length of the timeline's slots.
        start_us, end_us: only hours that overlap this range.
        versions: folders of the store's hours, from its manifest.
    """
    touching: dict[int, list[FileRecord]] = defaultdict(list)
    for file in sorted(files, key=lambda file: file.name):
        for hour_us in file.hours:
            if (start_us is None or hour_us + HOUR_US > start_us) and (end_us is None or hour_us < end_us):
                touching[hour_us].append(file)
    hours = []
    for hour_us, there in sorted(touching.items()):
        before = ledgers.get(hour_us)
        if before is None:
            hours.append(Hour(hour_us, tuple(there), None, version_of(there, slot_us)))
            continue
        known = {file.identity for file in before.files}
        new = [file for file in there if file.identity not in known]
        if not new:
            continue
        gone = by_name(before.files).keys() - {file.name for file in there}
        if gone:
            base = (versions or {}).get(hour_name(hour_us), "")
            hours.append(Hour(hour_us, tuple(new), before, version_of(new, slot_us, base)))
        else:
            hours.append(Hour(hour_us, tuple(there), None, version_of(there, slot_us)))
    return hours


def version_of(files: Sequence[FileRecord], slot_us: int, base: str = "") -> str:
    """A digest of an hour's input: the same input gives the same name."""
    digest = hashlib.sha256(f"{FORMAT} {SCHEMA.name} {SCHEMA.version} {slot_us} {base}\n".encode())
    for file in sorted(files, key=lambda file: file.name):
        name = file.name.encode(errors="surrogateescape")
        digest.update(b"%d %d %b\0" % (file.size, file.rows or 0, name))
    return digest.hexdigest()[:16]


def batches(hours: Sequence[Hour], most_rows: float = BATCH_ROWS) -> Iterator[list[Hour]]:
    """Hours to be built together: first those from raw files only, up to `most_rows`; then, one by one, those that are
    added to compacted rows."""
    batch: list[Hour] = []
    rows = 0.0
    for hour in [hour for hour in hours if hour.base is None]:
        if batch and (rows + hour.rows > most_rows or len(batch) >= BATCH_HOURS):
            yield batch
            batch, rows = [], 0.0
        batch.append(hour)
        rows += hour.rows
    if batch:
        yield batch
    yield from ([hour] for hour in hours if hour.base is not None)
