"""Finds and validates the raw files of a folder.

Expected layout: ROOT/date=YYYY-MM-DD/hour=HH/*.parquet, by the UTC hour of interval_end. Files whose names begin with
"_" or a dot are unfinished and ignored. Invalid files are named, skipped and counted.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from spark_jobs.compaction.footers import inspect
from spark_jobs.errors import ReportError
from spark_jobs.storage import Entry, Storage, is_hidden
from spark_jobs.store.schema import HOUR_US
from spark_jobs.store.taken import USED, FileRecord, hour_name

LAYOUT: Final = "date=YYYY-MM-DD/hour=HH/*.parquet"
FOOTER_READERS: Final = 16  # threads; reading footers waits for the disk
NAMED_IN_ERROR: Final = 3
MISPLACED: Final = "misplaced"
DAY_US: Final = 24 * HOUR_US
_PLACE: Final = re.compile(r"date=(\d{4}-\d\d-\d\d)/hour=(\d\d)/[^/]+")


@dataclass(frozen=True)
class Survey:
    """The content of a metrics folder.

    Attributes:
        good: valid files, sorted by name.
        skipped: invalid files, with the reason.
        temporary: number of unfinished files.
        inspected: number of footers read; the other files were known.
    """

    good: tuple[FileRecord, ...]
    skipped: tuple[FileRecord, ...]
    temporary: int
    inspected: int

    @property
    def rows(self) -> int:
        """Rows in the valid files, by their footers."""
        return sum(file.rows or 0 for file in self.good)


def survey(
    storage: Storage,
    known_of: Callable[[Iterable[int]], Mapping[str, FileRecord]] | None = None,
    start_us: int | None = None,
    end_us: int | None = None,
) -> Survey:
    """Find the files that may have rows of [start, end), and inspect the footers of unknown files.

    Args:
        storage: the metrics folder.
        known_of: returns the records of earlier surveys, by name, for the hours whose folders have files; a file with
            the same size and time is not inspected again.
        start_us, end_us: range of interval_end; None: open.

    Raises:
        ReportError: the folder does not exist or has no metrics file.
    """
    _require_folder(storage)
    parquet: list[Entry] = []
    temporary = 0
    for entry in _entries(storage, start_us, end_us):
        if is_hidden(entry.name):
            temporary += 1
        elif entry.name.endswith(".parquet"):
            parquet.append(entry)
    if not parquet:
        raise ReportError(_nothing(storage, start_us, end_us))
    hours = {entry.name: hour_of(entry.name) for entry in parquet}
    placed = [entry for entry in parquet if hours[entry.name] is not None]
    wanted = [entry for entry in placed if _may_hold(hours[entry.name], start_us, end_us)]
    if placed and not wanted:
        raise ReportError(_nothing(storage, start_us, end_us))
    known = known_of({hours[entry.name] or 0 for entry in wanted}) if known_of is not None and wanted else {}
    new = [entry for entry in wanted if not _is_known(entry, known)]
    with ThreadPoolExecutor(FOOTER_READERS) as pool:
        found = dict(zip([entry.name for entry in new], pool.map(lambda e: inspect(storage, e), new), strict=True))
    files = [found.get(entry.name) or known[entry.name] for entry in wanted]
    files += [
        FileRecord(entry.name, entry.size, entry.modified_us, MISPLACED, f"not in a folder {LAYOUT}")
        for entry in parquet
        if hours[entry.name] is None
    ]
    return Survey(
        tuple(file for file in files if file.status in USED),
        tuple(sorted((file for file in files if file.status not in USED), key=lambda file: file.name)),
        temporary,
        len(new),
    )


def _entries(storage: Storage, start_us: int | None, end_us: int | None) -> Iterator[Entry]:
    """The files of a metrics folder; with a range only those in the folders of its dates, others are not listed."""
    if start_us is None and end_us is None:
        yield from storage.files()
        return
    for name in storage.folders():
        day = hour_of(f"{name}/hour=00/x")
        if day is None or not _may_hold_day(day, start_us, end_us):
            continue
        yield from storage.files(name)


def _may_hold_day(day: int, start_us: int | None, end_us: int | None) -> bool:
    return any(_may_hold(hour, start_us, end_us) for hour in range(day, day + DAY_US, HOUR_US))


def _nothing(storage: Storage, start_us: int | None, end_us: int | None) -> str:
    """The message about a folder, or a range of it, without metrics files."""
    hours = [
        hour
        for date in storage.folders()
        for name in storage.folders(date)
        if (hour := hour_of(f"{date}/{name}/x")) is not None
    ]
    if not hours or (start_us is None and end_us is None):
        return f"{storage.shown}: no metrics files; expected {storage.shown}/{LAYOUT}"
    return (
        f"{storage.shown}: no files in the requested range ({span(start_us, end_us)}); "
        f"there are folders for {hour_name(min(hours))} to {hour_name(max(hours))} (UTC)"
    )


def require_good(storage: Storage, skipped: Iterable[FileRecord]) -> None:
    """Raise ReportError that names some of the skipped files, if no file is valid."""
    bad = list(skipped)
    named = "; ".join(f"{file.name}: {file.why}" for file in bad[:NAMED_IN_ERROR])
    more = len(bad) - NAMED_IN_ERROR
    rest = f"; and {more} more" if more > 0 else ""
    raise ReportError(f"{storage.shown}: none of the {len(bad)} files can be used: {named}{rest}")


def span(start_us: int | None, end_us: int | None) -> str:
    """A range as text."""
    first = hour_name(start_us) if start_us is not None else "the beginning"
    last = hour_name(end_us) if end_us is not None else "the end"
    return f"{first} to {last}"


def hour_of(name: str) -> int | None:
    """The start of the hour named by a file's two folders, in microseconds; None if they name none."""
    match = _PLACE.fullmatch(name)
    try:
        time = datetime.fromisoformat(f"{match[1]}T{match[2]}:00:00+00:00") if match else None
    except ValueError:
        return None
    return int(time.timestamp()) * 1_000_000 if time else None


def _require_folder(storage: Storage) -> None:
    if storage.is_folder():
        return
    what = "is not a folder" if storage.exists() else "does not exist"
    raise ReportError(f"{storage.shown}: {what}; expected the folder of the broker's metrics ({LAYOUT})")


def _is_known(entry: Entry, known: Mapping[str, FileRecord]) -> bool:
    file = known.get(entry.name)
    return file is not None and (file.size, file.modified_us) == (entry.size, entry.modified_us)


def _may_hold(hour: int | None, start_us: int | None, end_us: int | None) -> bool:
    """Whether the file's folder may have rows of the range, with a tolerance of one hour."""
    if hour is None:
        return False
    return (start_us is None or hour + 2 * HOUR_US > start_us) and (end_us is None or hour - HOUR_US < end_us)
