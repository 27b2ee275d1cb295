"""The values of a plot over time for `zoom.js`, which draws them so that one can zoom in. The plot stays as it is."""

import json
import math
from collections.abc import Sequence
from typing import Final

from spark_jobs.page.markup import Html, tag
from spark_jobs.page.time_plots import Line, Panel, TimeAxis

_DIGITS: Final = 6


def zoomable(panels: Sequence[Panel], axis: TimeAxis) -> Html:
    """An empty element with the values; only the page's script makes something of it, so there is none in print.

    Times are in seconds: of the page's time zone, or since the start of a run (`elapsed`).
    """
    charts = [
        {"title": panel.title, "unit": panel.unit, "lines": [_line(each, panel.unit, axis) for each in panel.lines]}
        for panel in panels
    ]
    first, last = axis.first + axis.offset, axis.last + axis.offset
    values = {"elapsed": axis.first == 0, "from": first, "to": last, "charts": charts}
    return tag("div", class_="zoom", data_values=json.dumps(values, separators=(",", ":"), allow_nan=False))


def _line(line: Line, unit: str, axis: TimeAxis) -> dict[str, object]:
    least = 1.0 if unit == "us" else 0.0  # for a logarithmic scale
    at = [round(point.at + axis.offset, 3) for point in line.points]
    values = [None if point.value is None else _rounded(max(point.value, least)) for point in line.points]
    return {"name": line.name, "class": line.class_, "at": at, "values": values}


def _rounded(value: float) -> float:
    """A value with as many digits as can be seen."""
    return round(value, _DIGITS - math.ceil(math.log10(abs(value)))) if value else value
