"""Sums over sessions: one row per hour, small enough to process without Spark."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.compaction.schema import SESSION_COLUMNS, How
from spark_jobs.measures.histogram import merged
from spark_jobs.metrics import BUCKETS, QOS

_SUMS: Final = tuple(column.name for column in SESSION_COLUMNS if column.how is How.SUM)
_MAXIMA: Final = tuple(column.name for column in SESSION_COLUMNS if column.how is How.MAX)
_HISTOGRAMS: Final = tuple(column.name for column in SESSION_COLUMNS if column.how is How.HISTOGRAM)
_IN_A_PASS: Final = (
    3  # Spark does not compile queries with more histograms, which take twice as long
)
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
        parts = list(self.hours.values())

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


def hourly_sums(sessions: DataFrame) -> Sums:
    """Sum the rows of every hour, in one action; the size of its result does not depend on the number of sessions.

    Args:
        sessions: rows by `compaction.schema.SESSION_COLUMNS`.
    """
    names = [*_SUMS, *_MAXIMA]
    sums = [*[f"sum({name})" for name in _SUMS], *[f"max({name})" for name in _MAXIMA]]
    passes = [_pass(sessions, "numbers", ["count(1)", "min(first_us)", *sums])]
    groups = _in_groups(_HISTOGRAMS)
    for number, group in enumerate(groups):
        buckets = [f"sum(get({name}, {bucket}))" for name in group for bucket in range(BUCKETS)]
        passes.append(_pass(sessions, str(number), buckets))
    found: dict[int, dict[str, list[int]]] = {}
    for row in reduce(DataFrame.unionByName, passes).toArrow().to_pylist():
        found.setdefault(row["hour_us"], {})[row["part"]] = row["amounts"]
    hours = {}
    for hour in sorted(found):
        parts = found[hour]
        count, first, *amounts = parts["numbers"]
        histograms = {}
        for number, group in enumerate(groups):
            for place, name in enumerate(group):
                histograms[name] = parts[str(number)][place * BUCKETS : (place + 1) * BUCKETS]
        hours[hour] = HourSums(
            count, {**dict(zip(names, amounts, strict=True)), "first_us": first}, histograms
        )
    return Sums(hours)


def _in_groups(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[i : i + _IN_A_PASS] for i in range(0, len(names), _IN_A_PASS)]


def _pass(sessions: DataFrame, part: str, amounts: Sequence[str]) -> DataFrame:
    # As one text: building hundreds of expressions one by one takes longer than the query.
    array = ", ".join(f"coalesce({amount}, 0L)" for amount in amounts)
    return sessions.groupBy("hour_us").agg(
        F.lit(part).alias("part"), F.expr(f"array({array})").alias("amounts")
    )
