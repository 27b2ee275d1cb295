"""Bar charts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs.page.svg import Scale, cut, line, rect, svg, text

ROW: Final = 26


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
