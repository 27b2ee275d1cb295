"""Plots over time: deliveries by QoS, fairness indices and latencies by window, with pressure shaded."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs import formats
from spark_jobs.page.svg import Scale, cut, element, line, path, round_ticks, svg, text, time_ticks

LEFT: Final = 48
WIDE_LEFT: Final = 62  # for labels with a unit
RIGHT: Final = 12
PANEL: Final = 96
GAP: Final = 34
FOOT: Final = 26
TOP: Final = 22
BESIDE_TITLE: Final = 132  # for "dropped, downwards"
SMALLEST_BELOW: Final = 14  # minimum height of drops below the axis
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
class TimeAxis:
    """The time range of a plot in seconds, the format of its labels, and the offset of the time that they show."""

    first: float
    last: float
    label: Callable[[float, float], str]
    offset: float = 0.0


@dataclass(frozen=True)
class Flow:
    """A panel with deliveries sent and dropped per second."""

    title: str
    class_: str
    sent: Sequence[Point]
    dropped: Sequence[Point]
    most: float = 0.0  # minimum end of the axis, so that two runs have the same axis


@dataclass(frozen=True)
class Index:
    """A panel with an index between 0 and 1; `floor` is the start of its axis."""

    title: str
    class_: str
    floor: float
    points: Sequence[Point]
    bands: Sequence[Band]
    as_share: bool = False

    def text_of(self, value: float) -> str:
        """A value as the panel shows it."""
        return formats.percent(value) if self.as_share else formats.index(value)

    def tick(self, value: float) -> str:
        """A value as the axis shows it."""
        return f"{value * 100:g}{formats.NARROW_SPACE}%" if self.as_share else f"{value:.3g}"


@dataclass(frozen=True)
class Latency:
    """A panel with a latency in microseconds, on a logarithmic scale."""

    title: str
    class_: str
    points: Sequence[Point]
    bands: Sequence[Band]


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
    parts = []
    for band in drawn:
        left, right = place(band.start), place(band.end)
        parts.append(
            element(
                "rect",
                x=float(left),
                y=float(top),
                width=max(float(right - left), 1.0),
                height=float(bottom - top),
                class_=f"pressure p{band.level}",
            )
        )
    return "".join(parts)


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


def _area(points: Sequence[Point], place: Scale, height: Scale) -> str:
    """A filled line; windows without a value count as 0."""
    if not points:
        return ""
    tops = [(place(point.at), height(point.value or 0.0)) for point in points]
    base = height(0)
    return path([(tops[0][0], base), *tops, (tops[-1][0], base)], "area", closed=True) + path(tops, "line")


def _above_zero(points: Sequence[Point]) -> list[list[Point]]:
    """The parts of a line above 0, each with its adjacent points at 0."""
    pieces: list[list[Point]] = []
    piece: list[Point] = []
    for i, point in enumerate(points):
        if point.value:
            if not piece and i:
                piece.append(points[i - 1])
            piece.append(point)
        elif piece:
            pieces.append([*piece, point])
            piece = []
    return [*pieces, piece] if piece else pieces


def deliveries(flows: Sequence[Flow], shaded: Sequence[Band], axis: TimeAxis, width: float, label: str) -> str:
    """One panel per QoS, with one scale each: sent upwards, dropped downwards."""
    place = Scale(axis.first, axis.last, LEFT, width - RIGHT)
    drawn: list[str] = []
    top = bottom = float(TOP)
    for flow in flows:
        most_sent = max((point.value or 0.0 for point in flow.sent), default=0.0)
        most_sent = max(most_sent, flow.most)
        most_dropped = max((point.value or 0.0 for point in flow.dropped), default=0.0)
        ticks = round_ticks(most_sent)
        zero = top + PANEL
        up = Scale(0, ticks[-1], zero, top)
        below = 0.0
        if most_dropped > 0:
            below = min(max(zero - up(most_dropped), SMALLEST_BELOW), PANEL)
        bottom = zero + below
        down = Scale(0, max(most_dropped, 1e-9), zero, bottom)
        drawn.append(_shading(shaded, place, top, bottom))
        for tick in ticks:
            drawn.append(line(LEFT, up(tick), width - RIGHT, up(tick), "axis" if tick == 0 else "grid"))
            drawn.append(text(formats.short(tick), LEFT - 8, up(tick) + 4, anchor="end"))
        drawn.append(f'<g class="{flow.class_}">{_area(flow.sent, place, up)}</g>')
        if most_dropped > 0:
            parts = "".join(_area(piece, place, down) for piece in _above_zero(flow.dropped))
            drawn.append(f'<g class="drop">{parts}</g>')
            drawn.append(text(formats.short(most_dropped), LEFT - 8, bottom + 4, "tick bad", anchor="end"))
            # Beside the title: beyond the axis there is no place that a curve never takes.
            drawn.append(text("dropped, downwards", width - RIGHT, top - 8, "tick bad", anchor="end"))
        beside = BESIDE_TITLE if most_dropped > 0 else 0
        drawn.append(cut(flow.title, LEFT, top - 8, width - RIGHT - LEFT - beside, "head"))
        top = bottom + GAP
    drawn.append(_time_axis(axis, place, width, bottom))
    return svg("".join(drawn), width, bottom + FOOT, label)


def _pieces(points: Sequence[Point], place: Scale, height: Scale) -> str:
    """A line with gaps for missing values; a single value is drawn as a dash."""
    drawn: list[str] = []
    piece: list[tuple[float, float]] = []
    for point in (*points, Point(0.0, None)):
        if point.value is not None:
            piece.append((place(point.at), height(max(point.value, height.low))))
        elif piece:
            if len(piece) == 1:
                piece = [(piece[0][0] - 2, piece[0][1]), (piece[0][0] + 2, piece[0][1])]
            drawn.append(path(piece, "line"))
            piece = []
    return "".join(drawn)


def floor_of(points: Sequence[Point]) -> float:
    """The start of the axis: the highest of FLOORS that is not above any value."""
    lowest = min((point.value for point in points if point.value is not None), default=0.0)
    return next((floor for floor in FLOORS if floor <= lowest), 0.0)


def _lowest_mark(panel: Index, place: Scale, height: Scale, width: float) -> str:
    """A dot and the value at the lowest point."""
    found = [(point.value, point.at) for point in panel.points if point.value is not None]
    if not found:
        return ""
    value, at = min(found)
    if value > 0.999:
        return ""
    x, y = place(at), height(max(value, height.low))
    # Below the line if there is room, else above it.
    near = 17 if height.start - y > PANEL * 0.3 else -9
    anchor = "end" if x > width - 40 else "start" if x < LEFT + 20 else "middle"
    dot = element("circle", cx=float(x), cy=float(y), r=3, class_="dot")
    return dot + text(panel.text_of(value), x, y + near, "mark", anchor=anchor)


def indices(panels: Sequence[Index], axis: TimeAxis, width: float, label: str) -> str:
    """A panel for each index, one below the other, with the lowest value marked."""
    place = Scale(axis.first, axis.last, LEFT, width - RIGHT)
    drawn: list[str] = []
    top = bottom = float(TOP)
    for panel in panels:
        bottom = top + PANEL
        height = Scale(panel.floor, 1, bottom, top)
        drawn.append(_shading(panel.bands, place, top, bottom))
        for tick in (panel.floor, (panel.floor + 1) / 2, 1.0):
            style = "axis" if tick == panel.floor else "grid"
            drawn.append(line(LEFT, height(tick), width - RIGHT, height(tick), style))
            drawn.append(text(panel.tick(tick), LEFT - 8, height(tick) + 4, anchor="end"))
        mark = _lowest_mark(panel, place, height, width)
        drawn.append(f'<g class="{panel.class_}">{_pieces(panel.points, place, height)}{mark}</g>')
        drawn.append(cut(panel.title, LEFT, top - 8, width - RIGHT - LEFT, "head"))
        top = bottom + GAP
    drawn.append(_time_axis(axis, place, width, bottom))
    return svg("".join(drawn), width, bottom + FOOT, label)


def decades(panels: Sequence[Latency]) -> tuple[int, int]:
    """The powers of ten around all values; they differ by at least one."""
    values = [point.value for panel in panels for point in panel.points if point.value]
    if not values:
        return 0, 1
    low = math.floor(math.log10(min(values)))
    return low, max(low + 1, math.ceil(math.log10(max(values))))


def latencies(panels: Sequence[Latency], between: tuple[int, int], axis: TimeAxis, width: float, label: str) -> str:
    """A panel for each latency, one below the other, with the highest value marked.

    Args:
        panels: the panels.
        between: start and end of the axes in powers of ten, see `decades`; 0 is drawn at the start.
        axis: the time axis.
        width: of the plot.
        label: for screen readers.
    """
    place = Scale(axis.first, axis.last, WIDE_LEFT, width - RIGHT)
    low, high = between
    drawn: list[str] = []
    top = bottom = float(TOP)
    for panel in panels:
        bottom = top + PANEL
        height = Scale(low, high, bottom, top)
        drawn.append(_shading(panel.bands, place, top, bottom))
        for power in range(low, high + 1, 1 + (high - low) // 4):
            y = height(power)
            drawn.append(line(WIDE_LEFT, y, width - RIGHT, y, "axis" if power == low else "grid"))
            drawn.append(text(formats.quantity(10**power, "us"), WIDE_LEFT - 8, y + 4, anchor="end"))
        points = [Point(point.at, _power(point.value, low)) for point in panel.points]
        mark = _highest_mark(panel.points, place, height, width)
        drawn.append(f'<g class="{panel.class_}">{_pieces(points, place, height)}{mark}</g>')
        drawn.append(cut(panel.title, WIDE_LEFT, top - 8, width - RIGHT - WIDE_LEFT, "head"))
        top = bottom + GAP
    drawn.append(_time_axis(axis, place, width, bottom))
    return svg("".join(drawn), width, bottom + FOOT, label)


def _power(value: float | None, low: int) -> float | None:
    if value is None:
        return None
    return max(float(low), math.log10(value)) if value > 0 else float(low)


def _highest_mark(points: Sequence[Point], place: Scale, height: Scale, width: float) -> str:
    """A dot and the value at the highest point."""
    found = [(point.value, -point.at) for point in points if point.value]
    if not found:
        return ""
    value, at = max(found)
    x, y = place(-at), height(math.log10(value))
    near = 17 if y - height.stop < PANEL * 0.3 else -9
    anchor = "end" if x > width - 60 else "start" if x < WIDE_LEFT + 30 else "middle"
    dot = element("circle", cx=float(x), cy=float(y), r=3, class_="dot")
    return dot + text(formats.quantity(value, "us"), x, y + near, "mark", anchor=anchor)
