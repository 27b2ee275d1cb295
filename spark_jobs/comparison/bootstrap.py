"""Comparing two short runs: the difference of their values, its interval, and whether it is more than chance.

Where no hours can be paired, the values of the two ranges are compared themselves. How much they owe to chance comes
from a **bootstrap of blocks** (D. N. Politis, J. P. Romano, "A Circular Block-Resampling Procedure for Stationary
Data", 1992): a run is put together anew from BLOCKS pieces of its timeline, drawn at random, its value computed again
from the sums of their windows, as the report computes it from those of the whole range; DRAWS times. Neighbouring
windows stay together, so their correlation, and stalls that last for several windows, are kept.

The windows are those of the timeline's plot, at most `timeline.MOST_POINTS` unless `--window` asks for more: what NumPy
draws from is a table of a page's size, whatever the number of sessions.

**The interval** has the middle 95 of 100 differences. **p** is the larger of two, because either alone is too small for
short series: twice the share of draws with a difference of the other sign (B. Efron, R. J. Tibshirani, "An Introduction
to the Bootstrap", 1993, section 15.4), and Student's t for the difference and its standard deviation over the draws,
with BLOCKS - 1 degrees of freedom; the interval is the wider of both, too. In simulated runs without a difference a
single test at p < 0.05 gave a false alarm in 1 to 6 of 100, and in 12 of 100 for 40 windows with a correlation of 0.8;
at p < 0.005 in none. A percentile that a few stalls decide differs much from draw to draw: a difference in it may be
chance however large it is, and the interval shows that.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from spark_jobs.comparison.pairs import Effect
from spark_jobs.comparison.significance import Verdict
from spark_jobs.measures.histogram import percentile_values
from spark_jobs.measures.result import Row

BLOCKS: Final = 6
DRAWS: Final = 1999
FEWEST: Final = 24
"""Windows on each side."""
NAME: Final = "bootstrap of blocks of windows, Student's t, two-sided, Holm's correction"
_T: Final = 2.570582  # of 95 %, with BLOCKS - 1 degrees of freedom
_DIGITS: Final = 9
_UNDEFINED: Final = 0.05  # share of the draws that may have no value

Numbers = npt.NDArray[np.float64]
Windows = Sequence[Row]


@dataclass(frozen=True)
class Pooled:
    """How the value of a range follows from the sums of its windows.

    Attributes:
        parts: the numbers of one window that are added.
        value: the values of rows of such sums; not a number where there is none.
    """

    parts: Callable[[Row], Sequence[int]]
    value: Callable[[Numbers], Numbers]


def share(part: Callable[[Row], int], whole: Callable[[Row], int], times: int = 1) -> Pooled:
    """A part of a whole, times a factor."""
    return Pooled(lambda row: (times * part(row), whole(row)), _share)


def p99(name: str) -> Pooled:
    """The 99th percentile of a histogram."""
    return Pooled(lambda row: row[name], lambda sums: percentile_values(sums, 990))


def _share(sums: Numbers) -> Numbers:
    found = np.full(len(sums), np.nan)
    np.divide(sums[:, 0], sums[:, 1], out=found, where=sums[:, 1] != 0)
    return found


def compared(pooled: Pooled, baseline: Windows, run: Windows, amounts: bool) -> tuple[Verdict, Effect | None]:
    """The verdict on two ranges, and the effect; neither with fewer than FEWEST windows, or without values.

    Args:
        pooled: how the value follows from windows.
        baseline, run: the windows of the ranges.
        amounts: whether values above 0 are to be compared by their ratio.
    """
    n, m = len(baseline), len(run)
    nothing = Verdict(None, n, m), None
    if min(n, m) < FEWEST:
        return nothing
    rng = np.random.default_rng(1)  # the same data give the same verdict
    before, after = (_drawn(pooled, windows, rng) for windows in (baseline, run))
    known = np.isfinite(before) & np.isfinite(after)
    if not known[0] or known.mean() < 1 - _UNDEFINED:
        return nothing
    before, after = before[known], after[known]
    relative = amounts and bool((before > 0).all() and (after > 0).all())
    if relative:
        before, after = np.log(before), np.log(after)
    value, *differences = (after - before).tolist()
    deviation = math.sqrt(float(before[1:].var() + after[1:].var()))
    p = max(_by_sign(differences), _by_t(value, deviation))
    low, high = np.quantile(differences, (0.025, 0.975)).tolist()
    reach = _T * deviation
    value, low, high = (
        round(math.expm1(each) if relative else each, _DIGITS)
        for each in (value, min(low, value - reach), max(high, value + reach))
    )
    return Verdict(round(p, _DIGITS), n, m), Effect(value, low, high, relative)


def _drawn(pooled: Pooled, windows: Windows, rng: np.random.Generator) -> Numbers:
    """The value of the range, then those of DRAWS ranges that are put together from its pieces."""
    parts = np.array([pooled.parts(row) for row in windows], np.float64)
    n = len(parts)
    length = round(n / BLOCKS)
    starts = rng.integers(0, n, (DRAWS, -(-n // length)))
    drawn = ((starts[:, :, None] + np.arange(length)) % n).reshape(DRAWS, -1)[:, :n]
    weights = np.ones((DRAWS + 1, n))
    for number, places in enumerate(drawn, 1):
        weights[number] = np.bincount(places, minlength=n)
    used = parts.any(axis=0)  # few buckets of a histogram have counted something
    sums = np.zeros((DRAWS + 1, parts.shape[1]))
    sums[:, used] = weights @ parts[:, used]
    return pooled.value(sums)


def _by_sign(differences: Sequence[float]) -> float:
    below, above = (sum(sign * each >= 0 for each in differences) for sign in (-1, 1))
    return min(1.0, 2 * (min(below, above) + 1) / (len(differences) + 1))


def _by_t(value: float, deviation: float) -> float:
    """Student's t, two-sided, for an odd number of degrees of freedom (Abramowitz, Stegun, 26.7.3)."""
    if not deviation:
        return 0.0 if value else 1.0
    freedom = BLOCKS - 1
    angle = math.atan(abs(value) / deviation / math.sqrt(freedom))
    term = within = math.cos(angle)
    for power in range(3, freedom, 2):
        term *= math.cos(angle) ** 2 * (power - 1) / power
        within += term
    return max(0.0, 1 - 2 / math.pi * (angle + math.sin(angle) * within))
