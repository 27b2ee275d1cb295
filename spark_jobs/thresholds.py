"""Limits that an operator sets: which of a report's values are beyond them.

A TOML file with one line for each measure, by the names of the table `comparison`; where more is better the value is
the least that is allowed, else the most:

    jain_delivery_ratio = 0.99
    ack_qos1_p99 = 250_000      # microseconds
    starved_share = 0.001       # of all sessions

MEASURES.md lists the measures with their units.
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
LARGEST: Final = 10**18
"""No measure has a larger value, so a larger limit would do nothing."""
BETTER: Final = {measured.measure: measured.better for measured in MEASURED if measured.better} | {STARVED_SHARE: -1}
"""The measures that can have a limit: 1 if it is the least that is allowed, -1 if it is the most."""
UNITS: Final = {measured.measure: measured.unit for measured in MEASURED} | {STARVED_SHARE: "share"}
_SHOWN: Final = {"us": " µs", "per_second": "/s", "clients": " clients", "deliveries": " deliveries"}
_FRACTIONS: Final = ("share", "index")


@dataclass(frozen=True)
class Checked:
    """A measure, its limit (the least or the most that is allowed), its value, and whether the limit is missed.

    It is missed by a value beyond it, and by none where deliveries were offered (see `without_value`).
    """

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
        unit = _SHOWN.get(UNITS[self.measure], "")
        allowed = f"{what} {_number(self.limit)}{unit} is allowed"
        if self.value is None:
            return f"{self.measure} has no value although deliveries were offered; {allowed}"
        return f"{self.measure} is {_number(self.value)}{unit}, {allowed}"


def _number(value: float) -> str:
    """With six digits, but never with an exponent: 0.0123, 1,898,280."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def read_thresholds(path: str) -> dict[str, float]:
    """Read a file of limits.

    Raises:
        ReportError: it cannot be read, has no limits, or has unknown measures or limits that no value could reach; all
            of these are named.
    """
    try:
        limits = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ReportError(f"--thresholds {path}: {error}") from error
    if not limits:
        raise ReportError(f"--thresholds {path}: has no limits; expected lines such as ack_qos1_p99 = 250_000")
    mistakes = [mistake for measure, limit in limits.items() if (mistake := _mistake(measure, limit))]
    if unknown := [measure for measure in limits if measure not in BETTER]:
        are = "is not a measure" if len(unknown) == 1 else "are not measures"
        mistakes.append(f"{', '.join(unknown)} {are}; expected one of {', '.join(BETTER)}")
    if mistakes:
        raise ReportError("\n".join(f"--thresholds {path}: {mistake}" for mistake in mistakes))
    return limits


def _mistake(measure: str, limit: object) -> str:
    """What is wrong with the limit of a measure; empty: nothing."""
    if measure not in BETTER:
        return ""
    fraction = UNITS[measure] in _FRACTIONS
    if not isinstance(limit, bool) and isinstance(limit, int | float) and 0 <= limit <= (1 if fraction else LARGEST):
        return ""
    expected = "a fraction from 0 to 1" if fraction else "a number from 0 to 10^18"
    if UNITS[measure] == "us":
        expected += ", in µs"
    return f"{measure} = {limit!r:.40}; expected {expected}"


def values_of(result: Result) -> dict[str, float | None]:
    """Every measure of a run that can have a limit, and throughput; None where there is no value."""
    found = {measured.measure: measured.value(result) for measured in MEASURED}
    starved = result.maybe("starvation", length="all")
    clients = result.facts.clients
    return found | {STARVED_SHARE: starved["clients"] / clients if starved is not None and clients else None}


def without_value(result: Result) -> set[str]:
    """The measures that have no value although deliveries were offered: none of these was sent, or acknowledged."""
    return {each.measure for each in MEASURED if each.due and each.value(result) is None and each.due(result)}


def check(result: Result, limits: Mapping[str, float]) -> list[Checked]:
    """Each limit with the run's value. Without a value it is missed if there should be one."""
    values, missing = values_of(result), without_value(result)
    checked = []
    for measure, limit in limits.items():
        value, least = values[measure], BETTER[measure] > 0
        beyond = measure in missing if value is None else value < limit if least else value > limit
        checked.append(Checked(measure, limit, least, value, beyond))
    return checked
