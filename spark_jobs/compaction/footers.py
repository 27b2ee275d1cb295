"""Validates raw files by their footers, before their rows are read, on any storage.

A Parquet file ends with its footer, so a truncated file is detected without reading it.
"""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.datasets.limits import END_YEAR, FIRST_US, FIRST_YEAR, LAST_US
from spark_jobs.formats import name as shown
from spark_jobs.metrics import HISTOGRAM_TYPE, SCHEMA, TEXTS_TYPE
from spark_jobs.storage import Entry, Storage, StorageError
from spark_jobs.store.schema import HOUR_US
from spark_jobs.store.taken import NEWER, READ, FileRecord

TRUNCATED: Final = "truncated"
EMPTY: Final = "empty"
FOREIGN: Final = "foreign"
UNREADABLE: Final = "unreadable"
IMPOSSIBLE: Final = "impossible"

DAMAGED: Final = "is damaged"  # prefix of the reason for a file with a valid footer

LONGEST_HOURS: Final = 48
"""One export has one interval_end; merged files are still in the folder of one hour."""
AHEAD_US: Final = 24 * HOUR_US
"""How much later than its file a row may be.

Later rows would be in the range of each report without `--to`, until their time comes. A clock that is less than this
fast is a finding.
"""
_END: Final = "interval_end"
_INTERVAL_US: Final = 10_000_000  # of a file that does not say it: the default of metrics.interval
_MOST_DIGITS: Final = 15
_LONGEST_ERROR: Final = 300  # letters
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_ARROW_TYPES: Final = {
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    HISTOGRAM_TYPE: pa.list_(pa.int64()),
    TEXTS_TYPE: pa.list_(pa.string()),
}


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type for a type name of the schema file."""
    return _ARROW_TYPES[name]


def inspect(storage: Storage, entry: Entry) -> FileRecord:
    """Read and validate a file's footer."""

    def judged(status: str, why: str) -> FileRecord:
        return FileRecord(entry.name, entry.size, entry.modified_us, status, why)

    if entry.size == 0:
        kind = storage.in_place_of_file(entry.name)
        expected = f"cannot be read: it is {kind}; expected a file"
        return judged(UNREADABLE, expected) if kind else judged(EMPTY, "is zero bytes long")
    if not is_text(entry.name):
        return judged(UNREADABLE, "cannot be read: its name is not UTF-8, so no table can have it; rename it")
    try:
        with storage.open(entry.name) as source, pq.ParquetFile(source) as file:
            metadata, schema = file.metadata, file.schema_arrow
            status, why = _schema_of(schema, metadata.metadata or {})
            if status == FOREIGN:
                return judged(status, why)
            first, last = _ends(file)
    except pa.ArrowInvalid as error:
        return judged(*_broken(storage, entry, error))
    except Exception as error:  # pyarrow raises many types for a damaged footer
        if isinstance(error, OSError) and error.errno is None:  # a damaged page
            return damaged(judged(UNREADABLE, ""), _reason(error))
        return judged(UNREADABLE, f"cannot be read: {_reason(error)}")
    if first is not None and last is not None and (wrong := _impossible(first, last, entry.modified_us)):
        return replace(judged(IMPOSSIBLE, wrong), rows=metadata.num_rows)
    return replace(judged(status, why), rows=metadata.num_rows, first_us=first, last_us=last)


def usual_interval(storage: Storage, name: str) -> int:
    """The usual length of an interval in microseconds, by the footer of a good file."""
    with storage.open(name) as source:
        metadata = pq.read_metadata(source).metadata or {}
    text = metadata.get(b"sluice.interval_us", b"")
    return int(text) if text.isdigit() and len(text) < _MOST_DIGITS else _INTERVAL_US


def _reason(error: Exception) -> str:
    """Why a file cannot be read, without its name, which is said already."""
    cause = error.__cause__ if isinstance(error, StorageError) else None
    return (cause.strerror if isinstance(cause, OSError) else None) or first_line(error)


def damaged(file: FileRecord, why: str) -> FileRecord:
    """The record of a file whose pages cannot be read."""
    return FileRecord(file.name, file.size, file.modified_us, UNREADABLE, f"{DAMAGED}: {why}")


def is_text(name: str) -> bool:
    """Whether a name is UTF-8; Python represents other bytes as lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _broken(storage: Storage, entry: Entry, error: Exception) -> tuple[str, str]:
    try:
        with storage.open(entry.name) as file:
            begins_well = file.read(4) == b"PAR1"
    except (OSError, StorageError) as gone:
        return UNREADABLE, f"cannot be read: {first_line(gone)}"
    if begins_well:
        return TRUNCATED, f"has no Parquet footer at its end: truncated at {entry.size} bytes, or damaged"
    return UNREADABLE, f"is not a Parquet file: {first_line(error)}"


def first_line(error: Exception) -> str:
    """What an error says, in one line."""
    return shown(str(error).partition("\n")[0].removesuffix("."), _LONGEST_ERROR) or type(error).__name__


def _schema_of(schema: pa.Schema, metadata: dict[bytes, bytes]) -> tuple[str, str]:
    """Status and reason by a file's schema. Unknown columns are allowed."""
    name = metadata.get(b"sluice.schema", b"").decode(errors="replace")
    text = metadata.get(b"sluice.schema_version", b"").decode(errors="replace")
    version = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    if name != SCHEMA.name or version < SCHEMA.version:
        got = f"{shown(name) or 'no schema name'} version {shown(text) or 'none'}"
        return FOREIGN, f"foreign schema: {got}; this program reads {SCHEMA.name} version {SCHEMA.version}"
    names = schema.names  # a new list each time
    if twice := _same_name(names):
        return FOREIGN, f"foreign schema: columns {twice}; expected names that differ in more than case"
    newer = f"schema version {version} is newer than {SCHEMA.version}, and " if version > SCHEMA.version else ""
    wanted = (*SCHEMA.fields, *SCHEMA.interval_fields)
    missing = [field.name for field in wanted if field.name not in names]
    if missing:
        return FOREIGN, f"foreign schema: {newer}lacks {len(missing)} columns, the first is {missing[0]}"
    for field in wanted:
        got_type, right = schema.field(field.name).type, arrow_type(field.type)
        if not _same_type(got_type, right):
            return FOREIGN, f"foreign schema: {newer}column {field.name} is {got_type}; expected {right}"
    if newer:
        return NEWER, f"{newer}has all its columns: read without the new ones"
    return READ, ""


def _same_name(names: list[str]) -> str:
    """Two names that SQL, which ignores case, cannot tell apart; empty if there are none."""
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            return f"{seen[name.lower()]} and {name}"
        seen[name.lower()] = name
    return ""


def _same_type(got: pa.DataType, right: pa.DataType) -> bool:
    """Whether both are the same on disk; large variants and the name of a list's item are ignored."""
    if pa.types.is_string(right):
        return bool(pa.types.is_string(got) or pa.types.is_large_string(got))
    if pa.types.is_list(right):
        is_list = pa.types.is_list(got) or pa.types.is_large_list(got)
        return bool(is_list and got.value_type == right.value_type)
    return bool(got == right)


def _ends(file: pq.ParquetFile) -> tuple[int | None, int | None]:
    """The first and last interval_end of a file; None without rows.

    The footer has them too, but pyarrow ends the process if a damaged footer has another type for a column.
    """
    ends = file.read([_END], use_threads=False)[_END].cast(pa.int64())
    found = pc.min_max(ends)
    return found["min"].as_py(), found["max"].as_py()


def _impossible(first: int, last: int, modified: int) -> str:
    """What is impossible about the times of a file; empty if nothing is."""
    for end in (first, last):
        if not FIRST_US <= end <= LAST_US:
            expected = f"expected a time from {FIRST_YEAR} to {END_YEAR - 1} (is the broker's clock set?)"
            return f"impossible values: {_END} is {_moment(end)}; {expected}"
    if last - first > LONGEST_HOURS * HOUR_US:
        expected = f"expected at most {LONGEST_HOURS} hours in one file"
        return f"impossible values: {_END} is {_moment(first)} to {_moment(last)}; {expected}"
    now = int(time.time() * 1_000_000)
    written = min(modified, now) if modified >= FIRST_US else now  # a copy may have lost its time
    if last > written + AHEAD_US:
        but = f"but the file was written by {_moment(written)}"
        return f"impossible values: {_END} is {_moment(last)}, {but} (is the broker's clock set?)"
    return ""


def _moment(us: int) -> str:
    try:
        return (_EPOCH + timedelta(microseconds=us)).isoformat()
    except OverflowError:
        return f"{us:,} microseconds after 1970"
