"""The values of a plot over time for `zoom.js`, which draws them so that one can zoom in. The plot stays as it is."""

import json
import math
from collections.abc import Sequence
from typing import Final

from spark_jobs.page.markup import Html, tag
from spark_jobs.page.time_plots import Flow, Index, Latency, Point, TimeAxis

Panel = Index | Flow | Latency
_DIGITS: Final = 6


def zoomable(panels: Sequence[Panel], axis: TimeAxis) -> Html:
    """An empty element with the values; only the page's script makes something of it, so there is none in print.

    Times are in seconds: of the page's time zone, or since the start of a run (`elapsed`).
    """
    offset = axis.offset
    charts = [{"title": panel.title, "unit": _unit(panel), "lines": _lines(panel, offset)} for panel in panels]
    values = {"elapsed": axis.first == 0, "from": axis.first + offset, "to": axis.last + offset, "charts": charts}
    return tag("div", class_="zoom", data_values=json.dumps(values, separators=(",", ":"), allow_nan=False))


def _unit(panel: Panel) -> str:
    match panel:
        case Latency():
            return "us"
        case Flow():
            return "per second"
        case Index():
            return "share" if panel.as_share else "index"


def _lines(panel: Panel, offset: float) -> list[dict[str, object]]:
    """Name, class and points of each line."""
    if isinstance(panel, Flow):
        lines = [("sent", panel.class_, panel.sent)]
        if any(point.value for point in panel.dropped):
            lines.append(("dropped", "drop", panel.dropped))
    elif isinstance(panel, Latency):
        lines = [("p99", panel.class_, [Point(point.at, _at_least_1(point.value)) for point in panel.points])]
    else:
        lines = [("value", panel.class_, panel.points)]
    return [
        {
            "name": name,
            "class": class_,
            "at": [round(point.at + offset, 3) for point in points],
            "values": [_rounded(point) for point in points],
        }
        for name, class_, points in lines
    ]


def _at_least_1(value: float | None) -> float | None:
    """For a logarithmic scale."""
    return None if value is None else max(value, 1.0)


def _rounded(point: Point) -> float | None:
    """A value with as many digits as can be seen."""
    if not point.value:
        return point.value  # 0, or none
    return round(point.value, _DIGITS - math.ceil(math.log10(abs(point.value))))
