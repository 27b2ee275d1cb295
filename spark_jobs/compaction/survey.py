"""Finding the raw files of a folder, and what is known of each.

Expected layout: ROOT/date=YYYY-MM-DD/hour=HH/*.parquet, by the UTC hour of interval_end. Names that begin with "_" or
a dot are files still being written, and are left alone. What is not good is named, skipped and counted; it never
stops anything.
"""

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from spark_jobs.compaction.footers import inspect
from spark_jobs.compaction.schema import HOUR_US
from spark_jobs.compaction.state import USED, FileRecord, hour_name
from spark_jobs.errors import ReportError
from spark_jobs.storage import Entry, Storage, is_hidden

LAYOUT: Final = "date=YYYY-MM-DD/hour=HH/*.parquet"
FOOTER_READERS: Final = 16  # threads; reading footers waits for the disk, not for the processor
NAMED_IN_ERROR: Final = 3
MISPLACED: Final = "misplaced"
_PLACE: Final = re.compile(r"date=(\d{4}-\d\d-\d\d)/hour=(\d\d)/[^/]+")


@dataclass(frozen=True)
class Survey:
    """What lies in a metrics folder.

    Attributes:
        good: files that can be read, sorted by name.
        skipped: files that cannot, with the reason.
        temporary: how many are still being written.
        out_of_range: how many lie in folders outside of the asked range, and were not looked at.
        inspected: how many footers had to be read; the others were known.
    """

    good: tuple[FileRecord, ...]
    skipped: tuple[FileRecord, ...]
    temporary: int
    out_of_range: int
    inspected: int

    @property
    def rows(self) -> int:
        """Rows in the good files, as their footers say."""
        return sum(file.rows or 0 for file in self.good)


def survey(
    storage: Storage,
    known: Mapping[str, FileRecord] | None = None,
    start_us: int | None = None,
    end_us: int | None = None,
) -> Survey:
    """Find the files that may hold rows of [start, end), and inspect the footers of those that are not known yet.

    Args:
        storage: the metrics folder.
        known: what earlier surveys found out, by name; a file with the same size and time is not read again.
        start_us, end_us: range of interval_end; None leaves a side open.

    Raises:
        ReportError: there is no such folder, or no metrics file in it.
    """
    _require_folder(storage)
    parquet: list[Entry] = []
    temporary = 0
    for entry in storage.files():
        if is_hidden(entry.name):
            temporary += 1
        elif entry.name.endswith(".parquet"):
            parquet.append(entry)
    if not parquet:
        raise ReportError(f"{storage.shown}: no metrics files; expected {storage.shown}/{LAYOUT}")
    hours = {entry.name: hour_of(entry.name) for entry in parquet}
    placed = [entry for entry in parquet if hours[entry.name] is not None]
    wanted = [entry for entry in placed if _may_hold(hours[entry.name], start_us, end_us)]
    if placed and not wanted:
        there = sorted(hour for hour in hours.values() if hour is not None)
        raise ReportError(
            f"{storage.shown}: no files in the asked range ({span(start_us, end_us)}); "
            f"there is {hour_name(there[0])} to {hour_name(there[-1])} (UTC)"
        )
    new = [entry for entry in wanted if not _is_known(entry, known or {})]
    with ThreadPoolExecutor(FOOTER_READERS) as pool:
        found = dict(zip([entry.name for entry in new], pool.map(lambda e: inspect(storage, e), new), strict=True))
    files = [found.get(entry.name) or (known or {})[entry.name] for entry in wanted]
    files += [
        FileRecord(entry.name, entry.size, entry.modified_us, MISPLACED, f"not in a folder {LAYOUT}")
        for entry in parquet
        if hours[entry.name] is None
    ]
    return Survey(
        tuple(file for file in files if file.status in USED),
        tuple(sorted((file for file in files if file.status not in USED), key=lambda file: file.name)),
        temporary,
        len(placed) - len(wanted),
        len(new),
    )


def require_good(storage: Storage, skipped: Iterable[FileRecord]) -> None:
    """Raise ReportError that names some of the files: for when none is good."""
    bad = list(skipped)
    named = "; ".join(f"{file.name}: {file.why}" for file in bad[:NAMED_IN_ERROR])
    more = len(bad) - NAMED_IN_ERROR
    rest = f"; and {more} more" if more > 0 else ""
    raise ReportError(f"{storage.shown}: none of the {len(bad)} files can be used: {named}{rest}")


def span(start_us: int | None, end_us: int | None) -> str:
    """A range in words."""
    first = hour_name(start_us) if start_us is not None else "the beginning"
    last = hour_name(end_us) if end_us is not None else "the end"
    return f"{first} to {last}"


def hour_of(name: str) -> int | None:
    """The start of the hour that a file's two folders name, in microseconds; None if they do not."""
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
    raise ReportError(f"{storage.shown}: {what}; give the folder that the broker exports its metrics to ({LAYOUT})")


def _is_known(entry: Entry, known: Mapping[str, FileRecord]) -> bool:
    file = known.get(entry.name)
    return file is not None and (file.size, file.modified_us) == (entry.size, entry.modified_us)


def _may_hold(hour: int | None, start_us: int | None, end_us: int | None) -> bool:
    """Whether the file's folder may hold rows of the range, with an hour to spare on both sides."""
    if hour is None:
        return False
    return (start_us is None or hour + 2 * HOUR_US > start_us) and (end_us is None or hour - HOUR_US < end_us)
