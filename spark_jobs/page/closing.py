"""The last sections: data quality, definitions of the figures, links to the tables."""

from collections.abc import Sequence
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.layout import LAYOUTS
from spark_jobs.measures.result import Result
from spark_jobs.metrics import SCHEMA
from spark_jobs.page import grids
from spark_jobs.page.grids import Cell, Column, folded, grid
from spark_jobs.page.markup import Html, csv_link, join, lead, name_of, nothing, section, tag

MOST_FILES: Final = 50  # files that the page names; files.csv names all
READ: Final = "read"

_DEFINITIONS: Final = (
    (
        "Delivery ratio",
        (
            "sent / offered. A delivery is one message on its way to one session; sent counts its first transmission. "
            "It can exceed 100 % if an earlier backlog was sent."
        ),
    ),
    (
        "Goodput",
        (
            "Deliveries sent per second of connection. Sessions connected for less than one interval "
            "are left out and counted."
        ),
    ),
    (
        "Jain’s fairness index",
        (
            "J = (x₁ + … + xₙ)² / (n · (x₁² + … + xₙ²)) over n sessions: 1 if all x are equal, k/n if k sessions share "
            "everything and others nothing. For the delivery ratio x = min(1, sent / offered), for goodput x is "
            "the goodput. Source: R. Jain, D. Chiu, W. Hawe, A Quantitative Measure of Fairness and Discrimination for "
            "Resource Allocation in Shared Computer Systems, DEC Research Report TR-301, 1984."
        ),
    ),
    (
        "Lorenz curve and Gini’s coefficient",
        (
            "L(p) is the share of the total that the share p of sessions with the lowest values has. Gini’s "
            "coefficient is 1 − 2 ∫ L(p) dp: 0 if all are equal, near 1 if one has everything. Sources: M. O. Lorenz, "
            "Methods of Measuring the Concentration of Wealth, 1905; C. Gini, Variabilità e mutabilità, 1912."
        ),
    ),
    (
        "Min/mean goodput",
        (
            "Lowest goodput / mean goodput: 1 if all are equal, 0 if a session got nothing. Max-min fairness"
            " maximizes the lowest value. Source: D. Bertsekas, R. Gallager, Data Networks, section 6.5, 1992."
        ),
    ),
    (
        "Starved",
        (
            "Connected, deliveries offered or waiting, and nothing sent at any QoS, for at least a given number of "
            "intervals in a row."
        ),
    ),
    (
        "Overtaking QoS 0",
        (
            "In intervals that began and ended with QoS 1 or 2 waiting: QoS 0 sent minus QoS 0 that waited or was "
            "gated. The gate should keep it at 0."
        ),
    ),
    (
        "Pressure",
        (
            "A session’s interval is under pressure if its send path was congested, its window full (in deliveries or "
            "in bytes), its rate used up, its mailbox sampled busy (above 10 deliveries), or its QoS 0 gated. This is "
            "defined for a broker without the gate too."
        ),
    ),
    (
        "Paced",
        (
            "How long a publisher’s PUBLISHes were held back because a queue that drains was full (FC-16, overflow "
            "patience), and how long publishers were paced for a session. A session for which several publishers are "
            "paced counts once, and so does a publisher that is paced for several sessions: the two sums differ."
        ),
    ),
    (
        "Percentiles",
        (
            "The p-th percentile is the value at rank ⌈p · n⌉ of n (nearest rank). The broker counts in eight buckets "
            "to each doubling, so the bucket of that value is known: the exact percentile is at most the given bound, "
            "and more than eight ninths of it. The displayed value is the middle of the bucket, with an error of at "
            "most 6 %. In hours of brokers before schema version 4 the error is less than a factor of two."
        ),
    ),
    (
        "Counters reconcile",
        "For every session and interval, QoS by QoS: waiting before + offered = sent + dropped + waiting after.",
    ),
)


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
    told = f"Made from {formats.counted(facts.rows, 'row')} of {formats.counted(facts.sessions, 'session')}"
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
    heads = ("offered", "sent", "dropped", "more waiting", "difference", "rows that do not reconcile")
    names = ("offered", "sent", "dropped", "waiting_growth", "difference", "rows_off")
    lines = [
        [Cell("all" if row["qos"] == "all" else f"QoS {row['qos']}"), *[grids.number(row[name]) for name in names]]
        for row in rows
    ]
    columns = [Column("", text=True), *map(Column, heads)]
    return grid(f"books-{place}", "Reconciliation: offered = sent + dropped + more waiting", columns, lines, ["books"])


def definitions_section() -> Html:
    """Formula, meaning and source of every figure."""
    parts = [join([tag("dt", name), tag("dd", meaning)]) for name, meaning in _DEFINITIONS]
    return section(
        "What the figures mean", folded("Formulas, meaning and sources", tag("dl", *parts)), id_="definitions"
    )


def footer(results: Sequence[Result]) -> Html:
    """Links to the tables of the page."""
    names = [name for name in LAYOUTS if name != "comparison" or len(results) > 1]
    links = join(map(csv_link, [*names, "starved_sessions"]), by=", ")
    return tag(
        "footer",
        tag("p", "Tables of this page, each as CSV and Parquet: ", links, "."),
        tag("p", f"Made from {SCHEMA.name} version {SCHEMA.version}. Times are UTC."),
    )
