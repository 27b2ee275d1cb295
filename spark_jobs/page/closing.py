"""The closing sections: data quality, how the figures are defined, and where the numbers are."""

from collections.abc import Sequence
from typing import Final

from spark_jobs import words
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
            "It can pass 100 % where a backlog from before was sent."
        ),
    ),
    (
        "Goodput",
        (
            "Deliveries sent per second that the session was connected. Sessions connected for less than one interval "
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
            "L(p) is the share of all that the p least served of the sessions have. Gini’s coefficient is "
            "1 − 2 ∫ L(p) dp: 0 if all are alike, near 1 if one has everything. Sources: M. O. Lorenz, Methods of "
            "Measuring the Concentration of Wealth, 1905; C. Gini, Variabilità e mutabilità, 1912."
        ),
    ),
    (
        "Min/mean goodput",
        (
            "The lowest goodput over the mean one: 1 if all are alike, 0 if somebody got nothing. What max-min fairness"
            " makes as large as it can be. Source: D. Bertsekas, R. Gallager, Data Networks, section 6.5, 1992."
        ),
    ),
    (
        "Starved",
        (
            "Connected, with something offered or waiting, and nothing sent at any QoS, for at least so many intervals "
            "in a row."
        ),
    ),
    (
        "QoS 0 that went past",
        (
            "In intervals that began and ended with QoS 1 or 2 waiting: QoS 0 sent beyond what waited itself or was "
            "gated. The gate should make it nil."
        ),
    ),
    (
        "Pressure",
        (
            "A session’s interval is under pressure if its send path was congested, its window full (in deliveries or "
            "in bytes), its rate used up, its mailbox sampled busy (above 10 deliveries), or its QoS 0 gated. That is "
            "defined for a broker without the gate too."
        ),
    ),
    (
        "Held back",
        (
            "How long a publisher’s messages waited because queues that drained had no room for them (FC-16, bounded "
            "patience), and how long a session’s queue held back anybody. A session that holds back several publishers "
            "counts once, and so does a publisher that several sessions hold back: the two sums differ."
        ),
    ),
    (
        "Percentiles",
        (
            "The p-th percentile is the value at rank ⌈p · n⌉ of n (nearest rank). The broker counts in buckets of "
            "powers of two (0, 1, 2–3, 4–7, …), which tell for certain in which bucket that value lies: the exact "
            "percentile is at most the bound given, and more than half of it. The figure before it is interpolated by "
            "rank inside the bucket, so it is less than a factor of two off."
        ),
    ),
    (
        "Books",
        "For every session and interval, QoS by QoS: waiting before + offered = sent + dropped + waiting after.",
    ),
)


def quality_section(results: Sequence[Result]) -> Html:
    """What was read, what was wrong with it, and whether the books balance."""
    several = len(results) > 1
    parts = [part for place, result in enumerate(results) for part in _quality_of(result, place, several)]
    return section("Data quality", *parts, id_="quality")


def _quality_of(result: Result, place: int, several: bool) -> list[Html]:
    facts = result.facts
    files = result.rows_of("files")
    read = sum(row["status"] == READ for row in files)
    books = result.maybe("books", qos="all")
    parts = [tag("h3", words.name(result.label))] if several else []
    told = f"Made from {words.counted(facts.rows, 'row')} of {words.counted(facts.sessions, 'session')}"
    told += f" in {words.counted(read, 'file')}." if files else "."
    if books is not None:
        off = books["rows_off"]
        good = "The books balance in all of them." if not off else f"The books do not balance in {off:,} of them."
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
            Cell(words.kind(row["kind"])),
            grids.number(row["count"]),
            Cell(name_of(row["example"], 60) if row["example"] else words.DASH),
            Cell(words.name(row["words"] or "", 300)),
        ]
        for row in rows
    ]
    if lines:
        parts.append(grid(f"quality-{place}", "What was wrong with the input", columns, lines, ["quality"]))
    else:
        parts.append(nothing("Nothing was wrong with the input."))
    parts += _files(result, place)
    parts.append(_books(result, place))
    return parts


def _files(result: Result, place: int) -> list[Html]:
    bad = [row for row in result.rows_of("files") if row["status"] != READ]
    if not bad:
        return []
    columns = [Column("file", text=True, wrap=True), Column("status", text=True), Column("why", text=True, wrap=True)]
    lines = [
        [Cell(name_of(row["file"], 120)), Cell(words.kind(row["status"])), Cell(words.name(row["why"] or "", 300))]
        for row in bad[:MOST_FILES]
    ]
    title = "Files that were not just read"
    summary = f"{title} ({len(bad):,})" if len(bad) <= MOST_FILES else f"{title} ({MOST_FILES} of {len(bad):,})"
    return [folded(summary, grid(f"files-{place}", title, columns, lines, ["files"]))]


def _books(result: Result, place: int) -> Html:
    rows = result.rows_of("books")
    if not rows:
        return Html("")
    heads = ("offered", "sent", "dropped", "more waiting", "difference", "rows that do not balance")
    names = ("offered", "sent", "dropped", "waiting_growth", "difference", "rows_off")
    lines = [
        [Cell("all" if row["qos"] == "all" else f"QoS {row['qos']}"), *[grids.number(row[name]) for name in names]]
        for row in rows
    ]
    columns = [Column("", text=True), *map(Column, heads)]
    return grid(f"books-{place}", "The books: offered = sent + dropped + more waiting", columns, lines, ["books"])


def definitions_section() -> Html:
    """Formula, meaning and source of every figure."""
    parts = [join([tag("dt", name), tag("dd", meaning)]) for name, meaning in _DEFINITIONS]
    return section(
        "What the figures mean", folded("Formulas, meaning and sources", tag("dl", *parts)), id_="definitions"
    )


def footer(results: Sequence[Result]) -> Html:
    """Where the numbers behind the page are."""
    names = [name for name in LAYOUTS if name != "comparison" or len(results) > 1]
    links = join(map(csv_link, [*names, "starved_sessions"]), by=", ")
    return tag(
        "footer",
        tag("p", "Tables behind this page, each as CSV and Parquet: ", links, "."),
        tag("p", f"Made from {SCHEMA.name} version {SCHEMA.version}. Times are UTC."),
    )
