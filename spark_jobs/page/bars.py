"""Bar charts, ranges of percentiles on a logarithmic axis, and bars of change."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs import formats
from spark_jobs.page.markup import Html
from spark_jobs.page.svg import Scale, cut, element, every, line, rect, svg, text

ROW: Final = 26
_CHANGE: Final = 60  # half the maximum width of a bar of change
_MOST_CHANGE: Final = 4.0  # longest bar of change, in powers of two


@dataclass(frozen=True)
class Bar:
    """One bar: its name, its class, its value, and the text at its end."""

    name: str
    class_: str
    value: float
    label: str


@dataclass(frozen=True)
class Range:
    """Percentiles of one distribution in microseconds, in ascending order."""

    name: str
    class_: str
    values: Sequence[float]


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


def ranges(rows: Sequence[Range], width: float, label: str, room: float = 116) -> str:
    """A line for each range with a dot at each percentile, on a logarithmic time axis."""
    values = [max(value, 1.0) for row in rows for value in row.values]
    low = math.floor(math.log10(min(values, default=1.0)))
    high = max(math.ceil(math.log10(max(values, default=10.0)) + 1e-9), low + 1)
    place = Scale(low, high, room, width - 62)
    bottom = len(rows) * ROW + 6.0
    drawn = []
    powers = range(low, high + 1)
    for power in powers[:: every([formats.micros(10.0**power) for power in powers], place(low + 1) - place(low))]:
        drawn.append(line(place(power), 0, place(power), bottom, "grid"))
        drawn.append(text(formats.micros(10.0**power), place(power), bottom + 16, anchor="middle"))
    for number, row in enumerate(rows):
        y = number * ROW + 15.0
        places = [place(math.log10(max(value, 1.0))) for value in row.values]
        dots = "".join(
            element("circle", cx=float(x), cy=y, r=4.5 - 0.8 * i, class_="dot") for i, x in enumerate(places)
        )
        drawn.append(cut(row.name, 0, y + 4, room - 9, "tick ink"))
        drawn.append(f'<g class="{row.class_}">{line(places[0], y, places[-1], y, "span")}{dots}</g>')
        drawn.append(text(formats.micros(row.values[-1]), places[-1] + 9, y + 4, "tick"))
    return svg("".join(drawn), width, bottom + 22, label)


def change(ratio: float | None, class_: str) -> Html:
    """A bar in a table cell: to the right for an increase, to the left for a decrease, by powers of two."""
    middle = float(_CHANGE)
    exponent = 0.0
    if ratio is not None:
        exponent = -_MOST_CHANGE if ratio <= 0 else max(-_MOST_CHANGE, min(_MOST_CHANGE, math.log2(ratio)))
    length = abs(exponent) / _MOST_CHANGE * (_CHANGE - 2)
    start = middle if exponent >= 0 else middle - length
    bar = f'<g class="{class_}">{rect(start, 3, max(length, 1.0), 8, "bar")}</g>'
    drawn = line(0, 7, middle * 2, 7, "grid") + bar + line(middle, 0, middle, 14, "axis")
    return Html(element("svg", drawn, viewBox=f"0 0 {2 * _CHANGE} 14", class_="plot change", aria_hidden="true"))
