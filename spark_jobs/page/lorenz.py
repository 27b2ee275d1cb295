"""The plot of Lorenz curves: the share of the total that the clients with the lowest values have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from spark_jobs import formats
from spark_jobs.page.markup import Html
from spark_jobs.page.svg import Scale, line, path, svg, text

SIDE: Final = 330
LEFT: Final = 46
TOP: Final = 10
FOOT: Final = 42
RIGHT: Final = 20
_TICKS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Curve:
    """One curve: its class, its name, and its points (share of the clients, share of the total)."""

    class_: str
    name: str
    points: Sequence[tuple[float, float]]


def lorenz(curves: Sequence[Curve], of: str, label: str) -> Html:
    """Curves, the diagonal of equality, and the filled area between it and the last curve."""
    across = Scale(0, 1, LEFT, LEFT + SIDE)
    up = Scale(0, 1, TOP + SIDE, TOP)
    drawn = []
    for tick in _TICKS:
        style = "axis" if tick == 0 else "grid"
        drawn.append(line(LEFT, up(tick), LEFT + SIDE, up(tick), style))
        shown = f"{tick * 100:.0f}{formats.NARROW_SPACE}%"
        drawn.append(text(shown, LEFT - 8, up(tick) + 4, anchor="end"))
        drawn.append(text(shown, across(tick), TOP + SIDE + 17, anchor="middle"))
    drawn.append(text(f"share of {of}", LEFT + 8, TOP + 14, "tick"))
    drawn.append(text("all equal", across(0.5) - 10, up(0.5) - 8, "tick", anchor="end"))
    drawn.append(line(across(0), up(0), across(1), up(1), "even"))
    for place, curve in enumerate(curves):
        points = [(across(x), up(y)) for x, y in curve.points]
        filled = path(points, "area", closed=True) if place == len(curves) - 1 else ""
        drawn.append(f'<g class="{curve.class_}">{filled}{path(points, "line")}</g>')
    below = "share of the clients, lowest values first"
    drawn.append(text(below, LEFT + SIDE / 2, TOP + SIDE + 36, anchor="middle"))
    return Html(svg("".join(drawn), LEFT + SIDE + RIGHT, TOP + SIDE + FOOT, label, "plot square"))
