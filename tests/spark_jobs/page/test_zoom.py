"""What the page has for zooming: the values that its plots show, and the dashboard's library."""

import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.page import zoom
from spark_jobs.page.svg import clock_label, elapsed_label
from spark_jobs.page.time_plots import Line, Panel, Point, TimeAxis
from spark_jobs.page.zoom import zoomable

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[3]
CLOCK = TimeAxis(1000.0, 1200.0, clock_label, 3600.0)


def values(markup: str) -> Any:
    """The values of an element."""
    return json.loads(unescape(markup.partition('data-values="')[2].partition('"')[0]))


def test_values_are_those_of_the_plot() -> None:
    """Each panel has its lines, in the time that the page shows; gaps stay, and a latency of 0 fits its scale."""
    points = [Point(1000.0, 0.25), Point(1060.0, None), Point(1120.0, 0.0)]
    panels = [
        Panel("<b>", "share", [Line("value", "r1", points)]),
        Panel("QoS 1", "per_second", [Line("sent", "q1", points)]),
        Panel("QoS 2", "per_second", [Line("sent", "q2", points), Line("dropped", "drop", [Point(1000.0, 3.0)])]),
        Panel("p99", "us", [Line("p99", "q0", [Point(1000.0, 1234567.89), *points[1:]])]),
    ]
    made = values(zoomable(panels, CLOCK))
    assert (made["from"], made["to"], made["elapsed"]) == (4600.0, 4800.0, False)
    assert [chart["title"] for chart in made["charts"]] == ["<b>", "QoS 1", "QoS 2", "p99"]
    assert [chart["unit"] for chart in made["charts"]] == ["share", "per_second", "per_second", "us"]
    lines = [[line["name"] for line in chart["lines"]] for chart in made["charts"]]
    assert lines == [["value"], ["sent"], ["sent", "dropped"], ["p99"]]
    [first] = made["charts"][0]["lines"]
    assert (first["at"], first["values"]) == ([4600.0, 4660.0, 4720.0], [0.25, None, 0.0])
    assert made["charts"][3]["lines"][0]["values"] == [1234570.0, None, 1.0]


def test_runs_that_are_compared_count_from_their_start() -> None:
    """Their time is not that of a clock."""
    panels = [Panel("x", "index", [Line("value", "r0", [Point(0.0, 1.0)])])]
    assert values(zoomable(panels, TimeAxis(0.0, 60.0, elapsed_label)))["elapsed"]


def test_the_library_is_the_dashboards() -> None:
    """Both have the same version."""
    for name in ("uplot.js", "uplot.css", "uplot-license.txt"):
        ours, theirs = Path(zoom.__file__).parent / name, ROOT / "broker/admin/dashboard/page" / name
        assert ours.read_bytes() == theirs.read_bytes()
