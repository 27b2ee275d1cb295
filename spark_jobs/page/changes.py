"""The section on changes from a baseline: every compared measure, and whether the difference is significant."""

from collections.abc import Sequence
from typing import Final

from spark_jobs import formats
from spark_jobs.comparison.compare import AMBIGUOUS, SIGNIFICANT, TOO_LITTLE
from spark_jobs.measures.result import Result, Row
from spark_jobs.page import bars
from spark_jobs.page.grids import Cell, Column, grid
from spark_jobs.page.markup import Html, lead, note, nothing, section, tag
from spark_jobs.page.words import WORDS

_READ: Final = WORDS["read"]["changes"]


def changes_section(results: Sequence[Result]) -> Html:
    """The comparison table, significant differences first."""
    before, after = results
    rows = after.rows_of("comparison")
    if not rows:
        return section("What changed", nothing("No measure can be compared."), id_="changes")
    ranks = {SIGNIFICANT: 0, TOO_LITTLE: 2}
    ordered = sorted(enumerate(rows), key=lambda item: (ranks.get(item[1]["verdict"], 1), item[0]))
    clear = sum(row["verdict"] == SIGNIFICANT for row in rows)
    columns = [
        Column("measure", text=True),
        Column(formats.name(before.label, 24)),
        Column(formats.name(after.label, 24)),
        Column("change"),
        Column("", title="change, by powers of two"),
        Column("significance", text=True),
        Column("p", title="probability of such a difference by chance, corrected for the number of measures"),
    ]
    tests = sorted({row["test"] for row in rows if row["test"]})
    unknown = sum(row["verdict"] == TOO_LITTLE for row in rows)
    told = f"{clear} of {len(rows)} measures differ significantly"
    told += f"; for {unknown} there is too little data" if unknown else ""
    opposed = sum(row["verdict"] == AMBIGUOUS for row in rows)
    told += f"; of {opposed}, most hours moved to one side and the whole to the other." if opposed else "."
    remark = f"Tested with: {'; '.join(tests)}. Differences are significant below p = 0.05." if tests else ""
    return section(
        "What changed",
        lead(told),
        tag("p", _READ, class_="how"),
        grid("comparison", "Side by side", columns, [_line(row) for _, row in ordered], ["comparison"]),
        note(remark),
        id_="changes",
    )


def _line(row: Row) -> list[Cell]:
    class_ = _class(row)
    p = row["p_adjusted"] if row["p_adjusted"] is not None else row["p_value"]
    shown = formats.DASH if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
    verdict = row["verdict"] if row["verdict"] != SIGNIFICANT or row["better"] is None else _better_or_worse(row)
    return [
        Cell(row["name"] or row["measure"]),
        Cell(formats.measured(row["baseline"], row["unit"]), row["baseline"]),
        Cell(formats.measured(row["value"], row["unit"]), row["value"]),
        Cell(tag("span", _change(row), class_=f"pill {class_}"), row["ratio"]),
        Cell(bars.change(row["ratio"], class_), row["ratio"]),
        Cell(tag("span", verdict, class_=f"pill {class_}", title=row["words"])),
        Cell(shown, p),
    ]


def _change(row: Row) -> str:
    shown = [formats.measured(row[side], row["unit"]) for side in ("baseline", "value")]
    if shown[0] == shown[1]:
        return formats.DASH if row["value"] is None else "same"
    return "to 0" if row["value"] == 0 else formats.change(row["baseline"], row["value"])


def _better_or_worse(row: Row) -> str:
    return f"{'better' if row['better'] else 'worse'}, {SIGNIFICANT}"


def _class(row: Row) -> str:
    if row["verdict"] != SIGNIFICANT or row["better"] is None:
        return "noise"
    return "good" if row["better"] else "bad"
