"""Table `comparison`: what changed from the baseline to the run, and whether that is statistically significant."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from spark_jobs import formats
from spark_jobs.comparison import significance
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

NOT_SIGNIFICANT: Final = "not significant"
SIGNIFICANT: Final = "statistically significant"
TOO_LITTLE: Final = "too little data"
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


def compare(baseline: Result, run: Result) -> pa.Table:
    """The table, one row for each of `measured.MEASURED`; `run` is the label of the run, not of the baseline."""
    tested = [_test(measured, baseline, run) for measured in MEASURED]
    decided = [test.verdict.p_value for test in tested if test.verdict.p_value is not None]
    corrected = iter(significance.holm(decided))
    rows = []
    for test in tested:
        adjusted = None if test.verdict.p_value is None else next(corrected)
        rows.append(_row(test, baseline, run, adjusted))
    return table("comparison", run.label, rows)


def with_comparison(baseline: Result, run: Result) -> Result:
    """The run with the table `comparison` added."""
    return replace(run, tables={**run.tables, "comparison": compare(baseline, run)})


def _test(measured: Measured, baseline: Result, run: Result) -> _Tested:
    """Test pairs of hours; if there are none, the hourly series; or the windows if there are too few hours."""
    before, after = _hourly(measured, baseline), _hourly(measured, run)
    amounts = measured.unit in _AMOUNTS
    if pairs := paired(before, after, amounts):
        verdict = signed_rank(pairs.differences)
        if verdict.p_value is not None:
            return _Tested(measured, PAIRED, pairs.of, verdict, effect_of_pairs(pairs))
    of, step_us = "hours", HOUR_US
    if measured.window is not None and min(_known(before), _known(after)) < significance.FEWEST:
        of, step_us = f"windows of {_length(run.facts.window_us)}", run.facts.window_us
        before, after = _windowed(measured, baseline), _windowed(measured, run)
        if baseline.facts.window_us != run.facts.window_us:
            # Sums and extremes over different lengths cannot be compared.
            return _Tested(measured, significance.NAME, of, Verdict(None, _known(before), _known(after)), None)
    one, two = without_gaps(before, step_us), without_gaps(after, step_us)
    verdict = significance.mann_whitney(one, two)
    return _Tested(measured, significance.NAME, of, verdict, effect_of_medians(one, two, amounts))


def _known(series: Mapping[int, float | None]) -> int:
    return sum(value is not None for value in series.values())


def _hourly(measured: Measured, result: Result) -> dict[int, float | None]:
    if measured.hour is None:
        return {}
    return {row["hour_us"]: measured.hour(row) for row in result.rows_of("hours")}


def _windowed(measured: Measured, result: Result) -> dict[int, float | None]:
    assert measured.window is not None
    rows = [row for row in result.rows_of("timeline") if row["qos"] == measured.qos]
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
    effect = test.effect
    verdict = TOO_LITTLE
    if known and adjusted is not None:
        verdict = SIGNIFICANT if adjusted < significance.ALPHA else NOT_SIGNIFICANT
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
        "words": _sentence(test, verdict, adjusted),
    }


def _better(difference: float | None, direction: int) -> bool | None:
    if not difference or not direction:
        return None
    return (difference > 0) == (direction > 0)


def _sentence(test: _Tested, verdict: str, adjusted: float | None) -> str:
    """The verdict as a sentence."""
    n_baseline, n = test.verdict.n_baseline, test.verdict.n
    counts = f"{n} pairs of {test.of}" if test.test == PAIRED else f"{n_baseline} and {n} {test.of}"
    if verdict == TOO_LITTLE or adjusted is None:
        return (
            f"Too little data: {counts}; the test needs at least {significance.FEWEST} on each side, and more if "
            "neighbouring values are correlated."
        )
    p = "p < 0.001" if adjusted < 0.001 else f"p = {adjusted:.3f}"
    size = f" {_size(test)}" if test.effect is not None else ""
    if verdict == SIGNIFICANT:
        return f"Statistically significant over {counts} ({p}).{size}"
    return f"Not significant over {counts} ({p}).{size}"


def _size(test: _Tested) -> str:
    """The effect and its interval as a sentence."""
    effect = test.effect
    assert effect is not None
    what = "Median change of a pair" if test.test == PAIRED else "Change of the median"
    if effect.relative:
        value, low, high = (f"{100 * each:+.3g} %" for each in (effect.value, effect.low, effect.high))
    else:
        value, low, high = (
            f"{'−' if each < 0 else '+'}{formats.measured(abs(each), test.measured.unit)}"
            for each in (effect.value, effect.low, effect.high)
        )
    return f"{what}: {value} (95 % interval {low} to {high}).".replace("-", "−")
