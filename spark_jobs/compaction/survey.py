"""Finds and validates the raw files of a folder.

Expected layout: ROOT/date=YYYY-MM-DD/hour=HH/*.parquet, by the UTC hour of interval_end. Files whose names begin with
"_" or a dot are unfinished and ignored. Invalid files are named, skipped and counted.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from spark_jobs.compaction.footers import inspect
from spark_jobs.compaction.known import NOTHING_KNOWN, Known
from spark_jobs.errors import ReportError
from spark_jobs.formats import span
from spark_jobs.storage import Entry, Storage, is_hidden
from spark_jobs.storage.local import LocalStorage
from spark_jobs.store.schema import HOUR_US
from spark_jobs.store.taken import USED, FileRecord

LAYOUT: Final = "date=YYYY-MM-DD/hour=HH/*.parquet"
FOOTER_READERS: Final = 16
"""Threads that read footers over a network. On this machine they would only compute, and each keeps memory."""
NAMED_IN_ERROR: Final = 3
MISPLACED: Final = "misplaced"
DAY_US: Final = 24 * HOUR_US
_PLACE: Final = re.compile(r"date=(\d{4}-\d\d-\d\d)/hour=(\d\d)/[^/]+")


@dataclass(frozen=True)
class Survey:
    """The content of a metrics folder.

    Attributes:
        good: valid files that the store does not have as they are, sorted by name.
        skipped: invalid files, with the reason.
        unchanged: number of files that the store has as they are.
        temporary: number of unfinished files.
        inspected: number of footers read.
    """

    good: tuple[FileRecord, ...]
    skipped: tuple[FileRecord, ...]
    unchanged: int
    temporary: int
    inspected: int

    @property
    def files(self) -> int:
        """Number of valid files."""
        return len(self.good) + self.unchanged

    @property
    def rows(self) -> int:
        """Rows in the files of `good`, by their footers."""
        return sum(file.rows or 0 for file in self.good)


def _inspected(storage: Storage, entries: Sequence[Entry]) -> list[FileRecord]:
    """Read and validate the footers of files."""
    if isinstance(storage, LocalStorage):
        return [inspect(storage, entry) for entry in entries]
    with ThreadPoolExecutor(FOOTER_READERS) as pool:
        return list(pool.map(lambda entry: inspect(storage, entry), entries))


def survey(
    storage: Storage,
    known: Known = NOTHING_KNOWN,
    start_us: int | None = None,
    end_us: int | None = None,
) -> Survey:
    """Find the files that may have rows of [start, end), and inspect the footers of those that the store does not have.

    Args:
        storage: the metrics folder.
        known: what the store knows of files.
        start_us, end_us: range of interval_end; None: open.

    Raises:
        ReportError: the folder does not exist or has no metrics file.
    """
    require_folder(storage)
    new: list[Entry] = []
    skipped: list[FileRecord] = []
    temporary = damaged = unchanged = outside = 0
    for entry in _entries(storage, start_us, end_us):
        if is_hidden(entry.name):
            temporary += 1
        elif not entry.name.endswith(".parquet"):
            continue
        elif (hour_us := hour_of(entry.name)) is None:
            why = f"not in a folder {LAYOUT}"
            skipped.append(FileRecord(entry.name, entry.size, entry.modified_us, MISPLACED, why))
        elif not _may_hold(hour_us, start_us, end_us):
            outside += 1
        elif (record := known.damaged(entry)) is not None:
            skipped.append(record)
            damaged += 1
        elif known.has(entry, hour_us):
            unchanged += 1
        else:
            new.append(entry)
    if not (new or unchanged or damaged) and (outside or not skipped):
        raise ReportError(_nothing(storage, start_us, end_us))
    found = _inspected(storage, new)
    skipped += [file for file in found if file.status not in USED]
    return Survey(
        tuple(file for file in found if file.status in USED),
        tuple(sorted(skipped, key=lambda file: file.name)),
        unchanged,
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
        expected = f"{storage.shown}/{LAYOUT}"
        when = "a broker writes one each quarter of an hour, and when it stops"
        return f"{storage.shown}: no metrics files; expected {expected}: {when}"
    return (
        f"{storage.shown}: no files in the requested range, {span(start_us, end_us)}; "
        f"there are folders for {span(min(hours), max(hours) + HOUR_US)}"
    )


def require_good(storage: Storage, skipped: Iterable[FileRecord]) -> None:
    """Raise ReportError that names some of the skipped files, if no file is valid."""
    bad = list(skipped)
    named = "; ".join(f"{file.name}: {file.why}" for file in bad[:NAMED_IN_ERROR])
    more = len(bad) - NAMED_IN_ERROR
    rest = f"; and {more} more" if more > 0 else ""
    raise ReportError(f"{storage.shown}: none of the {len(bad)} files can be used: {named}{rest}")


def hour_of(name: str) -> int | None:
    """The start of the hour named by a file's two folders, in microseconds; None if they name none."""
    match = _PLACE.fullmatch(name)
    try:
        time = datetime.fromisoformat(f"{match[1]}T{match[2]}:00:00+00:00") if match else None
    except ValueError:
        return None
    return int(time.timestamp()) * 1_000_000 if time else None


def require_folder(storage: Storage) -> None:
    """Raise ReportError, with the layout that is expected, if there is no such folder."""
    if storage.is_folder():
        return
    what = "is not a folder" if storage.exists() else "does not exist"
    raise ReportError(f"{storage.shown}: {what}; expected the folder of the broker's metrics ({LAYOUT})")


def _may_hold(hour: int, start_us: int | None, end_us: int | None) -> bool:
    """Whether the file's folder may have rows of the range, with a tolerance of one hour."""
    return (start_us is None or hour + 2 * HOUR_US > start_us) and (end_us is None or hour - HOUR_US < end_us)
