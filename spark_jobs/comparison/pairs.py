"""Comparing hours with the same hours before: pairs, Wilcoxon's signed rank test, and the size of the effect.

Load follows the day and the week, so an hour is compared with the baseline's hours of the same weekday and time, or, if
there are too few of them, of the same time of the day. That removes the cycle, which otherwise hides any difference.

**The test.** Wilcoxon's signed rank test, two-sided (F. Wilcoxon, "Individual Comparisons by Ranking Methods", 1945):
do the differences tend to one side of 0? Pairs without a difference are left out. p comes from the normal approximation
with corrections for ties and continuity, with its variance multiplied by (1 + r) / (1 - r) as in `significance`; with
few differences from the exact distribution. Amounts above 0 (times, rates) are compared by their ratio, all else by the
difference.

**The effect** is the median of the differences, with an interval that has it in 95 of 100 cases: the order statistics
of the sign test (H. A. David, H. N. Nagaraja, "Order Statistics", 2003, section 7.1), wider by the same factor. Where
there are no pairs, it is the difference of the medians, and the interval comes from a bootstrap of blocks of
neighbouring values (H. R. Künsch, "The Jackknife and the Bootstrap for General Stationary Observations", 1989).
"""

import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from statistics import fmean, median
from typing import Final

from spark_jobs.comparison.significance import FEWEST, FEWEST_EFFECTIVE, Series, Verdict, inflation, ranks, tie_counts

HOUR_US: Final = 3_600_000_000
DAY_US: Final = 24 * HOUR_US
CYCLES: Final = ((7 * DAY_US, "hours of the same weekday and time"), (DAY_US, "hours of the same time of the day"))
NAME: Final = "Wilcoxon signed rank, two-sided, for autocorrelated values, Holm's correction"
DRAWS: Final = 400  # of the bootstrap
_Z: Final = 1.959964  # of 95 %
_DIGITS: Final = 9


@dataclass(frozen=True)
class Effect:
    """The size of a difference with its 95 % interval: relative (0.2 is 20 % more), or in the measure's unit."""

    value: float
    low: float
    high: float
    relative: bool


@dataclass(frozen=True)
class Pairs:
    """Differences of a run's hours from the baseline's in order of time, None at gaps; what was paired; logarithms?"""

    differences: Series
    of: str
    relative: bool


def paired(
    baseline: Mapping[int, float | None], run: Mapping[int, float | None], amounts: bool, zone: tzinfo = UTC
) -> Pairs | None:
    """Pair hours by the longest cycle that gives enough pairs; None if there is none.

    Args:
        baseline, run: start of the hour -> value.
        amounts: whether values above 0 are to be compared by their ratio.
        zone: whose weekdays and times they are: people keep theirs when the clocks change.
    """
    places = {time_us: _local(time_us, zone) for values in (baseline, run) for time_us in values}
    known = [value for values in (baseline, run) for value in values.values() if value is not None]
    relative = amounts and all(value > 0 for value in known)
    for cycle_us, of in CYCLES:
        same: dict[int, list[float]] = defaultdict(list)
        for time_us, value in baseline.items():
            if value is not None:
                same[places[time_us] % cycle_us].append(math.log(value) if relative else value)
        found = {
            time_us: (math.log(value) if relative else value) - fmean(same[places[time_us] % cycle_us])
            for time_us, value in run.items()
            if value is not None and places[time_us] % cycle_us in same
        }
        if len(found) >= FEWEST:
            return Pairs(without_gaps(found, HOUR_US), of, relative)
    return None


def _local(time_us: int, zone: tzinfo) -> int:
    """A time by the clocks of a zone, in microseconds."""
    offset = datetime.fromtimestamp(time_us // 1_000_000, zone).utcoffset() or timedelta()
    return time_us + offset // timedelta(microseconds=1)


def without_gaps(values: Mapping[int, float | None], step_us: int) -> list[float | None]:
    """In order of time, with None for one or more missing steps, so that values beside a gap are not adjacent."""
    found: list[float | None] = []
    before: int | None = None
    for time_us in sorted(values):
        if before is not None and time_us - before > step_us:
            found.append(None)
        found.append(values[time_us])
        before = time_us
    return found


def signed_rank(differences: Series) -> Verdict:
    """Test whether the differences of pairs tend to one side of 0."""
    n = sum(value is not None for value in differences)
    moved = [value for value in differences if value]
    placed = ranks([abs(value) for value in moved])
    given = iter(placed)
    signed = [math.copysign(next(given), value) if value else value for value in differences]
    factor = inflation([signed])
    if n < FEWEST or n / factor < FEWEST_EFFECTIVE:
        return Verdict(None, n, n)
    if not moved:
        return Verdict(1.0, n, n)
    positive = math.fsum(rank for rank in signed if rank is not None and rank > 0)
    m = len(moved)
    if m < FEWEST:
        return Verdict(_exact(placed, positive), n, n)
    ties = sum(count**3 - count for count in tie_counts(placed))
    variance = (m * (m + 1) * (2 * m + 1) / 24 - ties / 48) * factor
    distance = max(0.0, abs(positive - m * (m + 1) / 4) - 0.5)
    return Verdict(round(math.erfc(distance / math.sqrt(2 * variance)), _DIGITS), n, n)


def _exact(placed: Sequence[float], positive: float) -> float:
    """The share of all ways to give signs to the ranks in which their sum is as far from its mean."""
    sums = [0.0]
    for rank in placed:
        sums += [each + rank for each in sums]
    middle = math.fsum(placed) / 2
    far = abs(positive - middle) - 1e-9
    return sum(abs(each - middle) >= far for each in sums) / len(sums)


def effect_of_pairs(pairs: Pairs) -> Effect:
    """The median of the differences, and its interval."""
    there = sorted(value for value in pairs.differences if value is not None)
    n = len(there)
    reach = _Z * math.sqrt(n * inflation([pairs.differences])) / 2
    low, high = math.floor(n / 2 - reach), math.ceil(n / 2 + reach)
    return _effect(median(there), there[max(0, low)], there[min(n - 1, high)], pairs.relative)


def effect_of_medians(baseline: Series, series: Series, amounts: bool) -> Effect | None:
    """The difference of the medians of two series without pairs, and its interval by a bootstrap of blocks."""
    a = [value for value in baseline if value is not None]
    b = [value for value in series if value is not None]
    if len(a) < FEWEST or len(b) < FEWEST:
        return None
    relative = amounts and min(*a, *b) > 0
    if relative:
        a, b = [math.log(value) for value in a], [math.log(value) for value in b]
    rng = random.Random(1)  # noqa: S311  # the same data give the same interval
    found = sorted(median(_blocks(b, rng)) - median(_blocks(a, rng)) for _ in range(DRAWS))
    edge = DRAWS // 40
    return _effect(median(b) - median(a), found[edge], found[-1 - edge], relative)


def _blocks(values: Sequence[float], rng: random.Random) -> list[float]:
    """As many values, drawn in blocks of neighbours."""
    length = max(1, round(len(values) ** (1 / 3)) * 2)
    drawn: list[float] = []
    while len(drawn) < len(values):
        start = rng.randrange(len(values) - length + 1)
        drawn += values[start : start + length]
    return drawn[: len(values)]


def _effect(value: float, low: float, high: float, relative: bool) -> Effect:
    value, low, high = (
        round(math.expm1(each) if relative else each, _DIGITS) for each in (value, low, high)
    )
    return Effect(value, low, high, relative)
