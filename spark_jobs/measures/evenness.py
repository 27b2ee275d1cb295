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

All are null without values, and if S is 0.

**Scaling.** Only the curve would need sorted sessions, and a window over all of them would run in one task. Instead the
values are counted in buckets of width 1/2048 in the logarithm, by one parallel hash aggregation; for any number of
sessions there are at most some 70,000 buckets, and only these are sorted. n, S, the sum of squares and the lowest value
are exact whole numbers, so Jain's index and the max-min share are exact. For the curve, values in one bucket count as
equal: they differ by less than 0.0489 %, so Gini's coefficient is at most a quarter of that too low, 0.000123 (two
groups that differ by a factor of 1 + w have G <= w / 4), and never too high. For values in different buckets it is
exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.measures.numbers import DIGITS, MICROSECONDS

RATIO_SCALE: Final = 1_000_000_000  # the fixed-point 1 of a delivery ratio
GOODPUT_SCALE: Final = 1_000_000_000  # goodput in billionths of a delivery per second
STEPS: Final = 2048  # buckets per factor of e
GINI_ERROR: Final = 0.000123  # Gini's coefficient is too low by at most this
POINTS: Final = 100  # parts of a Lorenz curve
_MOST: Final = 1 << 50  # a million deliveries per second, more than possible
_EXACT: Final = "decimal(38,0)"


def delivery_ratio(sent: Column, offered: Column) -> Column:
    """min(1, sent / offered) in RATIO_SCALE-ths; null if nothing was offered."""
    share = F.least(F.lit(1.0), sent / offered)
    return F.when(offered > 0, F.floor(share * RATIO_SCALE).cast("bigint"))


def goodput(sent: Column, connected_us: Column) -> Column:
    """Deliveries sent per second of connection in GOODPUT_SCALE-ths; the time must not be 0."""
    rate = sent.cast("double") / connected_us * float(MICROSECONDS * GOODPUT_SCALE)
    return F.least(F.floor(rate), F.lit(_MOST)).cast("bigint")


def _bucket(x: Column) -> Column:
    """The bucket of a value, monotonic; logarithms of values in one bucket differ by less than 1/STEPS."""
    return F.floor(F.log(x + F.lit(1.0)) * STEPS).cast("int")


def _buckets(values: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Per bucket: number, sum, sum of squares and minimum of its values."""
    x = F.col("x")
    exact = x.cast(_EXACT)
    return (
        values.where(x.isNotNull())
        .groupBy(*keys, _bucket(x).alias("bucket"))
        .agg(
            F.count(x).alias("n"),
            F.sum(exact).cast(_EXACT).alias("total"),
            F.sum((exact * exact).cast(_EXACT)).cast(_EXACT).alias("squares"),
            F.min(x).alias("least"),
        )
    )


def _before(keys: Sequence[str], column: str) -> Column:
    """The sum of a column over the buckets before this one."""
    lower = Window.partitionBy(*keys).orderBy("bucket").rowsBetween(Window.unboundedPreceding, -1)
    return F.coalesce(F.sum(column).over(lower), F.lit(0)).cast(_EXACT)


def evenness(values: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The sums for `Evenness`: one row for each value of the keys.

    Args:
        values: the keys, and x: a whole number >= 0, or null if a session does not count.
        keys: the key columns; at least one.
    """
    cumulated = _buckets(values, keys).withColumn("lower", _before(keys, "total"))
    # Twice the area below the curve, times n * S: each bucket is a trapezium.
    area = F.col("n").cast(_EXACT) * (F.col("lower") * 2 + F.col("total")).cast(_EXACT)
    return cumulated.groupBy(*keys).agg(
        F.sum("n").alias("n"),
        F.sum("total").cast(_EXACT).alias("total"),
        F.sum("squares").cast(_EXACT).alias("squares"),
        F.min("least").alias("least"),
        F.sum(area.cast(_EXACT)).cast(_EXACT).alias("area"),
    )


@dataclass(frozen=True)
class Evenness:
    """The indices of one group of sessions, from its exact sums; None where they are not defined."""

    n: int = 0
    total: int = 0
    squares: int = 0
    least: int | None = None
    area: int = 0

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Evenness":
        """From a row of `evenness`."""
        return cls(
            row["n"], int(row["total"]), int(row["squares"]), row["least"], int(row["area"])
        )  # decimals come as Decimal

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
        return _rounded(whole - self.area, whole)

    def mean(self, scale: int) -> float | None:
        """The mean value, without the fixed-point scale."""
        return _rounded(self.total, self.n * scale)

    def lowest(self, scale: int) -> float | None:
        """The lowest value, without the fixed-point scale."""
        return None if self.least is None else _rounded(self.least, scale)


def _rounded(part: int, whole: int) -> float | None:
    return round(float(Fraction(part, whole)), DIGITS) if whole else None


def lorenz_corners(values: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The buckets at the hundredths of the sessions: at most POINTS rows for each value of the keys.

    Columns besides the keys: n and total of the bucket, below and lower (n and total of all buckets before it), all_n
    and all_total.
    """
    group = Window.partitionBy(*keys)
    cumulated = (
        _buckets(values, keys)
        .withColumn("below", _before(keys, "n").cast("bigint"))
        .withColumn("lower", _before(keys, "total"))
        .withColumn("all_n", F.sum("n").over(group))
        .withColumn("all_total", F.sum("total").over(group).cast(_EXACT))
    )
    first = F.floor(F.col("below") * POINTS / F.col("all_n"))
    last = F.floor((F.col("below") + F.col("n")) * POINTS / F.col("all_n"))
    return cumulated.where(first < last).drop("bucket", "squares", "least")


def lorenz_curve(corners: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """The points (share of sessions, share of the total) of a Lorenz curve, from 0 to 1 in POINTS steps.

    Args:
        corners: the rows of `lorenz_corners` of one group; none, or a total of 0, give no curve.
    """
    if not corners or not corners[0]["all_total"]:
        return []
    n, whole = corners[0]["all_n"], int(corners[0]["all_total"])
    points = [(0.0, 0.0)]
    rows = sorted(corners, key=lambda row: row["below"])
    for row in rows:
        first = row["below"] * POINTS // n + 1
        last = (row["below"] + row["n"]) * POINTS // n
        for k in range(first, last + 1):
            inside = (
                Fraction(k * n, POINTS) - row["below"]
            )  # sessions of this bucket that are below the point
            share = (int(row["lower"]) + int(row["total"]) * inside / row["n"]) / whole
            points.append((k / POINTS, round(float(share), DIGITS)))
    return points
