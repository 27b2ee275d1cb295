"""Plots over time: deliveries by QoS, fairness indices and latencies by window, with pressure shaded."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs import formats
from spark_jobs.page.svg import Scale, cut, element, line, path, rect, round_ticks, svg, text, time_ticks

LEFT: Final = 62  # for labels with a unit
RIGHT: Final = 12
PANEL: Final = 96
GAP: Final = 34
FOOT: Final = 26
TOP: Final = 22
MARK: Final = 24  # height of a marked time with its label
FLOORS: Final = (0.99, 0.95, 0.9, 0.8, 0.5, 0.0)  # possible lowest values of an index axis
PRESSURE_STEPS: Final = (0.01, 0.1, 0.5)  # from each share of sessions under pressure on, a window is darker


@dataclass(frozen=True)
class Point:
    """One window: its middle in seconds, and a value or None."""

    at: float
    value: float | None


@dataclass(frozen=True)
class Band:
    """Adjacent windows under pressure: start and end in seconds, and darkness from 1."""

    start: float
    end: float
    level: int


@dataclass(frozen=True)
class Mark:
    """The time of a finding: from start to end in seconds, and the episodes between them, each from start to end."""

    name: str
    class_: str
    start: float
    end: float
    episodes: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class TimeAxis:
    """The time range of a plot in seconds, the format of its labels, and the offset of the time that they show."""

    first: float
    last: float
    label: Callable[[float, float], str]
    offset: float = 0.0


@dataclass(frozen=True)
class Line:
    """A line of a panel."""

    name: str
    class_: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Panel:
    """A panel with lines: an `index` or a `share` up to 1, deliveries `per_second`, or a latency in `us`.

    Latencies have a logarithmic scale. `low` and `high` are start and end of the axis: values, of latencies powers of
    ten. Of the last line the worst value is marked.
    """

    title: str
    unit: str
    lines: Sequence[Line]
    bands: Sequence[Band] = ()
    low: float = 0.0
    high: float = 1.0

    def place(self, value: float) -> float:
        """A value on the axis; what is below it is at its start."""
        if self.unit == "us":
            return max(self.low, math.log10(value)) if value > 0 else self.low
        return max(self.low, value)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Places on the axis, and their labels."""
        if self.unit == "us":
            powers = range(int(self.low), int(self.high) + 1, 1 + int(self.high - self.low) // 4)
            return [(power, formats.quantity(10**power, "us")) for power in powers]
        if self.unit == "per_second":
            return [(value, formats.short(value)) for value in round_ticks(self.high)]
        form, factor = (f"{{:g}}{formats.NARROW_SPACE}%", 100) if self.unit == "share" else ("{:.3g}", 1)
        return [(value, form.format(value * factor)) for value in (self.low, (self.low + 1) / 2, 1.0)]


def bands(windows: Sequence[tuple[float, float, float]]) -> list[Band]:
    """Bands from sorted windows (start, end, share of sessions under pressure); equally dark neighbours are merged."""
    found: list[Band] = []
    for start, end, share in windows:
        if share <= 0:
            continue
        level = 1 + sum(share >= step for step in PRESSURE_STEPS)
        last = found[-1] if found else None
        if last is not None and last.level == level and abs(last.end - start) < 1e-6:
            found[-1] = Band(last.start, end, level)
        else:
            found.append(Band(start, end, level))
    return found


def _shading(drawn: Sequence[Band], place: Scale, top: float, bottom: float) -> str:
    edges = [(place(band.start), place(band.end), band.level) for band in drawn]
    return "".join(
        rect(left, top, max(right - left, 1.0), bottom - top, f"pressure p{level}") for left, right, level in edges
    )


def _marked(marks: Sequence[Mark], place: Scale, width: float) -> str:
    """For each a line below its name, with a bar for each episode; one below the other."""
    drawn = []
    for number, mark in enumerate(marks):
        times = [(mark.start, mark.end), *(mark.episodes or [(mark.start, mark.end)])]
        edges = [[place(min(max(at, place.low), place.high)) for at in each] for each in times]
        left, right = edges[0]
        y = float(number * MARK)
        at_end = left > width - 120
        name = text(mark.name, right if at_end else left, y + 12, "tick ink", anchor="end" if at_end else "start")
        bars = "".join(rect(start, y + 16, max(end - start, 2.0), 4, "bar") for start, end in edges[1:])
        drawn.append(f'<g class="found {mark.class_}">{name}{line(left, y + 18, right, y + 18, "line")}{bars}</g>')
    return "".join(drawn)


def _time_axis(axis: TimeAxis, place: Scale, width: float, bottom: float) -> str:
    """Labels below the last panel."""
    drawn = []
    span = axis.last - axis.first
    for moment in time_ticks(axis.first, axis.last, max(2, int((width - LEFT) / 90)), axis.offset):
        x = place(moment)
        anchor = "end" if x > width - RIGHT - 24 else "middle"
        drawn.append(line(x, bottom, x, bottom + 4, "axis"))
        drawn.append(text(axis.label(moment, span), x, bottom + 18, anchor=anchor))
    return "".join(drawn)


def _pieces(panel: Panel, points: Sequence[Point], place: Scale, height: Scale) -> str:
    """A line with gaps for missing values; a single value is drawn as a dash."""
    drawn: list[str] = []
    piece: list[tuple[float, float]] = []
    for point in (*points, Point(0.0, None)):
        if point.value is not None:
            piece.append((place(point.at), height(panel.place(point.value))))
        elif piece:
            if len(piece) == 1:
                piece = [(piece[0][0] - 2, piece[0][1]), (piece[0][0] + 2, piece[0][1])]
            drawn.append(path(piece, "line"))
            piece = []
    return "".join(drawn)


def floor_of(points: Sequence[Point]) -> float:
    """The start of the axis of an index: the highest of FLOORS that is not above any value."""
    lowest = min((point.value for point in points if point.value is not None), default=0.0)
    return next((floor for floor in FLOORS if floor <= lowest), 0.0)


def decades(points: Sequence[Point]) -> tuple[int, int]:
    """The powers of ten around all values; they differ by at least one."""
    values = [point.value for point in points if point.value]
    if not values:
        return 0, 1
    low = math.floor(math.log10(min(values)))
    return low, max(low + 1, math.ceil(math.log10(max(values))))


def _worst_mark(panel: Panel, place: Scale, height: Scale, width: float) -> str:
    """A dot and the value at the highest latency or rate of drops, or at the lowest index, if that is worth it."""
    last, is_high = panel.lines[-1], panel.unit in ("us", "per_second")
    known = [(-point.value if is_high else point.value, point.at) for point in last.points if point.value is not None]
    value, at = min(known, default=(0.0 if is_high else 1.0, 0.0))
    value = abs(value)
    if (not value or (panel.unit == "per_second" and last.class_ != "drop")) if is_high else value > 0.999:
        return ""
    x, y = place(at), height(panel.place(value))
    # Below the line if there is room, else above it.
    below = y - height.stop < PANEL * 0.3 if is_high else height.start - y > PANEL * 0.3
    anchor = "end" if x > width - 60 else "start" if x < LEFT + 30 else "middle"
    dot = element("circle", cx=float(x), cy=float(y), r=3, class_="dot")
    return dot + text(formats.measured(value, panel.unit), x, y + (17 if below else -9), "mark", anchor=anchor)


def plot(panels: Sequence[Panel], axis: TimeAxis, width: float, label: str, marks: Sequence[Mark] = ()) -> str:
    """The panels, one below the other; `marks` are above them."""
    place = Scale(axis.first, axis.last, LEFT, width - RIGHT)
    drawn = [_marked(marks, place, width)]
    top = bottom = float(TOP + MARK * len(marks))
    for panel in panels:
        bottom = top + PANEL
        height = Scale(panel.low, panel.high, bottom, top)
        drawn.append(_shading(panel.bands, place, top, bottom))
        for value, shown in panel.ticks:
            y = height(value)
            drawn.append(line(LEFT, y, width - RIGHT, y, "axis" if value == panel.low else "grid"))
            drawn.append(text(shown, LEFT - 8, y + 4, anchor="end"))
        for each in panel.lines:
            mark = _worst_mark(panel, place, height, width) if each is panel.lines[-1] else ""
            drawn.append(f'<g class="{each.class_}">{_pieces(panel, each.points, place, height)}{mark}</g>')
        drawn.append(cut(panel.title, LEFT, top - 8, width - RIGHT - LEFT, "head"))
        top = bottom + GAP
    drawn.append(_time_axis(axis, place, width, bottom))
    return svg("".join(drawn), width, bottom + FOOT, label)
