"""Indices of evenness: Jain's index, max-min share, and Gini's coefficient with the Lorenz curve.

Over n values x >= 0 with the sum S (x is a session's goodput, delivery ratio, or number of deliveries offered):

- **Jain's index** J = S**2 / (n * sum of x**2): 1 if all are equal, k/n if k share everything evenly and the others
  get nothing. R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation
  in Shared Computer Systems", DEC Research Report TR-301, 1984.
- **Max-min share** = lowest x / mean of x: 1 if all are equal, 0 if one gets nothing. Like max-min fairness it depends
  on the lowest value only (D. Bertsekas, R. Gallager, "Data Networks", 2nd ed., 1992, section 6.5.2).
- **Lorenz curve**: L(p) is the share of S that the p * n lowest values have together (M. O. Lorenz, "Methods of
  Measuring the Concentration of Wealth", 1905). **Gini's coefficient** G = 1 - 2 * (area below the curve), with a
  curve that is linear between values: 0 if all are equal, (n - 1) / n if one has everything (C. Gini, 1912).

All are null without values, and if S is 0. Values are whole numbers in fixed point, and their sums are exact.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_jobs.measures.numbers import DIGITS, MICROSECONDS

RATIO_SCALE: Final = 1_000_000_000  # the fixed-point 1 of a delivery ratio
GOODPUT_SCALE: Final = 1_000_000_000  # goodput in billionths of a delivery per second
POINTS: Final = 100  # parts of a Lorenz curve
_MOST: Final = 1 << 50  # a million deliveries per second, more than possible
_EXACT: Final = "decimal(38,0)"


def delivery_ratio(sent: Column, offered: Column) -> Column:
    """min(1, sent / offered) in RATIO_SCALE-ths; offered must not be 0."""
    return F.floor(F.least(F.lit(1.0), sent / offered) * float(RATIO_SCALE))


def goodput(sent: Column, connected_us: Column) -> Column:
    """Deliveries sent per second of connection in GOODPUT_SCALE-ths; the time must not be 0."""
    return F.least(F.floor(sent / connected_us * float(MICROSECONDS * GOODPUT_SCALE)), F.lit(_MOST))


def _counted(values: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The distinct values of each group, `number` of each, and `upto`, how many are not higher."""
    number = values.where(F.col("value").isNotNull()).groupBy(*keys, "value").agg(F.count(F.lit(1)).alias("number"))
    return number.withColumn("upto", F.sum("number").over(_ascending(keys)))


def _ascending(keys: Sequence[str]) -> Any:
    return Window.partitionBy(*keys).orderBy("value").rowsBetween(Window.unboundedPreceding, Window.currentRow)


def by_group(values: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The exact sums of each group, see `Evenness.of`.

    Args:
        values: rows with `keys` and `value`, a whole number from 0 to 2**50; null is left out.
        keys: the columns that name a group.
    """
    x, number = F.col("value").cast(_EXACT), F.col("number")
    return (
        _counted(values, keys)
        .groupBy(*keys)
        .agg(
            F.sum("number").alias("n"),
            F.sum(x * number).alias("total"),
            F.sum(x * x * number).alias("squares"),
            F.min("value").alias("least"),
            # Twice the area above the curve, times n * total: value by value a trapezium.
            F.sum(x * (number * (2 * F.col("upto") - number))).alias("above"),
        )
    )


@dataclass(frozen=True)
class Evenness:
    """The indices of one group of sessions, from its exact sums; None where they are not defined."""

    n: int = 0
    total: int = 0
    squares: int = 0
    least: int | None = None
    above: int = 0

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Evenness":
        """Of a row of `by_group`."""
        return cls(*(int(row[name]) for name in ("n", "total", "squares", "least", "above")))

    @property
    def jain(self) -> float | None:
        """Jain's index."""
        return _rounded(self.total**2, self.n * self.squares)

    @property
    def maxmin(self) -> float | None:
        """Lowest value over the mean."""
        return None if self.least is None else _rounded(self.least * self.n, self.total)

    @property
    def gini(self) -> float | None:
        """Gini's coefficient."""
        whole = self.n * self.total
        return _rounded(self.above - whole, whole)

    def mean(self, scale: int) -> float | None:
        """The mean value, without the fixed-point scale."""
        return _rounded(self.total, self.n * scale)

    def lowest(self, scale: int) -> float | None:
        """The lowest value, without the fixed-point scale."""
        return None if self.least is None else _rounded(self.least, scale)


def _rounded(part: int, whole: int) -> float | None:
    return round(float(Fraction(part, whole)), DIGITS) if whole else None


def by_point(values: DataFrame, keys: Sequence[str]) -> DataFrame:
    """What `lorenz_curve` needs: for each group and each k below POINTS the value at the place k * n / POINTS.

    `upto` values are not higher, and have the sum `lower`; all n have the sum `total`.

    Args:
        values, keys: see `by_group`.
    """
    group, value, number = Window.partitionBy(*keys), F.col("value"), F.col("number")
    sums = _counted(values, keys).withColumns(
        {
            "n": F.sum("number").over(group),
            "lower": F.sum(value.cast(_EXACT) * number).over(_ascending(keys)),
            "total": F.sum(value.cast(_EXACT) * number).over(group),
        }
    )
    first, after = (F.ceil(POINTS * place / F.col("n")) for place in (F.col("upto") - number, F.col("upto")))
    return sums.where(first < after).select(
        *keys, "value", "upto", "n", "lower", "total", F.explode(F.sequence(first, after - 1)).alias("k")
    )


def lorenz_curve(rows: Iterable[Mapping[str, Any]]) -> Sequence[tuple[float, float]]:
    """The points (share of sessions, share of the total) of a Lorenz curve, from 0 to 1 in POINTS steps.

    No values, or a total of 0, give no curve.

    Args:
        rows: of one group, see `by_point`.
    """
    points = []
    for row in sorted(rows, key=lambda row: row["k"]):
        if not row["total"]:
            return []
        place = Fraction(row["k"] * row["n"], POINTS)  # so many of the lowest values, also a part of one
        lower = int(row["lower"]) - (row["upto"] - place) * row["value"]
        points.append((row["k"] / POINTS, round(float(lower / int(row["total"])), DIGITS)))
    return [*points, (1.0, 1.0)] if points else []
