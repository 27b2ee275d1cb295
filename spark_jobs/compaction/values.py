"""Checks the range of a raw file's values, so that no impossible value is summed.

The footer states the lowest and highest value and the number of nulls of each column of each row group. A column is
read only if the footer does not. Times are compared as whole microseconds: Python's datetime does not cover 64 bits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.compaction.thrift import Chunk
from spark_jobs.metrics import BUCKETS, COUNT_SHIFT, HISTOGRAM_TYPE, OF_INTERVALS, SCHEMA, Field

FIRST_YEAR: Final = 2000
END_YEAR: Final = 2200
LONGEST_HOURS: Final = 48
"""One export has one interval_end; merged files are still in the folder of one hour."""

# Counts and bytes: 10^12 messages, or a terabyte, to one session in an interval is impossible. The sum of four million
# rows with that value is below 2^63. Times: an interval may be as long as the broker has been up, and the waiting time
# of PUBLISHes is a sum over all of them, so the limit is nine years; 32,768 rows of an hour may reach it.
MOST_COUNTED: Final = 1 << 40
MOST_US: Final = 1 << 48
MOST_SQUARES: Final = 1 << 52  # of 450,000 delivery ratios; 2,000 intervals of an hour may reach it
MOST_VERSION: Final = 255  # one byte in MQTT's CONNECT

_BROKER: Final = "broker"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_US: Final = 1_000_000
_HOUR_US: Final = 3600 * _SECOND_US


def _start_of(year: int) -> int:
    return (datetime(year, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


FIRST_US: Final = _start_of(FIRST_YEAR)


def _range(field: Field) -> tuple[int, int] | None:
    """The lowest and highest allowed value of a column; None if it is not a number or time."""
    match field.type:
        case "string" | "bool":
            return None
        case "timestamp":
            return FIRST_US, _start_of(END_YEAR) - 1
        case "int32":
            return 0, MOST_VERSION
        case "histogram":
            return 0, (MOST_COUNTED << COUNT_SHIFT) + BUCKETS - 1
        case "int64" if field.name in OF_INTERVALS:
            return 0, MOST_SQUARES
        case "int64" if field.unit == "us":
            return 0, MOST_US
        case _:
            return 0, MOST_COUNTED


_FIELDS: Final = {field.name: field for field in (*SCHEMA.fields, *SCHEMA.interval_fields)}

_RANGES: Final = {name: ends for name, field in _FIELDS.items() if (ends := _range(field)) is not None}


@dataclass(frozen=True, slots=True)
class Extent:
    """Of one column: number of nulls, and the lowest and highest number or time; None without values."""

    nulls: int = 0
    low: int | None = None
    high: int | None = None

    def __or__(self, other: "Extent") -> "Extent":
        """The extent of both."""
        ends = [end for end in (self.low, self.high, other.low, other.high) if end is not None]
        return Extent(self.nulls + other.nulls, min(ends, default=None), max(ends, default=None))


def extents(file: pq.ParquetFile, groups: Sequence[Sequence[Chunk]]) -> dict[str, Extent]:
    """The extent of each column of the schema; `groups` are the row groups of the file's footer.

    Raises:
        OSError, pa.ArrowException: a column cannot be read.
    """
    metadata, schema = file.metadata, file.metadata.schema
    paths = [schema.column(place).path for place in range(metadata.num_columns)]
    # The path of a list's values is name.list.element, or similar.
    places = {path.partition(".")[0]: place for place, path in enumerate(paths)}
    places |= {path: place for place, path in enumerate(paths)}
    found = {name: Extent() for name in _FIELDS}
    for group, chunks in enumerate(groups):
        for field in _FIELDS.values():
            stated = _stated(chunks[places[field.name]], field)
            found[field.name] |= stated or _read(file, group, field)
    return found


def brokers_of(file: pq.ParquetFile, groups: Sequence[Sequence[Chunk]]) -> tuple[str, ...]:
    """The brokers of a file's rows; the column is read only if the footer does not state one.

    Raises:
        OSError, pa.ArrowException, UnicodeDecodeError: it cannot be read.
    """
    metadata = file.metadata
    place = [metadata.schema.column(number).path for number in range(metadata.num_columns)].index(_BROKER)
    found: set[str] = set()
    for number, chunks in enumerate(groups):
        if (only := chunks[place].only) is not None:
            found.add(only.decode())
        else:
            found.update(file.read_row_group(number, columns=[_BROKER])[_BROKER].unique().to_pylist())
    return tuple(sorted(found))


def impossible(found: Mapping[str, Extent]) -> str:
    """The first impossible value of a file, and what was expected; empty if there is none."""
    for field in _FIELDS.values():
        if fault := _fault(field, found[field.name]):
            return f"impossible values: {fault}"
    return _too_long(found["interval_start"], found["interval_end"])


def _fault(field: Field, extent: Extent) -> str:
    if extent.nulls and not field.nullable:
        return f"{field.name} has nulls ({extent.nulls:,}); expected a {field.type} in each row"
    for value in (extent.low, extent.high):
        first, last = _RANGES.get(field.name, (0, 0))
        if value is not None and not first <= value <= last:
            if field.type == "timestamp":
                expected = f"expected a time from {FIRST_YEAR} to {END_YEAR - 1}"
                return f"{field.name} is {moment(value)}; {expected} (is the broker's clock set?)"
            what = f"an entry of {field.name}" if field.type == HISTOGRAM_TYPE else field.name
            return f"{what} is {value:,}; expected {first} to {last:,}"
    return ""


def _too_long(start: Extent, end: Extent) -> str:
    """The message about a file that covers too much time, or about an interval that is too long."""
    if start.low is None or end.low is None or end.high is None:
        return ""
    if end.high - end.low > LONGEST_HOURS * _HOUR_US:
        expected = f"expected at most {LONGEST_HOURS} hours in one file"
        return f"impossible values: interval_end is {moment(end.low)} to {moment(end.high)}; {expected}"
    if end.high - start.low > MOST_US:
        expected = f"expected an interval of up to {MOST_US // (24 * _HOUR_US):,} days"
        return f"impossible values: interval_start is {moment(start.low)}, the end {moment(end.high)}; {expected}"
    return ""


def _stated(chunk: Chunk, field: Field) -> Extent | None:
    """The extent of a column of one row group from the footer; None if it is incomplete there."""
    if chunk.nulls is None:
        return None
    if field.name not in _RANGES or chunk.nulls == chunk.values:
        return Extent(chunk.nulls)
    return None if chunk.low is None or chunk.high is None else Extent(chunk.nulls, chunk.low, chunk.high)


def _read(file: pq.ParquetFile, group: int, field: Field) -> Extent:
    """The same from the column's values."""
    values = file.read_row_group(group, columns=[field.name])[field.name]
    nulls = values.null_count
    if field.name not in _RANGES:
        return Extent(nulls)
    if field.type == HISTOGRAM_TYPE:
        values = pc.list_flatten(values)
    ends = pc.min_max(values.cast(pa.int64())).as_py()
    return Extent(nulls, ends["min"], ends["max"])


def moment(us: int) -> str:
    """A time in microseconds since 1970 as text, also one that Python has no time for."""
    try:
        return (_EPOCH + timedelta(microseconds=us)).isoformat()
    except OverflowError:
        return f"{us:,} microseconds after 1970"
