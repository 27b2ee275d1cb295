"""Sums over sessions: one row per hour."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs import columns
from spark_jobs.datasets.histograms import with_sums
from spark_jobs.measures.histogram import merged, unpacked
from spark_jobs.measures.numbers import ratio
from spark_jobs.metrics import QOS
from spark_jobs.store.schema import HOUR_US, SESSION_COLUMNS, How

_SUMS: Final = tuple(column.name for column in SESSION_COLUMNS if column.how is How.SUM)
_MAXIMA: Final = tuple(column.name for column in SESSION_COLUMNS if column.how is How.MAX)
_HISTOGRAMS: Final = tuple(column.name for column in SESSION_COLUMNS if column.how is How.HISTOGRAM)
ALL_QOS: Final = "all"
EACH_QOS: Final = (ALL_QOS, *(str(qos) for qos in QOS))


def names_of(prefix: str, qos: str) -> tuple[str, ...]:
    """The counters of one QoS, or of all: offered_qos0 to offered_qos2; acknowledged has none at QoS 0."""
    wanted = [f"{prefix}_qos{q}" for q in (QOS if qos == ALL_QOS else (qos,))]
    return tuple(name for name in wanted if name in _SUMS)


@dataclass(frozen=True)
class HourSums:
    """Sums, maxima and histograms over some rows of `sessions`, and the number of rows."""

    sessions: int
    numbers: Mapping[str, int]
    histograms: Mapping[str, Sequence[int]]

    def __getitem__(self, name: str) -> int:
        """A counter's sum, or a gauge's maximum."""
        return self.numbers[name]

    def of(self, prefix: str, qos: str) -> int | None:
        """The counter of one QoS or of all; None if a QoS does not have it."""
        names = names_of(prefix, qos)
        return sum(self.numbers[name] for name in names) if names else None

    @property
    def start_us(self) -> int:
        """The start of the first interval, but of an hour's rows at most an hour before the end of the last one."""
        return max(self.numbers["first_us"], self.numbers["last_us"] - HOUR_US)

    @property
    def pressure_share(self) -> float | None:
        """The share of the sessions' time under pressure."""
        return ratio(self.numbers["pressed_us"], self.numbers["duration_us"])

    def count(self, prefix: str, qos: str) -> int:
        """As `of`, for counters that every QoS has."""
        found = self.of(prefix, qos)
        return 0 if found is None else found


@dataclass(frozen=True)
class Sums:
    """The sums of every hour with rows."""

    hours: Mapping[int, HourSums]

    @cached_property
    def whole(self) -> HourSums:
        """The sum of the hours; `sessions` counts session hours."""
        return added(list(self.hours.values()))

    @property
    def interval_us(self) -> int:
        """The usual interval: the mean length."""
        return max(1, self.whole["duration_us"] // max(1, self.whole["rows"]))

    @cached_property
    def covered_us(self) -> int:
        """How long the rows are about, however long slots are; what the intervals of two hours share counts once.

        The rows of an hour cover the time from the start of the first interval to the end of the last one, also if
        nobody had anything to report for a while. A session may have been idle for days before: they cover at most an
        hour, or the rate of all others would depend on it.
        """
        covered, reached = 0, None
        for part in sorted(self.hours.values(), key=lambda part: part["last_us"], reverse=True):
            end = part["last_us"] if reached is None else min(part["last_us"], reached)
            covered += max(0, end - part.start_us)
            reached = part.start_us if reached is None else min(part.start_us, reached)
        return covered


def by_hour(rows: DataFrame) -> DataFrame:
    """The sums of every hour, with the number of `sessions`.

    Args:
        rows: rows by `store.schema.SESSION_COLUMNS`.
    """
    sums = rows.groupBy("hour_us").agg(
        F.count(F.lit(1)).alias("sessions"),
        F.min("first_us").alias("first_us"),
        *columns.sums(_SUMS),
        *columns.maxima(_MAXIMA),
    )
    return with_sums(sums, ["hour_us"], [(rows, {name: name for name in _HISTOGRAMS})])


def sums_of(rows: Iterable[Mapping[str, Any]]) -> Sums:
    """The same of rows of `by_hour`."""
    return Sums(
        {
            row["hour_us"]: HourSums(
                row["sessions"],
                {name: row[name] for name in ("first_us", *_SUMS, *_MAXIMA)},
                {name: unpacked(row[name]) for name in _HISTOGRAMS},
            )
            for row in sorted(rows, key=lambda row: row["hour_us"])
        }
    )


def added(parts: Sequence[HourSums]) -> HourSums:
    """The sum of several sums."""

    def over(name: str, how: Callable[[list[int]], int]) -> int:
        return how([part.numbers[name] for part in parts])

    numbers = {name: over(name, sum) for name in _SUMS}
    numbers |= {name: over(name, max) for name in _MAXIMA}
    numbers["first_us"] = over("first_us", min)
    return HourSums(
        sum(part.sessions for part in parts),
        numbers,
        {name: merged(part.histograms[name] for part in parts) for name in _HISTOGRAMS},
    )
