"""What has been taken in: one row for each raw file and hour, kept as a table beside the compacted rows."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from spark_jobs.store.schema import HOUR_US

READ: Final = "read"
DUPLICATE: Final = "duplicate"
OVERLAPPING: Final = "overlapping"
NEWER: Final = "newer"
USED: Final = frozenset({READ, DUPLICATE, OVERLAPPING, NEWER})
"""The status of files whose rows are in the store."""

_TIME: Final = pa.timestamp("us", tz="UTC")
_COLUMNS: Final = pa.schema(
    [
        ("name", pa.string()),
        ("size", pa.int64()),
        ("modified", _TIME),
        ("status", pa.string()),
        ("why", pa.string()),
        ("rows", pa.int64()),
        ("rows_here", pa.int64()),
        ("dropped", pa.int64()),
        ("first_interval_end", _TIME),
        ("last_interval_end", _TIME),
        ("late", pa.bool_()),
        ("brokers", pa.list_(pa.string())),
    ]
)
_TIMES: Final = {"modified_us": "modified", "first_us": "first_interval_end", "last_us": "last_interval_end"}
FILES_SCHEMA: Final = _COLUMNS.append(pa.field("date", pa.date32())).append(pa.field("hour", pa.int32()))
SKIPPED_SCHEMA: Final = _COLUMNS
BROKERS_SCHEMA: Final = pa.schema([("broker", pa.string()), ("last_interval_end", _TIME)])
ERASED_SCHEMA: Final = pa.schema([("client_digest", pa.string()), ("range_start", _TIME), ("range_end", _TIME)])


@dataclass(frozen=True)
class FileRecord:
    """One raw file.

    Attributes:
        name: relative to the metrics folder.
        size, modified_us: from the file system.
        status: read, newer (schema), duplicate (all its rows are also in other files), overlapping (some are);
            or if it was skipped: truncated, empty, foreign, unreadable, misplaced, impossible (its values).
        why: explanation of the status; empty for `read`.
        rows: from its footer; None if that cannot be read.
        rows_here: rows of the record's hour.
        dropped: of those, duplicates of rows in other files.
        first_us, last_us: first and last interval_end; None if unknown.
        late: it has rows older than its broker's watermark when it was compacted.
        brokers: brokers of its rows, if known.
    """

    name: str
    size: int
    modified_us: int
    status: str
    why: str = ""
    rows: int | None = None
    rows_here: int = 0
    dropped: int = 0
    first_us: int | None = None
    last_us: int | None = None
    late: bool = False
    brokers: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[str, int, int, int | None]:
        """The values that identify an unchanged file."""
        return (self.name, self.size, self.modified_us, self.rows)

    @property
    def hours(self) -> tuple[int, ...]:
        """The starts of the hours of its rows, in microseconds; empty if its bounds are unknown."""
        if self.first_us is None or self.last_us is None:
            return ()
        return tuple(range(self.first_us - self.first_us % HOUR_US, self.last_us + 1, HOUR_US))


@dataclass(frozen=True)
class Note:
    """A finding about the input that is not about one file: its kind, the name of its subject, an explanation."""

    kind: str
    name: str
    why: str


@dataclass(frozen=True)
class Ledger:
    """The raw files of one compacted hour, given by its start."""

    hour_us: int
    files: tuple[FileRecord, ...] = ()

    @property
    def rows(self) -> int:
        """Compacted raw rows."""
        return sum(file.rows_here - file.dropped for file in self.files)

    @property
    def duplicates(self) -> int:
        """Rows left out because their key occurs in another file."""
        return sum(file.dropped for file in self.files)


def records_table(records: Iterable[FileRecord]) -> pa.Table:
    """Records as rows of the table of files or of skipped files, without the partition columns."""
    rows = []
    for record in records:
        row = asdict(record)
        rows.append({_TIMES.get(name, name): value for name, value in row.items()} | {"name": text(record.name)})
    return pa.Table.from_pylist(rows, schema=_COLUMNS)


def records_of(table: pa.Table) -> list[FileRecord]:
    """The records of such rows."""
    plain = table.select(_COLUMNS.names).cast(
        pa.schema([(field.name, pa.int64() if field.type == _TIME else field.type) for field in _COLUMNS])
    )
    names = {stored: name for name, stored in _TIMES.items()}
    return [
        FileRecord(**{names.get(name, name): value for name, value in row.items()} | {"brokers": tuple(row["brokers"])})
        for row in plain.to_pylist()
    ]


def watermarks_table(watermarks: Mapping[str, int]) -> pa.Table:
    """Broker -> last compacted interval_end, as rows of the table of brokers."""
    ends = pa.array(watermarks.values(), _TIME)
    return pa.Table.from_arrays([pa.array(watermarks.keys(), pa.string()), ends], schema=BROKERS_SCHEMA)


def watermarks_of(table: pa.Table) -> dict[str, int]:
    """The watermarks of such rows, in microseconds."""
    ends = table["last_interval_end"].cast(pa.int64()).to_pylist()
    return dict(sorted(zip(table["broker"].to_pylist(), ends, strict=True)))


def text(name: str) -> str:
    """A file's name as text: bytes that are not UTF-8, which Python has as lone surrogates, are escaped."""
    return name.encode(errors="backslashreplace").decode()


def hour_name(hour_us: int) -> str:
    """2026-11-21T13 for the hour that starts then."""
    return datetime.fromtimestamp(hour_us // 1_000_000, UTC).isoformat()[:13]  # strftime has 1-01-01 for the year 1


def hour_start(name: str) -> int:
    """The start, in microseconds, of the hour with this name."""
    return int(datetime.fromisoformat(f"{name}:00:00+00:00").timestamp()) * 1_000_000


def by_name(files: Iterable[FileRecord]) -> dict[str, FileRecord]:
    """Files by their names."""
    return {file.name: file for file in files}


def partition_of(hour_us: int) -> dict[str, str | None]:
    """The partition values of an hour."""
    date, _, hour = hour_name(hour_us).partition("T")
    return {"date": date, "hour": str(int(hour))}


def hour_of_partition(values: Mapping[str, Any]) -> int:
    """The start of the hour with these partition values."""
    return hour_start(f"{values['date']}T{int(values['hour']):02}")
