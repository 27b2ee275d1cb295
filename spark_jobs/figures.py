"""Plots over time: deliveries by QoS and Jain's index, window by window, with pressure shaded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs import words
from spark_jobs.svg import Scale, line, path, rect, round_ticks, svg, text, time_ticks

LEFT: Final = 46
RIGHT: Final = 10
PANEL: Final = 92
GAP: Final = 30
FOOT: Final = 26
TOP: Final = 20
SMALLEST_BELOW: Final = 14  # room below the axis for drops that would hardly be seen at scale

JAIN_AXES: Final = (0.99, 0.95, 0.9, 0.8, 0.5, 0.0)


@dataclass(frozen=True)
class Point:
    """One window: its middle in seconds, and a value; None where there is none."""

    at: float
    value: float | None


@dataclass(frozen=True)
class TimeAxis:
    """The time that a plot spans, in seconds, how long a window is, and how moments are written."""

    first: float
    last: float
    window: float
    label: Callable[[float, float], str]


@dataclass(frozen=True)
class Flow:
    """A panel of the time line: what was sent, and what was dropped, per second."""

    title: str
    class_: str
    sent: Sequence[Point]
    dropped: Sequence[Point]


@dataclass(frozen=True)
class Index:
    """A panel of the fairness plot: Jain's index of the delivery ratio and of goodput."""

    title: str
    class_: str
    ratio: Sequence[Point]
    goodput: Sequence[Point]
    pressed: Sequence[float]


def _across(axis: TimeAxis, width: float) -> Scale:
    return Scale(axis.first, axis.last, LEFT, width - RIGHT)


def shading(pressed: Sequence[float], axis: TimeAxis, place: Scale, top: float, bottom: float) -> str:
    """Grey bands over the windows under pressure (given by their middles); neighbours become one band."""
    half = axis.window / 2
    bands: list[list[float]] = []
    for middle in sorted(pressed):
        if bands and middle - half <= bands[-1][1] + axis.window * 0.01:
            bands[-1][1] = middle + half
        else:
            bands.append([middle - half, middle + half])
    drawn = []
    for begin, end in bands:
        left, right = place(max(begin, axis.first)), place(min(end, axis.last))
        drawn.append(rect(left, top, max(right - left, 1.0), bottom - top, "pressure"))
    return "".join(drawn)


def _time_axis(axis: TimeAxis, place: Scale, width: float, bottom: float) -> str:
    """Labels below the last panel."""
    drawn = []
    span = axis.last - axis.first
    for moment in time_ticks(axis.first, axis.last, max(2, int((width - LEFT) / 90))):
        x = place(moment)
        anchor = "end" if x > width - RIGHT - 24 else "middle"
        drawn.append(line(x, bottom, x, bottom + 4, "axis"))
        drawn.append(text(axis.label(moment, span), x, bottom + 17, anchor=anchor))
    return "".join(drawn)


def _area(points: Sequence[Point], place: Scale, height: Scale) -> str:
    """A filled line; windows without a value count as 0."""
    if not points:
        return ""
    tops = [(place(point.at), height(point.value or 0.0)) for point in points]
    base = height(0)
    return path([(tops[0][0], base), *tops, (tops[-1][0], base)], "area", closed=True) + path(tops, "line")


def _above_zero(points: Sequence[Point]) -> list[list[Point]]:
    """The stretches of a line above 0, each with the points at 0 that it rises from and falls to."""
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


def timeline(
    flows: Sequence[Flow], pressed: Sequence[float], axis: TimeAxis, width: float, label: str
) -> str:
    """One panel per QoS: sent upwards, dropped downwards, at one scale per panel."""
    place = _across(axis, width)
    drawn: list[str] = []
    top = float(TOP)
    bottom = top
    for flow in flows:
        most_sent = max((point.value or 0.0 for point in flow.sent), default=0.0)
        most_dropped = max((point.value or 0.0 for point in flow.dropped), default=0.0)
        ticks = round_ticks(most_sent)
        zero = top + PANEL
        up = Scale(0, ticks[-1], zero, top)
        below = 0.0
        if most_dropped > 0:
            below = max(zero - up(most_dropped), SMALLEST_BELOW)
            below = min(below, PANEL)
        bottom = zero + below
        down = Scale(0, max(most_dropped, 1e-9), zero, bottom)
        drawn.append(shading(pressed, axis, place, top, bottom))
        for tick in ticks:
            drawn.append(line(LEFT, up(tick), width - RIGHT, up(tick), "axis" if tick == 0 else "grid"))
            drawn.append(text(words.short(tick), LEFT - 7, up(tick) + 4, anchor="end"))
        drawn.append(f'<g class="{flow.class_}">{_area(flow.sent, place, up)}</g>')
        if most_dropped > 0:
            parts = "".join(_area(piece, place, down) for piece in _above_zero(flow.dropped))
            drawn.append(f'<g class="drop">{parts}</g>')
            drawn.append(text(words.short(most_dropped), LEFT - 7, bottom + 4, "tick bad", anchor="end"))
        drawn.append(text(flow.title, LEFT, top - 7, "head"))
        top = bottom + GAP
    drawn.append(_time_axis(axis, place, width, bottom))
    return svg("".join(drawn), width, bottom + FOOT, label)


def _pieces(points: Sequence[Point], place: Scale, height: Scale, class_: str) -> str:
    """A line that breaks where there is no value; a lone value is drawn as a dash."""
    drawn: list[str] = []
    piece: list[tuple[float, float]] = []
    for point in (*points, Point(0.0, None)):
        if point.value is not None:
            piece.append((place(point.at), height(point.value)))
        elif piece:
            if len(piece) == 1:
                piece = [(piece[0][0] - 2, piece[0][1]), (piece[0][0] + 2, piece[0][1])]
            drawn.append(path(piece, class_))
            piece = []
    return "".join(drawn)


def jain_floor(panels: Sequence[Index]) -> float:
    """The highest of a few round values below everything shown, for the foot of the axis."""
    values = [p.value for panel in panels for p in (*panel.ratio, *panel.goodput) if p.value is not None]
    lowest = min(values, default=0.0)
    return next(floor for floor in JAIN_AXES if floor <= lowest)


def fairness(panels: Sequence[Index], axis: TimeAxis, width: float, label: str) -> str:
    """One panel per run: Jain's index of the delivery ratio as a line, of goodput as a thinner one."""
    place = _across(axis, width)
    floor = jain_floor(panels)
    drawn: list[str] = []
    top = float(TOP)
    bottom = top
    for panel in panels:
        bottom = top + PANEL * 1.2
        height = Scale(floor, 1, bottom, top)
        drawn.append(shading(panel.pressed, axis, place, top, bottom))
        for tick in (floor, (floor + 1) / 2, 1.0):
            drawn.append(
                line(LEFT, height(tick), width - RIGHT, height(tick), "axis" if tick == floor else "grid")
            )
            drawn.append(text(f"{tick:.3g}", LEFT - 7, height(tick) + 4, anchor="end"))
        goodput = _pieces(panel.goodput, place, height, "line thin")
        ratio = _pieces(panel.ratio, place, height, "line")
        drawn.append(f'<g class="{panel.class_}">{goodput}{ratio}</g>')
        drawn.append(text(panel.title, LEFT, top - 7, "head"))
        top = bottom + GAP
    drawn.append(_time_axis(axis, place, width, bottom))
    return svg("".join(drawn), width, bottom + FOOT, label)
