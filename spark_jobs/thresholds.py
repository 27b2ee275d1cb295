"""Limits that an operator sets: which of a report's values are beyond them.

A TOML file with one line for each measure, by the names of the table `comparison`; where more is better the value is
the least that is allowed, else the most:

    jain_delivery_ratio = 0.99
    ack_qos1_p99 = 250_000      # microseconds
    starved_share = 0.001       # of all sessions
"""

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from spark_jobs.comparison.measured import MEASURED
from spark_jobs.errors import ReportError
from spark_jobs.measures.result import Result

STARVED_SHARE: Final = "starved_share"
_BETTER: Final = {measured.measure: measured.better for measured in MEASURED if measured.better} | {STARVED_SHARE: -1}


@dataclass(frozen=True)
class Checked:
    """A measure, its limit (the least or the most that is allowed), its value, and whether that is beyond it."""

    measure: str
    limit: float
    least: bool
    value: float | None
    exceeded: bool

    def to_json(self) -> dict[str, Any]:
        """For summary.json."""
        return asdict(self)

    def __str__(self) -> str:
        what = "at least" if self.least else "at most"
        return f"{self.measure} is {_number(self.value)}, {what} {_number(self.limit)} is allowed"


def _number(value: float | None) -> str:
    """With six digits, but never with an exponent: 0.0123, 1,898,280."""
    return "nothing" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def read_thresholds(path: str) -> dict[str, float]:
    """Read a file of limits.

    Raises:
        ReportError: it cannot be read, or has an unknown measure or a limit that is not a number.
    """
    try:
        limits = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ReportError(f"--thresholds {path}: {error}") from error
    for measure, limit in limits.items():
        if measure not in _BETTER:
            raise ReportError(f"--thresholds {path}: {measure} is not a measure; expected one of {', '.join(_BETTER)}")
        if isinstance(limit, bool) or not isinstance(limit, int | float):
            raise ReportError(f"--thresholds {path}: {measure} = {limit!r}; expected a number")
    return limits


def values_of(result: Result) -> dict[str, float | None]:
    """Every measure of a run that can have a limit, and throughput; None where there is no value."""
    found = {measured.measure: measured.value(result) for measured in MEASURED}
    starved = result.maybe("starvation", length="all")
    sessions = result.facts.sessions
    return found | {STARVED_SHARE: starved["sessions"] / sessions if starved is not None and sessions else None}


def check(result: Result, limits: Mapping[str, float]) -> list[Checked]:
    """Each limit with the run's value; a measure without a value is not beyond its limit."""
    values = values_of(result)
    checked = []
    for measure, limit in limits.items():
        value, least = values[measure], _BETTER[measure] > 0
        beyond = value is not None and (value < limit if least else value > limit)
        checked.append(Checked(measure, limit, least, value, beyond))
    return checked
