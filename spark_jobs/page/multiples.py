"""Small multiples: one small plot per session, all over the same hours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs import formats
from spark_jobs.page.svg import Scale, clock_label, line, path, rect, svg, text, time_ticks

WIDTH: Final = 220
HEIGHT: Final = 104
TOP: Final = 12
FOOT: Final = 22


@dataclass(frozen=True)
class Hour:
    """One hour of a session: its start in seconds, deliveries offered and sent, and whether it was starved."""

    at: float
    offered: float
    sent: float
    starved: bool


def session(hours: Sequence[Hour], first: float, last: float, label: str) -> str:
    """Offered as a grey step line, sent as a filled one, hours with starvation marked below."""
    bottom = float(HEIGHT - FOOT)
    across = Scale(first, last, 2, WIDTH - 2)
    most = max((max(hour.offered, hour.sent) for hour in hours), default=0.0) or 1.0
    up = Scale(0, most, bottom, TOP)
    drawn = []
    for name, class_ in (("offered", "asked"), ("sent", "got")):
        for piece in _runs(hours):
            points = [(across(piece[0].at), bottom)]
            for hour in piece:
                y = up(getattr(hour, name))
                points += [(across(hour.at), y), (across(hour.at + 3600), y)]
            points.append((across(piece[-1].at + 3600), bottom))
            drawn.append(f'<g class="{class_}">{path(points, "area", closed=True)}{path(points[1:-1], "line")}</g>')
    for hour in hours:
        if hour.starved:
            left = across(hour.at)
            drawn.append(f'<g class="drop">{rect(left, bottom + 1, across(hour.at + 3600) - left, 4, "bar")}</g>')
    drawn.append(line(2, bottom, WIDTH - 2, bottom, "axis"))
    drawn.append(text(formats.short(most), WIDTH - 2, TOP - 2, anchor="end"))
    span = last - first
    for moment in time_ticks(first, last, 3, formats.utc_offset(first)):
        x = across(moment)
        anchor = "start" if x < 16 else "end" if x > WIDTH - 18 else "middle"
        drawn.append(text(clock_label(moment, span), x, HEIGHT - 3, anchor=anchor))
    return svg("".join(drawn), WIDTH, HEIGHT, label)


def _runs(hours: Sequence[Hour]) -> list[list[Hour]]:
    """Runs of consecutive hours."""
    found: list[list[Hour]] = []
    for hour in hours:
        if found and abs(found[-1][-1].at + 3600 - hour.at) < 1:
            found[-1].append(hour)
        else:
            found.append([hour])
    return found
