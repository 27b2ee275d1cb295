"""Table `comparison`: what changed from the baseline to the run, and whether that is statistically significant."""

from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from spark_jobs.comparison import significance
from spark_jobs.comparison.measured import MEASURED, Measured
from spark_jobs.comparison.significance import Series, Verdict
from spark_jobs.measures.numbers import DIGITS
from spark_jobs.measures.result import Result, Row, table

NOT_SIGNIFICANT: Final = "not significant"
SIGNIFICANT: Final = "statistically significant"
TOO_LITTLE: Final = "too little data"
_UNITS: Final = {86_400: "day", 3600: "hour", 60: "minute", 1: "second"}
_HOUR_US: Final = 3_600_000_000


@dataclass(frozen=True)
class _Tested:
    """A measure, what its series consist of (hours, windows of 5 minutes), and the verdict of the test."""

    measured: Measured
    of: str
    verdict: Verdict


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
    """Test the hourly series, or the series of windows if there are too few hours or no hourly series."""
    before, after = _hourly(measured, baseline), _hourly(measured, run)
    if measured.window is None or min(_known(before), _known(after)) >= significance.FEWEST:
        return _Tested(measured, "hours", significance.mann_whitney(before, after))
    before, after = _windowed(measured, baseline), _windowed(measured, run)
    of = f"windows of {_length(run.facts.window_us)}"
    if (
        baseline.facts.window_us != run.facts.window_us
    ):  # sums and extremes over different lengths cannot be compared
        return _Tested(measured, of, Verdict(None, _known(before), _known(after)))
    return _Tested(measured, of, significance.mann_whitney(before, after))


def _known(series: Series) -> int:
    return sum(value is not None for value in series)


def _hourly(measured: Measured, result: Result) -> Series:
    if measured.hour is None:
        return []
    rows = {row["hour_us"]: measured.hour(row) for row in result.rows_of("hours")}
    return _without_gaps(rows, _HOUR_US)


def _windowed(measured: Measured, result: Result) -> Series:
    assert measured.window is not None
    rows = [row for row in result.rows_of("timeline") if row["qos"] == measured.qos]
    return _without_gaps({row["start_us"]: measured.window(row) for row in rows}, result.facts.window_us)


def _without_gaps(values: dict[int, float | None], step_us: int) -> Series:
    """In order of time, with None for one or more missing steps, so that values beside a gap are not adjacent."""
    found: list[float | None] = []
    before: int | None = None
    for time_us in sorted(values):
        if before is not None and time_us - before > step_us:
            found.append(None)
        found.append(values[time_us])
        before = time_us
    return found


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
        "test": f"{significance.NAME}; {test.of}",
        "n_baseline": test.verdict.n_baseline,
        "n": test.verdict.n,
        "p_value": test.verdict.p_value,
        "p_adjusted": adjusted,
        "verdict": verdict,
        "words": _sentence(test, verdict, adjusted),
    }


def _better(difference: float | None, direction: int) -> bool | None:
    if not difference or not direction:
        return None
    return (difference > 0) == (direction > 0)


def _sentence(test: _Tested, verdict: str, adjusted: float | None) -> str:
    """The verdict as a sentence."""
    counts = f"{test.verdict.n_baseline} and {test.verdict.n} {test.of}"
    if verdict == TOO_LITTLE or adjusted is None:
        return (
            f"Too little data: {counts}; the test needs at least {significance.FEWEST} on each side, and more if "
            "neighbouring values are correlated."
        )
    p = "p < 0.001" if adjusted < 0.001 else f"p = {adjusted:.3f}"
    if verdict == SIGNIFICANT:
        return f"Statistically significant over {counts} ({p})."
    return f"Not significant over {counts} ({p})."
