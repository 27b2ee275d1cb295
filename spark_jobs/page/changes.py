"""What changed against a baseline: every compared measure, and whether the difference is more than noise."""

from collections.abc import Sequence
from typing import Final

from spark_jobs import words
from spark_jobs.measures.result import Result, Row
from spark_jobs.page import bars
from spark_jobs.page.grids import Cell, Column, grid
from spark_jobs.page.markup import Html, lead, note, nothing, section, tag
from spark_jobs.page.verdict import LARGER, TOO_LITTLE

_READ: Final = (
    "How to read: the bar goes to the right where the value is more than the baseline’s, to the left where it is "
    "less, twice as long for each doubling. Green is better, red is worse, grey is no more than noise."
)


def changes_section(results: Sequence[Result]) -> Html:
    """The comparison table; the clear differences first."""
    before, after = results
    rows = after.rows_of("comparison")
    if not rows:
        return section("What changed", nothing("There was nothing to compare."), id_="changes")
    ranks = {LARGER: 0, TOO_LITTLE: 2}
    ordered = sorted(enumerate(rows), key=lambda item: (ranks.get(item[1]["verdict"], 1), item[0]))
    clear = sum(row["verdict"] == LARGER for row in rows)
    columns = [
        Column("measure", text=True),
        Column(words.name(before.label, 24)),
        Column(words.name(after.label, 24)),
        Column("change"),
        Column("", title="change, by powers of two"),
        Column("is that noise?", text=True),
        Column("p", title="probability of a difference as large by chance, corrected for the number of measures"),
    ]
    tests = sorted({row["test"] for row in rows if row["test"]})
    unknown = sum(row["verdict"] == TOO_LITTLE for row in rows)
    told = f"{clear} of {len(rows)} measures differ by more than noise"
    told += f"; of {unknown} there is too little data to tell." if unknown else "."
    remark = f"Tested with: {'; '.join(tests)}. Differences count as larger than noise below p = 0.05." if tests else ""
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
    shown = words.DASH if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
    verdict = row["verdict"] if row["verdict"] != LARGER or row["better"] is None else _judged(row)
    return [
        Cell(row["name"] or row["measure"]),
        Cell(words.measured(row["baseline"], row["unit"]), row["baseline"]),
        Cell(words.measured(row["value"], row["unit"]), row["value"]),
        Cell(tag("span", _change(row), class_=f"pill {class_}"), row["ratio"]),
        Cell(bars.change(row["ratio"], class_), row["ratio"]),
        Cell(tag("span", verdict, class_=f"pill {class_}")),
        Cell(shown, p),
    ]


def _change(row: Row) -> str:
    shown = [words.measured(row[side], row["unit"]) for side in ("baseline", "value")]
    if shown[0] == shown[1]:
        return words.DASH if row["value"] is None else "same"
    return "to 0" if row["value"] == 0 else words.change(row["baseline"], row["value"])


def _judged(row: Row) -> str:
    return f"{'better' if row['better'] else 'worse'}, {LARGER}"


def _class(row: Row) -> str:
    if row["verdict"] != LARGER or row["better"] is None:
        return "noise"
    return "good" if row["better"] else "bad"
