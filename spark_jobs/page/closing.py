"""The last section: data quality."""

from collections.abc import Sequence
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.result import Result
from spark_jobs.page import grids
from spark_jobs.page.grids import Cell, Column, folded, grid
from spark_jobs.page.markup import Html, join, lead, name_of, nothing, section, tag

MOST_FILES: Final = 50  # files that the page names; files.csv names all
READ: Final = "read"



def quality_section(results: Sequence[Result]) -> Html:
    """What was read, its faults, and whether the counters reconcile."""
    several = len(results) > 1
    parts = [part for place, result in enumerate(results) for part in _quality_of(result, place, several)]
    return section("Data quality", *parts, id_="quality")


def _quality_of(result: Result, place: int, several: bool) -> list[Html]:
    facts = result.facts
    files = result.rows_of("files")
    read = sum(row["status"] == READ for row in files)
    books = result.maybe("books", qos="all")
    parts = [tag("h3", formats.name(result.label))] if several else []
    told = f"Made from {formats.counted(facts.rows, 'row')} of {formats.counted(facts.clients, 'client')}"
    told += f" in {formats.counted(read, 'file')}." if files else "."
    if books is not None:
        off = books["rows_off"]
        good = f"The counters do not reconcile in {off:,} of them." if off else "The counters reconcile in all of them."
        parts.append(lead(join([told, " ", tag("span", good, class_="good" if not off else "bad")])))
    else:
        parts.append(lead(told))
    rows = [row for row in result.rows_of("quality") if row["count"]]
    columns = [
        Column("what", text=True),
        Column("count"),
        Column("for example", text=True),
        Column("", text=True, wrap=True),
    ]
    lines = [
        [
            Cell(formats.kind(row["kind"])),
            grids.number(row["count"]),
            Cell(name_of(row["example"], 60) if row["example"] else formats.DASH),
            Cell(formats.name(row["words"] or "", 300)),
        ]
        for row in rows
    ]
    if lines:
        parts.append(grid(f"quality-{place}", "Faults of the input", columns, lines, ["quality"]))
    else:
        parts.append(nothing("The input had no faults."))
    parts += _files(result, place)
    parts.append(_books(result, place))
    return parts


def _files(result: Result, place: int) -> list[Html]:
    bad = [row for row in result.rows_of("files") if row["status"] != READ]
    if not bad:
        return []
    columns = [Column("file", text=True, wrap=True), Column("status", text=True), Column("why", text=True, wrap=True)]
    lines = [
        [Cell(name_of(row["file"], 120)), Cell(formats.kind(row["status"])), Cell(formats.name(row["why"] or "", 300))]
        for row in bad[:MOST_FILES]
    ]
    title = "Files with a remark"
    summary = f"{title} ({len(bad):,})" if len(bad) <= MOST_FILES else f"{title} ({MOST_FILES} of {len(bad):,})"
    return [folded(summary, grid(f"files-{place}", title, columns, lines, ["files"]))]


def _books(result: Result, place: int) -> Html:
    rows = result.rows_of("books")
    if not rows:
        return Html("")
    heads = ("offered", "sent", "dropped", "superseded", "more waiting", "difference", "rows that do not reconcile")
    names = ("offered", "sent", "dropped", "superseded", "waiting_growth", "difference", "rows_off")
    lines = [
        [Cell("all" if row["qos"] == "all" else f"QoS {row['qos']}"), *[grids.number(row[name]) for name in names]]
        for row in rows
    ]
    columns = [Column("", text=True), *map(Column, heads)]
    title = "Reconciliation: offered = sent + dropped + superseded + more waiting"
    return grid(f"books-{place}", title, columns, lines, ["books"])
