"""The closing sections of the page: data quality, and how the figures are defined."""

from collections.abc import Sequence
from typing import Final

from spark_jobs import words
from spark_jobs.markup import Html, join, section, table, tag
from spark_jobs.metrics import SCHEMA
from spark_jobs.run import Run
from spark_jobs.tables import FOLDER

MOST_FILES: Final = 50  # skipped files that the page names; files.csv names all

_DEFINITIONS: Final = (
    (
        "Delivery ratio",
        (
            "sent / offered. A delivery is one message on its way to one session; sent counts its first "
            "transmission. It can pass 100 % in a window in which a backlog from before was sent."
        ),
    ),
    (
        "Jain’s fairness index",
        (
            "J = (x₁ + … + xₙ)² / (n · (x₁² + … + xₙ²)) over the n sessions with something offered in the "
            "window or range: 1 if all x are equal, k/n if k sessions share everything and the others get "
            "nothing. For the delivery ratio x = min(1, sent / offered), for goodput x = deliveries sent, "
            "which within one window or range is the same as per second. Source: R. Jain, D. Chiu, W. Hawe, "
            "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in Shared "
            "Computer Systems, DEC Research Report TR-301, 1984."
        ),
    ),
    (
        "Percentiles",
        (
            "The p-th percentile is the value at rank ⌈p · n⌉ of n (nearest rank). The broker counts in "
            "buckets of powers of two (0, 1, 2–3, 4–7, …), which tell for certain in which bucket that "
            "value lies: the exact percentile is at most the bound in grey, and more than half of it. The "
            "figure before it is interpolated by rank inside the bucket, so it is less than a factor of two "
            "off. The last bucket has no upper bound: there, ≥ is given."
        ),
    ),
    (
        "Pressure",
        (
            "A slot, about as long as the broker’s export interval, is under pressure if in it the send "
            "path of any session was congested, its window full (in deliveries or in bytes), its rate used up, "
            "its mailbox sampled busy (above 10 deliveries), or its QoS 0 gated. That is defined for a broker "
            "without the gate too."
        ),
    ),
    (
        "Books",
        (
            "For every session and interval, QoS by QoS: waiting before + offered = sent + dropped + waiting "
            "after."
        ),
    ),
)


def quality_section(runs: Sequence[Run]) -> Html:
    """What was read, what was left out and why, and whether the books balance."""
    return section(
        "Data quality", *[part for run in runs for part in _quality_of(run, len(runs) > 1)], id_="quality"
    )


def _quality_of(run: Run, titled: bool) -> list[Html]:
    survey = run.survey
    parts = [tag("h3", run.label)] if titled else []
    read = f"{words.counted(len(survey.good), 'file')} with {words.counted(survey.rows, 'row')}"
    facts = [f"Read: {read}, {run.rows:,} of them in the range."]
    if survey.temporary:
        facts.append(f"Still being written, and left alone: {words.counted(survey.temporary, 'file')}.")
    if survey.out_of_range:
        facts.append(f"In folders outside of the range: {words.counted(survey.out_of_range, 'file')}.")
    facts.append(f"Skipped: {words.counted(len(survey.skipped), 'file')}{':' if survey.skipped else '.'}")
    parts.append(tag("p", " ".join(facts)))
    if survey.skipped:
        lines = [
            [
                Html(tag("td", words.name(str(file.path.relative_to(survey.root)), 200), class_="id wrap")),
                file.kind,
                tag("td", words.name(file.reason, 200), class_="words wrap"),
            ]
            for file in survey.skipped[:MOST_FILES]
        ]
        parts.append(table(["file", "kind", "reason"], lines, text_columns=(0, 1, 2)))
        if len(survey.skipped) > MOST_FILES:
            more = len(survey.skipped) - MOST_FILES
            parts.append(tag("p", f"And {more:,} more: {FOLDER}/files.csv names all.", class_="note"))
    parts.append(_books_of(run))
    return parts


def _books_of(run: Run) -> Html:
    rows = {row["qos"]: row for row in run.rows_of("books")}
    whole = rows["all"]
    off = whole["rows_off"]
    verdict = (
        tag("span", "Books balance", class_="good")
        if not off
        else tag("span", "Books do not balance", class_="bad")
    )
    told = (
        f": {off:,} of {whole['rows']:,} rows break waiting before + offered = sent + dropped + waiting "
        "after."
    )
    by_reason = whole["rows_off_by_reason"]
    other = f" In {by_reason:,} rows the drops by reason do not add up to the drops." if by_reason else ""
    heads = ["", "offered", "sent", "dropped", "more waiting", "difference", "rows that do not balance"]
    names = ("offered", "sent", "dropped", "waiting_growth", "difference", "rows_off")
    lines = [
        ["all" if qos == "all" else f"QoS {qos}", *[words.count(rows[qos][name]) for name in names]]
        for qos in ("all", "0", "1", "2")
    ]
    return join([tag("p", verdict, told + other), table(heads, lines)])


def definitions_section() -> Html:
    """Formula, meaning and source of every figure."""
    parts = [join([tag("dt", name), tag("dd", meaning)]) for name, meaning in _DEFINITIONS]
    return section("What the figures mean", tag("dl", *parts), id_="definitions")


def footer(tables: Sequence[str]) -> Html:
    """Where the numbers behind the page are."""
    links = [Html(f'<a href="{FOLDER}/{name}.csv">{name}</a>') for name in tables]
    return tag(
        "footer",
        tag("p", "Tables behind this page, each as CSV and Parquet: ", join(links, by=", "), "."),
        tag("p", f"Made from {SCHEMA.name} version {SCHEMA.version}. Times are UTC."),
    )
