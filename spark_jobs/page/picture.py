"""The picture of a comparison for a README: one self-contained SVG file, light or dark."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.result import Result
from spark_jobs.page import distributions
from spark_jobs.page.queues import series_of
from spark_jobs.page.svg import Scale, cut, element, line, rect, svg, text
from spark_jobs.page.verdict import headline

WIDTH: Final = 880
_PLOT: Final = distributions.WIDTH
_LEFT: Final = 24
_RIGHT: Final = 456
_BELOW: Final = 250
ROW: Final = 26  # height of a bar

_STYLE: Final = """
text { font: 11.5px Inter, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", system-ui, sans-serif; fill: #5a616b }
.head { font-size: 12.5px; font-weight: 600; fill: #1a1c1f } .ink { fill: #1a1c1f }
.title { font-size: 17px; font-weight: 640; fill: #1a1c1f }
.paper { fill: #fffefc } .grid { stroke: #ebe9e3 } .axis { stroke: #878d96 }
.line { fill: none; stroke: var(--c); stroke-width: 1.8; stroke-linejoin: round }
.area { fill: var(--c); opacity: .16 }
.bar { fill: var(--c) }
.r0 { --c: #9a5b14 } .r1 { --c: #2458bd }
@media (prefers-color-scheme: dark) {
  text { fill: #a0a7b1 } .head, .title, .ink { fill: #e8e9eb }
  .paper { fill: #14161a } .grid { stroke: #272b31 } .axis { stroke: #8b929c }
  .r0 { --c: #e2a558 } .r1 { --c: #7ba9f7 }
}
"""
_TAILS: Final = (
    ("mailbox", "all", "Mailbox length: share of samples at or above", "", "deliveries in the mailbox"),
    ("ack", "1", "QoS 1 acknowledged: share at or above", "us", "from first sent to acknowledged"),
    ("ack", "2", "QoS 2 acknowledged: share at or above", "us", "from first sent to acknowledged"),
)


@dataclass(frozen=True)
class Bar:
    """One bar: its name, its class, its value, and the text at its end."""

    name: str
    class_: str
    value: float
    label: str


def bars(rows: Sequence[Bar], width: float, label: str, room: float = 96) -> str:
    """Horizontal bars at one scale; `room` is the width of the names on the left."""
    longest = max((bar.value for bar in rows), default=0.0) or 1.0
    place = Scale(0, longest, room, width - 90)
    drawn = [line(room, 0, room, len(rows) * ROW, "axis")]
    for number, bar in enumerate(rows):
        y = number * ROW + 4.0
        length = max(place(bar.value) - room, 1.0 if bar.value else 0.0)
        drawn.append(cut(bar.name, 0, y + 13, room - 9, "tick ink"))
        drawn.append(f'<g class="{bar.class_}">{rect(room, y, length, ROW - 8, "bar")}</g>')
        drawn.append(text(bar.label, room + length + 7, y + 13, "tick"))
    return svg("".join(drawn), width, max(len(rows) * ROW, 1), label)


def compared(results: Sequence[Result]) -> str:
    """Mailbox length, acknowledgement latency, and QoS 0 with and without pressure, of two runs."""
    heading, top = _heading(results)
    places = ((_LEFT, top), (_RIGHT, top), (_LEFT, top + _BELOW), (_RIGHT, top + _BELOW))
    parts = [heading]
    for (metric, qos, title, unit, axis), place in zip(_TAILS, places, strict=False):
        series = [series_of(result, metric, qos, "all", result.label, f"r{i}") for i, result in enumerate(results)]
        if any(one.total for one in series):
            parts.append(placed(distributions.tails(title, series, unit, axis, title), *place))
    y = places[-1][1]
    for pressed, title in (
        (True, "QoS 0 sent, while a session is under pressure"),
        (False, "QoS 0 sent, otherwise"),
    ):
        rows = []
        for i, result in enumerate(results):
            rate = _qos0_rate(result, pressed=pressed)
            rows.append(Bar(formats.name(result.label, 20), f"r{i}", rate or 0.0, formats.rate(rate)))
        parts.append(cut(title, _RIGHT, y + 12, _PLOT, "head"))
        room = 14 + 6.6 * max(len(row.name) for row in rows)
        parts.append(placed(bars(rows, _PLOT, title, room=room), _RIGHT, y + 22))
        y += 104
    height = top + _BELOW + distributions.HEIGHT + 16
    return picture("".join(parts), height, headline(results))


def picture(content: str, height: float, label: str) -> str:
    """The file with this content, WIDTH wide; `label` is for screen readers."""
    return element(
        "svg",
        element("style", _STYLE) + rect(0, 0, WIDTH, height, "paper") + content,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height:g}",
        width=WIDTH,
        height=float(height),
        role="img",
        aria_label=label,
    )


def _qos0_rate(result: Result, *, pressed: bool) -> float | None:
    """QoS 0 sent per second, over the windows with or without pressure."""
    rows = [
        row
        for row in result.rows_of("timeline")
        if row["qos"] == "0" and row["offered"] and bool(row["pressed_sessions"]) == pressed
    ]
    time_us = sum(row["window_us"] for row in rows)
    return sum(row["sent"] for row in rows) / time_us * 1e6 if time_us else None


def _heading(results: Sequence[Result]) -> tuple[str, float]:
    """The headline with the legend, and the vertical start of the plots."""
    lines = wrap(headline(results), 76)
    drawn = [text(line, _LEFT, 34 + 22 * i, "title") for i, line in enumerate(lines)]
    y = 38.0 + 22 * len(lines)
    for i, (result, x) in enumerate(zip(results, (_LEFT, _RIGHT), strict=True)):
        drawn.append(f'<g class="r{i}">{rect(x, y - 9, 14, 9, "bar")}</g>')
        drawn.append(cut(formats.name(result.label), x + 20, y, _PLOT - 20, "head"))
    return "".join(drawn), y + 28


def placed(plot: str, x: float, y: float) -> str:
    """The elements of a plot, moved to a position in another picture."""
    content = plot[plot.index("</title>") + len("</title>") : plot.rindex("</svg>")]
    return element("g", content, transform=f"translate({x:g} {y:g})")
