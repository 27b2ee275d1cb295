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

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from spark_jobs.arrays import Ints, exact_sum
from spark_jobs.measures.numbers import DIGITS, MICROSECONDS

RATIO_SCALE: Final = 1_000_000_000  # the fixed-point 1 of a delivery ratio
GOODPUT_SCALE: Final = 1_000_000_000  # goodput in billionths of a delivery per second
POINTS: Final = 100  # parts of a Lorenz curve
_MOST: Final = 1 << 50  # a million deliveries per second, more than possible


def delivery_ratio(sent: Ints, offered: Ints) -> Ints:
    """min(1, sent / offered) in RATIO_SCALE-ths; offered must not be 0."""
    found: Ints = np.floor(np.minimum(1.0, sent / offered) * RATIO_SCALE).astype(np.int64)
    return found


def goodput(sent: Ints, connected_us: Ints) -> Ints:
    """Deliveries sent per second of connection in GOODPUT_SCALE-ths; the time must not be 0."""
    rate = sent / connected_us * float(MICROSECONDS * GOODPUT_SCALE)
    return np.minimum(np.floor(rate), float(_MOST)).astype(np.int64)


@dataclass(frozen=True)
class Evenness:
    """The indices of one group of sessions, from its exact sums; None where they are not defined."""

    n: int = 0
    total: int = 0
    squares: int = 0
    least: int | None = None
    area: int = 0

    @classmethod
    def of(cls, values: Ints) -> "Evenness":
        """Of values that are at least 0."""
        n = len(values)
        if not n:
            return cls()
        ordered = np.sort(values)
        # Twice the area below the curve, times n * S: value by value a trapezium.
        heights = 2 * np.arange(n, 0, -1, dtype=np.int64) - 1
        return cls(
            n, exact_sum(ordered), exact_sum(ordered, ordered), int(ordered[0]), exact_sum(ordered, heights)
        )

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


def lorenz_curve(values: Ints) -> Sequence[tuple[float, float]]:
    """The points (share of sessions, share of the total) of a Lorenz curve, from 0 to 1 in POINTS steps.

    No values, or a total of 0, give no curve.
    """
    n, whole = len(values), exact_sum(values)
    if not whole:
        return []
    ordered = np.sort(values)
    points = []
    before, lower = 0, 0  # the sum of so many of the lowest values
    for k in range(POINTS + 1):
        place, rest = divmod(k * n, POINTS)
        lower, before = lower + exact_sum(ordered[before:place]), place
        inside = Fraction(rest * int(ordered[place]), POINTS) if rest else 0
        points.append((k / POINTS, round(float((lower + inside) / Fraction(whole)), DIGITS)))
    return points
