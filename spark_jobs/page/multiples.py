"""Small multiples: one small plot per session, all over the same hours."""

from collections.abc import Sequence
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.result import Row
from spark_jobs.page.markup import Html
from spark_jobs.page.svg import Scale, clock_label, line, path, rect, svg, text, time_ticks

WIDTH: Final = 220
HEIGHT: Final = 104
TOP: Final = 12
FOOT: Final = 22
_MICRO: Final = 1_000_000


def extent(rows: Sequence[Row]) -> tuple[float, float]:
    """Start and end of these hours, in seconds."""
    hours = [row["hour_us"] / _MICRO for row in rows]
    return min(hours, default=0.0), max(hours, default=0.0) + 3600


def session(rows: Sequence[Row], first: float, last: float, label: str) -> Html:
    """Offered as a grey step line, sent as a filled one, hours with starvation marked below. A row is an hour."""
    hours = sorted(rows, key=lambda row: row["hour_us"])
    bottom = float(HEIGHT - FOOT)
    across = Scale(first, last, 2, WIDTH - 2)
    most = max((max(row["offered"], row["sent"]) for row in hours), default=0.0) or 1.0
    up = Scale(0, most, bottom, TOP)

    def ends(row: Row) -> tuple[float, float]:
        return across(row["hour_us"] / _MICRO), across(row["hour_us"] / _MICRO + 3600)

    drawn = []
    for name, class_ in (("offered", "asked"), ("sent", "got")):
        for piece in _runs(hours):
            tops = [(x, up(row[name])) for row in piece for x in ends(row)]
            area = [(tops[0][0], bottom), *tops, (tops[-1][0], bottom)]
            drawn.append(f'<g class="{class_}">{path(area, "area", closed=True)}{path(tops, "line")}</g>')
    for row in hours:
        if row["starved_rows"]:
            left, right = ends(row)
            drawn.append(f'<g class="drop">{rect(left, bottom + 1, right - left, 4, "bar")}</g>')
    drawn.append(line(2, bottom, WIDTH - 2, bottom, "axis"))
    drawn.append(text(formats.short(most), WIDTH - 2, TOP - 2, anchor="end"))
    for moment in time_ticks(first, last, 3, formats.utc_offset(first)):
        x = across(moment)
        anchor = "start" if x < 16 else "end" if x > WIDTH - 18 else "middle"
        drawn.append(text(clock_label(moment, last - first), x, HEIGHT - 3, anchor=anchor))
    return Html(svg("".join(drawn), WIDTH, HEIGHT, label))


def _runs(hours: Sequence[Row]) -> list[list[Row]]:
    """Runs of consecutive hours."""
    found: list[list[Row]] = []
    for row in hours:
        if found and row["hour_us"] - found[-1][-1]["hour_us"] == 3600 * _MICRO:
            found[-1].append(row)
        else:
            found.append([row])
    return found
