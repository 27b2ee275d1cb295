"""The range of a raw file's values, so that no impossible value is summed."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.metrics import BUCKETS, COUNT_SHIFT, HISTOGRAM_TYPE, OF_INTERVALS, SCHEMA, TEXTS_TYPE, Field

FIRST_YEAR: Final = 2000
END_YEAR: Final = 2200

# Counts and bytes: 10^12 messages, or a terabyte, to one session in an interval is impossible. The sum of four million
# rows with that value is below 2^63, and the greatest product of a row, three QoS * FAIR_ONE, is below 2^59. Times: an
# interval may be as long as the broker has been up, and the waiting time of PUBLISHes is a sum over all of them, so the
# limit is nine years; 32,768 rows of an hour may reach it. Each is a power of two less one, see `_beyond`.
MOST_COUNTED: Final = (1 << 40) - 1
MOST_US: Final = (1 << 48) - 1
MOST_SQUARES: Final = (1 << 52) - 1  # of 450,000 delivery ratios; 2,000 intervals of an hour may reach it
MOST_VERSION: Final = 255  # one byte in MQTT's CONNECT
MOST_ENTRY: Final = (MOST_COUNTED << COUNT_SHIFT) + BUCKETS - 1

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
FIRST_US, LAST_US = (
    (datetime(year, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1) - before
    for year, before in ((FIRST_YEAR, 0), (END_YEAR, 1))
)


def most(field: Field) -> int:
    """The highest allowed value of a column; the lowest is 0, and of a time FIRST_US."""
    match field.type:
        case "timestamp":
            return LAST_US
        case "int32":
            return MOST_VERSION
        case "histogram":
            return MOST_ENTRY
        case _ if field.name in OF_INTERVALS:
            return MOST_SQUARES
        case _ if field.unit == "us":
            return MOST_US
    return MOST_COUNTED


def impossible(fields: Sequence[Field]) -> Column:
    """Whether one of these values of a raw row is missing, or out of its range.

    Histograms are checked entry by entry when they are added.
    """
    wrong = [F.col(field.name).isNull() for field in fields if field.type in ("string", "bool", TEXTS_TYPE)]
    wrong += [F.exists(field.name, _is_null) for field in fields if field.type == TEXTS_TYPE]
    wrong += [~F.col(_column(field)).between(FIRST_US, LAST_US) for field in fields if field.type == "timestamp"]
    by_most: dict[int, list[str]] = defaultdict(list)
    for field in fields:
        if field.type in ("int32", "int64"):
            by_most[most(field)].append(f"coalesce(`{field.name}`, 0)" if field.nullable else f"`{field.name}`")
    wrong += [_beyond(values, highest) for highest, values in by_most.items()]
    return F.coalesce(reduce(or_, wrong), F.lit(True))  # null if a value is


def _beyond(values: Sequence[str], highest: int) -> Column:
    """Whether one of some numbers is below 0 or above a power of two less one: it has a bit that none may have.

    Two comparisons for each of a hundred numbers take three times as long.
    """
    return F.expr(f"(({' | '.join(f'CAST({value} AS BIGINT)' for value in values)}) & {~highest}L) != 0")


def fault() -> Column:
    """The first impossible value of a row in words; null if there is none."""
    found = [
        F.when(F.col(_column(field)).isNull(), F.lit(f"{field.name} is null; expected a {field.type} in each row"))
        for field in SCHEMA.fields
        if not field.nullable
    ]
    for field in (*SCHEMA.fields, *SCHEMA.interval_fields):
        value = F.col(_column(field))
        if field.type == TEXTS_TYPE:
            text = f"{field.name} has an entry that is null; expected a text in each"
            found.append(F.when(F.exists(field.name, _is_null), F.lit(text)))
        if field.type in ("string", "bool", HISTOGRAM_TYPE, TEXTS_TYPE):
            continue
        if field.type == "timestamp":
            what = F.concat(F.lit(f"{field.name} is "), F.timestamp_micros(value).cast("string"), F.lit(" UTC; "))
            expected = f"expected a time from {FIRST_YEAR} to {END_YEAR - 1} (is the broker's clock set?)"
        else:
            what = F.concat(F.lit(f"{field.name} is "), F.format_number(value, 0), F.lit("; "))
            expected = f"expected 0 to {most(field):,}"
        found.append(F.when((value < _least(field)) | (value > most(field)), F.concat(what, F.lit(expected))))
    for field in SCHEMA.fields:
        if field.type == HISTOGRAM_TYPE:
            wrong = F.exists(field.name, lambda entry: entry.isNull() | ~entry.between(0, MOST_ENTRY))
            text = f"an entry of {field.name} is null or out of range; expected 0 to {MOST_ENTRY:,}"
            found.append(F.when(wrong, F.lit(text)))
    return F.coalesce(*found)


def _is_null(entry: Column) -> Column:
    return entry.isNull()


def _column(field: Field) -> str:
    return f"{field.name}_us" if field.type == "timestamp" else field.name


def _least(field: Field) -> int:
    return FIRST_US if field.type == "timestamp" else 0
