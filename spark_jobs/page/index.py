"""The index page: a trend of each figure, and a row for each report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import quote

from spark_jobs import formats
from spark_jobs.page.finding import CLASSES, Grade
from spark_jobs.page.grids import LONGEST_NAME, P99, Column, grid, index, share, words
from spark_jobs.page.markup import Html, beside, figure, small_figure, tag
from spark_jobs.page.svg import Scale, element, line, path, svg, text
from spark_jobs.page.templates import fill_page
from spark_jobs.page.words import WORDS

TRENDS: Final = {
    "delivery_ratio": ("Sent of offered", "share"),
    "jain_delivery_ratio": ("Jain’s index of the delivery ratio", "index"),
    "starved_share": ("Sessions starved", "share"),
    "dropped_per_second": ("Deliveries dropped", "per_second"),
    "sent_per_second": ("Deliveries sent", "per_second"),
    "ack_qos1_p99": ("QoS 1 acknowledged, 99th percentile", "us"),
    "ack_qos2_p99": ("QoS 2 acknowledged, 99th percentile", "us"),
    "wait_qos0_p99": ("QoS 0 sent, 99th percentile", "us"),
}
"""Figures of which the index shows the trend: name and unit."""
WIDTH: Final = 300
HEIGHT: Final = 110
_TOP: Final = 22
_FOOT: Final = 20
_COLUMNS: Final = (
    # Not the label, which many reports of a store have in common. The link's text and target come from the folder's
    # name; quoted, so that it stays a path below this page.
    words("report", "folder", lambda at: tag("a", formats.name(at, LONGEST_NAME), href=f"./{quote(at)}/report.html")),
    words("from", "start", formats.moment),
    words("grade", "grade", lambda grade: tag("span", formats.name(grade, 12), class_=f"pill {_class(grade)}")),
    # Before the figures: a window of usual width shows it.
    words("in short", "headline", lambda headline: formats.name(headline, 200), wrap=True),
    share("sent of offered", "delivery_ratio"), index("Jain", "jain_delivery_ratio"), share("starved", "starved_share"),
    *P99, Column("clients"),
    Column("brokers", lambda row: len(row["brokers"])),
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One report: its folder, and what its summary says of its last run; a figure that it lacks is None."""

    folder: str
    start: datetime
    end: datetime
    clients: int
    brokers: tuple[str, ...]
    grade: str
    headline: str
    values: Mapping[str, float | None]


def render_index(entries: Sequence[Entry]) -> str:
    """The index page of reports in the order of time, at least one."""
    first, last = entries[0], entries[-1]
    bad = sum(_class(entry.grade) == "bad" for entry in entries)
    told = f"{bad} of {formats.counted(len(entries), 'report')} found clients that were treated unfairly."
    drawn = [
        small_figure(name, Html(_trend(entries, key, name, unit)))
        for key, (name, unit) in TRENDS.items()
        if sum(entry.values[key] is not None for entry in entries) > 1
    ]
    rows = [{**vars(each), **each.values} for each in reversed(entries)]
    return fill_page(
        "index.html",
        title="Fairness reports",
        kind=f"Sluice fairness reports · {formats.moment(first.start)} to {formats.moment(last.end)} "
        f"{formats.zone_name()}",
        headline=told if bad else "No report found clients that were treated unfairly.",
        trends=figure("Each figure, report by report", WORDS["read"]["trends"], beside(*drawn)) if drawn else "",
        reports=grid("reports", "Reports, the latest first", _COLUMNS, rows),
        zone=formats.zone_name(),
    )


def _class(grade: str) -> str:
    try:
        return CLASSES[Grade[grade.upper()]]
    except KeyError:
        return "plain"


def _trend(entries: Sequence[Entry], key: str, name: str, unit: str) -> str:
    """A line through one figure of all reports, each at the middle of its range; the axis begins at 0."""
    points = [
        ((entry.start.timestamp() + entry.end.timestamp()) / 2, value)
        for entry in entries
        if (value := entry.values[key]) is not None
    ]
    bottom = float(HEIGHT - _FOOT)
    across = Scale(points[0][0], points[-1][0], 4, WIDTH - 4)
    most = max(value for _, value in points) or 1.0
    up = Scale(0, most, bottom, _TOP)
    placed = [(across(at), up(value)) for at, value in points]
    drawn = [line(0, bottom, WIDTH, bottom, "axis"), path(placed, "line")]
    drawn += [element("circle", cx=x, cy=y, r=2.5, class_="dot") for x, y in placed]
    drawn.append(text(formats.measured(most, unit), WIDTH - 2, _TOP - 8, anchor="end"))
    ends = [formats.local(at).strftime("%d %b") for at, _ in (points[0], points[-1])]
    drawn += [text(ends[0], 2, HEIGHT - 4), text(ends[1], WIDTH - 2, HEIGHT - 4, anchor="end")]
    said = " to ".join(formats.measured(value, unit) for _, value in (points[0], points[-1]))
    return svg(f'<g class="r1">{"".join(drawn)}</g>', WIDTH, HEIGHT, f"{name}, by report: {said}")
