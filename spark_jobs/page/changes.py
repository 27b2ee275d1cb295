"""The section on changes from a baseline: every compared measure, and whether the difference is significant."""

from collections.abc import Sequence
from typing import Final

from spark_jobs import formats
from spark_jobs.comparison.compare import AMBIGUOUS, SIGNIFICANT, TOO_LITTLE
from spark_jobs.measures.result import Result, Row
from spark_jobs.page.grids import Column, grid, words
from spark_jobs.page.markup import Html, Section, note, tag

_RANKS: Final = {SIGNIFICANT: 0, TOO_LITTLE: 2}


def changes_section(results: Sequence[Result]) -> Section:
    """The comparison table, significant differences first."""
    before, after = results
    rows = sorted(after.rows_of("comparison"), key=lambda row: _RANKS.get(row["verdict"], 1))
    if not rows:
        return Section("changes", "What changed", "No measure can be compared.")
    columns = [
        words("measure", lambda row: row["name"] or row["measure"]),
        words(formats.name(before.label, 24), lambda row: formats.measured(row["baseline"], row["unit"])),
        words(formats.name(after.label, 24), lambda row: formats.measured(row["value"], row["unit"])),
        words("change", lambda row: row, _change),
        words("significance", lambda row: row, _significance),
        Column(
            "p",
            lambda row: row["p_value"] if row["p_adjusted"] is None else row["p_adjusted"],
            lambda p: formats.DASH if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}",
            "probability of such a difference by chance, corrected for the number of measures",
        ),
    ]
    number = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in (*_RANKS, AMBIGUOUS)}
    told = f"{number[SIGNIFICANT]} of {len(rows)} measures differ significantly"
    told += f"; for {number[TOO_LITTLE]} there is too little data" if number[TOO_LITTLE] else ""
    opposed = number[AMBIGUOUS]
    told += f"; of {opposed}, most hours moved to one side and the whole to the other." if opposed else "."
    tests = sorted({row["test"] for row in rows if row["test"]})
    remark = f"Tested with: {'; '.join(tests)}. Differences are significant below p = 0.05." if tests else ""
    sheet = grid("comparison", "Side by side", columns, rows, ["comparison"])
    return Section("changes", "What changed", told, (sheet, note(remark)))


def _change(row: Row) -> Html:
    shown = [formats.measured(row[side], row["unit"]) for side in ("baseline", "value")]
    if shown[0] == shown[1]:
        told = formats.DASH if row["value"] is None else "same"
    else:
        told = "to 0" if row["value"] == 0 else formats.change(row["baseline"], row["value"])
    return tag("span", told, class_=f"pill {_class(row)}")


def _significance(row: Row) -> Html:
    told = row["verdict"]
    if told == SIGNIFICANT and row["better"] is not None:
        told = f"{'better' if row['better'] else 'worse'}, {SIGNIFICANT}"
    return tag("span", told, class_=f"pill {_class(row)}", title=row["words"])


def _class(row: Row) -> str:
    if row["verdict"] != SIGNIFICANT or row["better"] is None:
        return "noise"
    return "good" if row["better"] else "bad"
