"""Finding the metrics files of a folder, and telling good from bad by their footers before Spark sees them.

A Parquet file ends with its footer, so a file cut short has none and is found out without being read. What is
not good is named, skipped and counted; it never stops the report. Expected layout:
ROOT/date=YYYY-MM-DD/hour=HH/*.parquet, by the UTC hour of interval_end. Names that start with "_" or "." are
files still being written, and are left alone.
"""

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.errors import ReportError
from spark_jobs.metrics import FIRST_VERSION, READABLE, SCHEMA

LAYOUT: Final = "date=YYYY-MM-DD/hour=HH/*.parquet"
FOOTER_READERS: Final = 16  # threads; reading footers waits for the disk, not for the processor
NAMED_IN_ERROR: Final = 3

TRUNCATED: Final = "truncated"
EMPTY: Final = "empty"
FOREIGN: Final = "foreign"
UNREADABLE: Final = "unreadable"
MISPLACED: Final = "misplaced"

_ARROW_TYPES: Final = {
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "list<int64>": pa.list_(pa.int64()),
}


@dataclass(frozen=True)
class GoodFile:
    """A file with a sound footer and our schema; first and last interval_end are None if it states none."""

    path: Path
    rows: int
    first: datetime | None
    last: datetime | None


@dataclass(frozen=True)
class SkippedFile:
    """A file that the report leaves out: which kind of bad, and why in words."""

    path: Path
    kind: str
    reason: str


@dataclass(frozen=True)
class Survey:
    """What lies in a metrics folder.

    `temporary` counts files still being written, `out_of_range` those in folders that the asked range
    excludes by name.
    """

    root: Path
    good: tuple[GoodFile, ...]
    skipped: tuple[SkippedFile, ...]
    temporary: int
    out_of_range: int

    @property
    def rows(self) -> int:
        """Rows in the good files, as their footers say."""
        return sum(file.rows for file in self.good)

    def without(self, bad: Iterable[SkippedFile]) -> "Survey":
        """The same with some of the good files found to be bad after all."""
        found = {file.path: file for file in bad}
        return replace(
            self,
            good=tuple(file for file in self.good if file.path not in found),
            skipped=tuple(sorted((*self.skipped, *found.values()), key=lambda file: file.path)),
        )


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type for a type name of the schema file."""
    return _ARROW_TYPES[name]


def survey(root: Path, start: datetime | None = None, end: datetime | None = None) -> Survey:
    """Find the files below `root` that may hold rows of [start, end), and inspect their footers.

    Raises:
        ReportError: `root` is no folder that can be read, or there is nothing in it that can be used.
    """
    if "://" in str(root) or re.match(r"^[a-z][a-z0-9+.-]+:/", str(root)):
        raise ReportError(f"--metrics {root}: must be a folder of this machine, not an address")
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        raise ReportError(
            f"--metrics {root}: {what}; give the folder that the broker exports its metrics to ({LAYOUT})"
        )
    try:
        placed, misplaced, temporary = _walk(root)
    except OSError as error:
        raise ReportError(
            f"--metrics {root}: cannot be listed: {error.strerror} ({error.filename})"
        ) from error
    if not placed and not misplaced:
        raise ReportError(f"--metrics {root}: no metrics files; expected {root}/{LAYOUT}")
    wanted = [path for path in placed if _may_hold(path, start, end)]
    if placed and not wanted:
        hours = sorted(f"{path.parent.parent.name}/{path.parent.name}" for path in placed)
        raise ReportError(
            f"--metrics {root}: no files in the asked range ({span(start, end)}); "
            f"there is {hours[0]} to {hours[-1]} (UTC)"
        )
    with ThreadPoolExecutor(FOOTER_READERS) as pool:
        results = list(pool.map(inspect, wanted))
    good = tuple(file for file in results if isinstance(file, GoodFile))
    skipped = [file for file in results if isinstance(file, SkippedFile)]
    skipped += [SkippedFile(path, MISPLACED, f"not in a folder {LAYOUT}") for path in misplaced]
    found = Survey(
        root, good, tuple(sorted(skipped, key=lambda file: file.path)), temporary, len(placed) - len(wanted)
    )
    require_good(found)
    return found


def require_good(found: Survey) -> None:
    """Raise ReportError if no usable file is left."""
    if found.good:
        return
    kinds = {file.kind for file in found.skipped}
    named = "; ".join(f"{file.path}: {file.reason}" for file in found.skipped[:NAMED_IN_ERROR])
    more = len(found.skipped) - NAMED_IN_ERROR
    rest = f"; and {more} more" if more > 0 else ""
    wrong = f"is of schema {READABLE}" if kinds == {FOREIGN} else "can be used"
    raise ReportError(
        f"--metrics {found.root}: none of the {len(found.skipped)} files {wrong}: {named}{rest}"
    )


def span(start: datetime | None, end: datetime | None) -> str:
    """A range in words."""
    return f"{start.isoformat() if start else 'the beginning'} to {end.isoformat() if end else 'the end'}"


def _walk(root: Path) -> tuple[list[Path], list[Path], int]:
    """Files in date/hour folders, Parquet files anywhere else, and how many are still being written."""
    placed: list[Path] = []
    misplaced: list[Path] = []
    temporary = 0
    for path in sorted(_files_below(root)):
        if path.name.startswith(("_", ".")):
            temporary += 1
        elif path.suffix == ".parquet":
            (placed if _hour_of(path, root) is not None else misplaced).append(path)
    return placed, misplaced, temporary


def _files_below(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.name.startswith(("_", ".")):
            yield from _files_below(entry)
        elif not entry.is_dir():
            yield entry


def _hour_of(path: Path, root: Path | None = None) -> datetime | None:
    """The hour that the file's two folders name; None if they do not, or do not lie right below root."""
    if root is not None and path.parent.parent.parent != root:
        return None
    match = re.fullmatch(
        r"date=(\d{4}-\d\d-\d\d)/hour=(\d\d)", f"{path.parent.parent.name}/{path.parent.name}"
    )
    try:
        return datetime.fromisoformat(f"{match[1]}T{match[2]}:00:00+00:00") if match else None
    except ValueError:
        return None


def _may_hold(path: Path, start: datetime | None, end: datetime | None) -> bool:
    """Whether the file's folder may hold rows of the range, with an hour to spare on both sides."""
    hour = _hour_of(path)
    spare = timedelta(hours=1)
    if hour is None:
        return False
    return (start is None or hour + 2 * spare > start) and (end is None or hour - spare < end)


def inspect(path: Path) -> GoodFile | SkippedFile:
    """Read a file's footer and judge it."""
    try:
        size = path.stat().st_size
        if size == 0:
            return SkippedFile(path, EMPTY, "is zero bytes long")
        with pq.ParquetFile(path) as file:
            metadata, schema = file.metadata, file.schema_arrow
    except pa.ArrowInvalid as error:
        return _judge_broken(path, size, error)
    except (OSError, pa.ArrowException) as error:
        return SkippedFile(path, UNREADABLE, f"cannot be read: {_first_line(error)}")
    wrong = _wrong_schema(schema, metadata.metadata or {})
    if wrong is not None:
        return SkippedFile(path, FOREIGN, wrong)
    first, last = _bounds(metadata)
    return GoodFile(path, metadata.num_rows, first, last)


def _judge_broken(path: Path, size: int, error: Exception) -> SkippedFile:
    with path.open("rb") as file:
        begins_well = file.read(4) == b"PAR1"
    if begins_well:
        return SkippedFile(
            path, TRUNCATED, f"has no Parquet footer at its end: truncated at {size} bytes, or damaged"
        )
    return SkippedFile(path, UNREADABLE, f"is not a Parquet file: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].removesuffix(".") or type(error).__name__


def _wrong_schema(schema: pa.Schema, metadata: dict[bytes, bytes]) -> str | None:
    """What is foreign about a file's schema; None if it is ours. Columns that we do not know are no fault."""
    name = metadata.get(b"sluice.schema", b"").decode(errors="replace")
    version = metadata.get(b"sluice.schema_version", b"").decode(errors="replace")
    known = {str(number): number for number in range(FIRST_VERSION, SCHEMA.version + 1)}
    if name != SCHEMA.name or version not in known:
        got = f"{name or 'no schema name'} version {version or 'none'}"
        return f"foreign schema: {got}; this report reads {READABLE}"
    there = [field for field in SCHEMA.fields if field.name in schema.names]
    missing = [field.name for field in SCHEMA.fields if field.since <= known[version] and field not in there]
    if missing:
        return f"foreign schema: lacks {len(missing)} columns, the first is {missing[0]}"
    for field in there:
        got_type, right = schema.field(field.name).type, arrow_type(field.type)
        if not _same_type(got_type, right):
            return f"foreign schema: column {field.name} is {got_type}; {right} would be right"
    return None


def _same_type(got: pa.DataType, right: pa.DataType) -> bool:
    """Whether both are the same on disk: large variants and the name of a list's item do not matter."""
    if pa.types.is_string(right):
        return bool(pa.types.is_string(got) or pa.types.is_large_string(got))
    if pa.types.is_list(right):
        is_list = pa.types.is_list(got) or pa.types.is_large_list(got)
        return bool(is_list and got.value_type == right.value_type)
    return bool(got == right)


def _bounds(metadata: pq.FileMetaData) -> tuple[datetime | None, datetime | None]:
    """Lowest and highest interval_end by the footer's statistics; None where a row group states none."""
    column = [metadata.schema.column(i).path for i in range(metadata.num_columns)].index("interval_end")
    lows: list[datetime] = []
    highs: list[datetime] = []
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(column).statistics
        if statistics is None or not statistics.has_min_max:
            return None, None
        lows.append(statistics.min.astimezone(UTC))
        highs.append(statistics.max.astimezone(UTC))
    return (min(lows), max(highs)) if lows else (None, None)


def read_through(found: Survey) -> list[SkippedFile]:
    """Read every good file to its last page, and name those that cannot be: for when a job has failed."""
    bad: list[SkippedFile] = []
    for good in found.good:
        try:
            with pq.ParquetFile(good.path) as file:
                for _ in file.iter_batches():
                    pass
        except (OSError, pa.ArrowException) as error:
            bad.append(SkippedFile(good.path, UNREADABLE, f"is damaged: {_first_line(error)}"))
    return bad
