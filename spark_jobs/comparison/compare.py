"""Table `comparison`: what changed from the baseline to the run, and whether that is statistically significant."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from typing import Final

import pyarrow as pa

from spark_jobs import formats
from spark_jobs.comparison import bootstrap, significance
from spark_jobs.comparison.measured import MEASURED, Measured
from spark_jobs.comparison.pairs import (
    HOUR_US,
    Effect,
    effect_of_medians,
    effect_of_pairs,
    paired,
    signed_rank,
    without_gaps,
)
from spark_jobs.comparison.pairs import NAME as PAIRED
from spark_jobs.comparison.significance import Verdict
from spark_jobs.measures.numbers import DIGITS
from spark_jobs.measures.result import Result, Row, table
from spark_jobs.measures.sums import ALL_QOS

NOT_SIGNIFICANT: Final = "not significant"
SIGNIFICANT: Final = "statistically significant"
TOO_LITTLE: Final = "too little data"
AMBIGUOUS: Final = "ambiguous"
"""Most hours moved to one side, and the value of the whole range to the other."""
_UNITS: Final = {86_400: "day", 3600: "hour", 60: "minute", 1: "second"}
_AMOUNTS: Final = ("us", "per_second")  # units whose values are compared by their ratio


@dataclass(frozen=True)
class _Tested:
    """A measure, the test, what its series consist of, its verdict, and the size of the effect."""

    measured: Measured
    test: str
    of: str
    verdict: Verdict
    effect: Effect | None


def compare(baseline: Result, run: Result, zone: tzinfo = UTC) -> pa.Table:
    """The table, one row for each of `measured.MEASURED`; `run` is the label of the run, not of the baseline.

    Args:
        baseline, run: what is compared.
        zone: whose weekdays and times of the day are paired.
    """
    tested = [_test(measured, baseline, run, zone) for measured in MEASURED]
    decided = [test.verdict.p_value for test in tested if test.verdict.p_value is not None]
    corrected = iter(significance.holm(decided))
    rows = []
    for test in tested:
        adjusted = None if test.verdict.p_value is None else next(corrected)
        rows.append(_row(test, baseline, run, adjusted))
    return table("comparison", run.label, rows)


def with_comparison(baseline: Result, run: Result, zone: tzinfo = UTC) -> Result:
    """The run with the table `comparison` added."""
    return replace(run, tables={**run.tables, "comparison": compare(baseline, run, zone)})


def _test(measured: Measured, baseline: Result, run: Result, zone: tzinfo) -> _Tested:
    """Test pairs of hours; without them, the sums of windows; or the series of hours or windows."""
    before, after = _hourly(measured, baseline), _hourly(measured, run)
    amounts = measured.unit in _AMOUNTS
    if pairs := paired(before, after, amounts, zone):
        verdict = signed_rank(pairs.differences)
        if verdict.p_value is not None:
            return _Tested(measured, PAIRED, pairs.of, verdict, effect_of_pairs(pairs))
    alike = baseline.facts.window_us == run.facts.window_us
    by_window = f"windows of {_length(run.facts.window_us)}"
    if measured.pooled is not None:
        sums = [result.windows if alike else () for result in (baseline, run)]
        verdict, effect = bootstrap.compared(measured.pooled, sums[0], sums[1], amounts)
        return _Tested(measured, bootstrap.NAME, by_window, verdict, effect)
    of, step_us = "hours", HOUR_US
    if measured.window is not None and min(_known(before), _known(after)) < significance.FEWEST:
        of, step_us = by_window, run.facts.window_us
        before, after = _windowed(measured, baseline), _windowed(measured, run)
        if not alike:  # extremes over different lengths cannot be compared
            return _Tested(measured, significance.NAME, of, Verdict(None, _known(before), _known(after)), None)
    one, two = without_gaps(before, step_us), without_gaps(after, step_us)
    return _Tested(
        measured, significance.NAME, of, significance.mann_whitney(one, two), effect_of_medians(one, two, amounts)
    )


def _known(series: Mapping[int, float | None]) -> int:
    return sum(value is not None for value in series.values())


def _hourly(measured: Measured, result: Result) -> dict[int, float | None]:
    if measured.hour is None:
        return {}
    return {row["hour_us"]: measured.hour(row) for row in result.rows_of("hours")}


def _windowed(measured: Measured, result: Result) -> dict[int, float | None]:
    assert measured.window is not None
    rows = [row for row in result.rows_of("timeline") if row["qos"] == ALL_QOS]
    return {row["start_us"]: measured.window(row) for row in rows}


def _length(time_us: int) -> str:
    seconds = time_us / 1e6
    factor = next((factor for factor in _UNITS if seconds >= factor), 1)
    number = seconds / factor
    return f"{number:g} {_UNITS[factor]}{'' if number == 1 else 's'}"


def _row(test: _Tested, baseline: Result, run: Result, adjusted: float | None) -> Row:
    measured = test.measured
    before, after = measured.value(baseline), measured.value(run)
    known = before is not None and after is not None
    difference = round(after - before, DIGITS) if before is not None and after is not None else None
    verdict, effect = TOO_LITTLE, None
    if known and adjusted is not None:
        verdict, effect = NOT_SIGNIFICANT, test.effect
        if adjusted < significance.ALPHA:
            verdict = AMBIGUOUS if _is_opposite(test, difference) else SIGNIFICANT
    return {
        "measure": measured.measure,
        "name": measured.name,
        "unit": measured.unit,
        "baseline": before,
        "value": after,
        "difference": difference,
        "ratio": round(after / before, DIGITS) if before and after is not None else None,
        "better": _better(difference, measured.better),
        "test": f"{test.test}; {test.of}",
        "n_baseline": test.verdict.n_baseline,
        "n": test.verdict.n,
        "p_value": test.verdict.p_value,
        "p_adjusted": adjusted,
        "verdict": verdict,
        "effect": effect.value if effect is not None else None,
        "effect_low": effect.low if effect is not None else None,
        "effect_high": effect.high if effect is not None else None,
        "effect_is_relative": effect.relative if effect is not None else None,
        "words": _sentence(test, verdict, adjusted, difference),
    }


def _better(difference: float | None, direction: int) -> bool | None:
    if not difference or not direction:
        return None
    return (difference > 0) == (direction > 0)


def _is_opposite(test: _Tested, difference: float | None) -> bool:
    """Whether the typical hour or window moved to the other side than the value of the whole range."""
    return test.effect is not None and (difference or 0) * test.effect.value < 0


def _sentence(test: _Tested, verdict: str, adjusted: float | None, difference: float | None) -> str:
    """The verdict as a sentence."""
    n_baseline, n = test.verdict.n_baseline, test.verdict.n
    counts = f"{n} pairs of {test.of}" if test.test == PAIRED else f"{n_baseline} and {n} {test.of}"
    if verdict == TOO_LITTLE or adjusted is None:
        least = bootstrap.FEWEST if test.test == bootstrap.NAME else significance.FEWEST
        more = "" if test.test == bootstrap.NAME else ", and more if neighbouring values are correlated"
        return f"Too little data: {counts}; the test needs at least {least} on each side{more}."
    p = "p < 0.001" if adjusted < 0.001 else f"p = {adjusted:.3f}"
    size = f" {_size(test)}" if test.effect is not None else ""
    if _is_opposite(test, difference):
        size += " The value of the whole range moved to the other side: a few hours or windows decide it."
    said = {SIGNIFICANT: "Statistically significant", AMBIGUOUS: "Ambiguous"}.get(verdict, "Not significant")
    return f"{said} over {counts} ({p}).{size}"


def _size(test: _Tested) -> str:
    """The effect and its interval as a sentence."""
    effect = test.effect
    assert effect is not None
    what = {PAIRED: "Median change of a pair", bootstrap.NAME: "Change"}.get(test.test, "Change of the median")
    if effect.relative:
        value, low, high = map(_relative, (effect.value, effect.low, effect.high))
    else:
        value, low, high = (
            f"{'−' if each < 0 else '+'}{formats.measured(abs(each), test.measured.unit)}"
            for each in (effect.value, effect.low, effect.high)
        )
    return f"{what}: {value} (95 % interval {low} to {high}).".replace("-", "−")


def _relative(effect: float) -> str:
    """A relative change in per cent, or as a factor from two on."""
    return f"{100 * effect:+.3g} %" if effect < 1 else f"× {effect + 1:.3g}"
