"""The findings about two runs: what changed from the baseline, for better or worse."""

import math
from collections.abc import Sequence
from typing import Final

from spark_jobs import formats
from spark_jobs.comparison.compare import AMBIGUOUS, SIGNIFICANT, TOO_LITTLE
from spark_jobs.measures.result import Result, Row
from spark_jobs.page.finding import Finding, Grade

MENTIONED: Final = 1.5  # from this factor on a difference is mentioned although there is too little data
_SUBJECTS: Final = {
    "ack_qos1_p99": "the 99th percentile of QoS 1 acknowledgement",
    "ack_qos2_p99": "the 99th percentile of QoS 2 acknowledgement",
    "wait_qos0_p99": "the 99th percentile of QoS 0 waiting",
}
_SIDES: Final = ("baseline", "value")
# Measures that come first in a headline.
_LEADING: Final = frozenset(
    {"ack_qos1_p99", "ack_qos2_p99", "wait_qos0_p99", "starved_sessions", "delivery_ratio", "delivery_ratio_qos0"}
)
_MOVES: Final = 4  # changed measures in a sentence


def what_changed(before: Result, after: Result) -> str:
    """The headline of a comparison: the largest gain and the largest loss."""
    clear, unproven = _significant(after), _unproven(after)
    rows = [*clear, *unproven]
    names = formats.name(after.label), formats.name(before.label)
    if not rows:
        return f"{names[0]} and {names[1]} do not differ significantly."
    better = [row for row in rows if row["better"] is True]
    worse = [row for row in rows if row["better"] is False]
    chosen = [_foremost(side) for side in (better, worse) if side] or [_foremost(rows)]
    caveat = " There is too little data to test that." if any(row in unproven for row in chosen) else ""
    return f"With {names[0]}, {', but '.join(map(moved, chosen))}.{caveat}"


def changes(before: Result, after: Result) -> list[Finding]:
    """What is better and worse than the baseline, and how many measures did not change."""
    rows = _significant(after)
    compared = [row for row in after.rows_of("comparison") if row["verdict"] not in {TOO_LITTLE, AMBIGUOUS}]
    better = [row for row in rows if row["better"] is True]
    worse = [row for row in rows if row["better"] is False]
    found = []
    if better:
        found.append(Finding(Grade.GOOD, "Better", _sentence(better)))
    if worse:
        found.append(Finding(Grade.UNFAIR, "Worse", _sentence(worse)))
    if unproven := _unproven(after):
        text = f"Large differences, but too little data to test them: {_moves(unproven)}."
        found.append(Finding(Grade.NOTE, "Unproven", text))
    same = len(compared) - len(rows)
    if same:
        noun = "measure does" if same == 1 else "measures do"
        text = f"{same} {noun} not differ significantly from {formats.name(before.label)}."
        found.append(Finding(Grade.NOTE, "Unchanged", text))
    return found


def _significant(result: Result) -> list[Row]:
    """Measures with a significant and visible difference: a significant series can have the same overall value."""
    rows = [row for row in result.rows_of("comparison") if row["verdict"] == SIGNIFICANT]
    return [row for row in rows if row["difference"] and len({_shown(row, name) for name in _SIDES}) > 1]


def _shown(row: Row, side: str) -> str:
    return formats.measured(row[side], row["unit"])


def _unproven(after: Result) -> list[Row]:
    """Measures with a large difference but too little data."""
    rows = [row for row in after.rows_of("comparison") if row["verdict"] == TOO_LITTLE and row["better"] is not None]
    return sorted((row for row in rows if _factor(row) >= MENTIONED), key=_importance, reverse=True)


def _factor(row: Row) -> float:
    """The factor by which a measure changed, up or down."""
    if not row["baseline"] or not row["value"]:
        return math.inf if row["difference"] else 1.0
    return float(max(row["value"] / row["baseline"], row["baseline"] / row["value"]))


def _foremost(rows: Sequence[Row]) -> Row:
    """The leading measure that changed most, or another one if there is none."""
    return max(rows, key=_importance)


def _importance(row: Row) -> tuple[bool, float]:
    return row["measure"] in _LEADING, _factor(row)


def moved(row: Row) -> str:
    """A changed measure as text: starved clients fell from 14 to 0."""
    verb = "rose" if (row["difference"] or 0) > 0 else "fell"
    subject = _SUBJECTS.get(row["measure"], formats.inside(row["name"]))
    return f"{subject} {verb} from {_shown(row, 'baseline')} to {_shown(row, 'value')}"


def _moves(rows: Sequence[Row]) -> str:
    more = f"; and {len(rows) - _MOVES} more" if len(rows) > _MOVES else ""
    return f"{'; '.join(map(moved, rows[:_MOVES]))}{more}"


def _sentence(rows: Sequence[Row]) -> str:
    text = _moves(rows)
    return f"{text[:1].upper()}{text[1:]}."
