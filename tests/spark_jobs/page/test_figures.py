"""The plots: elements and positions."""

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.page import distributions, lorenz, svg, time_plots
from spark_jobs.page.distributions import Series
from spark_jobs.page.multiples import session
from spark_jobs.page.picture import Bar, bars, compared
from spark_jobs.page.time_plots import Band, Line, Mark, Panel, Point, TimeAxis
from tests.support.spark.sample_result import sample_comparison

pytestmark = pytest.mark.once

AXIS = TimeAxis(0, 100, svg.elapsed_label)


def drawn(plot: str, class_: str) -> list[ET.Element]:
    """The elements of a class in a well-formed plot."""
    return [e for e in ET.fromstring(plot).iter() if class_ in e.get("class", "").split()]


def texts(plot: str) -> list[str]:
    """All texts of a plot."""
    return [e.text.replace("\u202f", " ") for e in ET.fromstring(plot).iter("text") if e.text]


def points(values: list[float | None]) -> list[Point]:
    """Windows of ten seconds."""
    return [Point(5 + 10 * i, value) for i, value in enumerate(values)]


def corners(path: ET.Element) -> list[tuple[float, float]]:
    """The points of a path."""
    return [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+),(-?[\d.]+)", path.get("d", ""))]


def histogram(counts: dict[int, int]) -> list[int]:
    """Counts by bucket."""
    return [counts.get(bucket, 0) for bucket in range(256)]


@pytest.mark.parametrize(
    ("high", "ticks"),
    [(0, [0, 1]), (1, [0, 0.5, 1]), (9, [0, 5, 10]), (4900, [0, 2000, 4000, 6000]), (0.4, [0, 0.2, 0.4])],
)
def test_ticks_are_round_and_reach_the_top(high: float, ticks: list[float]) -> None:
    """The last tick is at or above the highest value."""
    assert svg.round_ticks(high) == pytest.approx(ticks)


def test_time_ticks_are_round_moments() -> None:
    """At most the requested number, at multiples of a round step, also over months."""
    assert svg.time_ticks(7, 100, 4) == [30, 60, 90]
    months = svg.time_ticks(0, 300 * 86_400, 5)
    assert 1 <= len(months) <= 6
    assert all(moment % 86_400 == 0 for moment in months)


def test_axis_labels_suit_the_span() -> None:
    """The precision depends on the span."""
    noon = 1_795_262_400
    assert svg.clock_label(noon, 100) == "12:00:00"
    assert svg.clock_label(noon, 7200) == "12:00"
    assert svg.clock_label(noon, 9 * 86_400) == "21 Nov"


def test_attributes_titles_and_text_are_escaped() -> None:
    """Text is escaped."""
    plot = svg.svg(svg.text("<b>&", 0, 0), 1, 1, '"></title><script>')
    assert texts(plot) == ["<b>&"]
    assert "<script" not in plot


def test_deliveries_have_a_panel_for_each_qos() -> None:
    """Sent and dropped are lines of one scale; the highest rate of drops is marked, of what was sent none."""
    sent = Panel("QoS 1", "per_second", [Line("sent", "q1", points([1, 2, 3]))], high=3)
    lines = [Line("sent", "q0", points([10, 20, None])), Line("dropped", "drop", points([0, 5, 0]))]
    plot = time_plots.plot([Panel("QoS 0", "per_second", lines, high=20), sent], AXIS, 840, "label")
    assert [len(drawn(plot, class_)) for class_ in ("q0", "q1", "drop")] == [1, 1, 1]
    assert {"QoS 0", "QoS 1", "20", "5/s"} <= set(texts(plot))
    assert len(drawn(plot, "dot")) == 1


@given(st.lists(st.lists(st.sampled_from([0, 0, 1, 10**12]), min_size=256, max_size=256), min_size=1, max_size=2))
def test_any_distribution_can_be_drawn(runs: list[list[int]]) -> None:
    """Without values, of zeros only, of one value, of the last bucket."""
    series = [Series(f"run {place}", f"r{place}", counts) for place, counts in enumerate(runs)]
    drawn(distributions.tails("t", series, "us", "axis", ""), "line")


@given(st.lists(st.one_of(st.none(), st.just(0.0), st.floats(1e-9, 1e15)), max_size=5))
def test_any_series_can_be_drawn(values: list[float | None]) -> None:
    """Over time: unknown, 0, very small and very large values, and a single one."""
    low, high = time_plots.decades(points(values))
    latency = Panel("QoS 1", "us", [Line("", "q1", points(values))], (), low, high)
    drawn(time_plots.plot([latency], AXIS, 390, ""), "line")
    rates = [Panel("QoS 0", "per_second", [Line("", "drop", points(values))], high=1e15)]
    drawn(time_plots.plot(rates, AXIS, 390, ""), "line")
    shares = points([None if value is None else min(1.0, value) for value in values])
    floor = time_plots.floor_of(shares)
    drawn(time_plots.plot([Panel("run", "index", [Line("", "r0", shares)], (), floor)], AXIS, 390, ""), "line")


def test_latencies_have_a_scale_of_powers_of_ten() -> None:
    """The axis covers the decades of all values; the highest value is marked, gaps stay."""
    values = points([2_000, None, 70_000, 0])
    assert time_plots.decades(values) == (3, 5)
    plot = time_plots.plot([Panel("QoS 1", "us", [Line("", "q1", values)], (), 3, 5)], AXIS, 840, "label")
    assert {"QoS 1", "1 ms", "10 ms", "100 ms", "70 ms"} <= {text.replace("\u202f", " ") for text in texts(plot)}
    [group] = drawn(plot, "q1")
    assert len([e for e in group if e.get("class") == "line"]) == 2
    [dot] = drawn(plot, "dot")
    assert float(dot.get("cy", 0)) == min(float(e.get("cy", 0)) for e in drawn(plot, "dot"))
    assert time_plots.decades(points([1_000, 1_000])) == (3, 4)


def test_pressure_is_shaded_the_darker_the_more_of_it() -> None:
    """Equally dark neighbouring windows make one band; windows without pressure make none."""
    found = time_plots.bands([(0, 10, 0.6), (10, 20, 0.9), (20, 30, 0.2), (30, 40, 0.0), (40, 50, 0.001)])
    assert found == [Band(0, 20, 4), Band(20, 30, 3), Band(40, 50, 1)]
    panel = Panel("run", "index", [Line("", "r0", points([1, 1]))], found)
    shaded = drawn(time_plots.plot([panel], AXIS, 840, ""), "pressure")
    scale = svg.Scale(0, 100, time_plots.LEFT, 840 - time_plots.RIGHT)
    assert float(shaded[0].get("x", 0)) == pytest.approx(scale(0), abs=0.01)
    assert float(shaded[0].get("width", 0)) == pytest.approx(scale(20) - scale(0), abs=0.01)


def test_an_index_line_breaks_where_there_is_no_index() -> None:
    """Windows without sessions leave a gap, a single window is visible, and the lowest value is marked."""
    panel = Panel("run", "index", [Line("", "r0", points([1, None, 0.9, 0.92]))], (), 0.9)
    plot = time_plots.plot([panel], AXIS, 840, "")
    assert len(drawn(plot, "line")) == 2
    assert texts(plot).count("0.900") == 1
    shares = Panel("run", "share", [Line("", "r0", points([1, 0.25]))])
    assert {"25.0 %", "50 %", "100 %"} <= set(texts(time_plots.plot([shares], AXIS, 840, "")))


def test_times_are_marked_where_they_are() -> None:
    """Each episode, below the finding's name; what is outside of the axis is at its edge, and a moment can be seen."""
    marks = [Mark("long", "bad", -50, 60, [(-50, 20), (50, 60)]), Mark("short", "watch", 99, 99, [])]
    plot = time_plots.plot([Panel("run", "index", [Line("", "r0", points([1, 1]))])], AXIS, 840, "", marks)
    place = svg.Scale(0, 100, time_plots.LEFT, 840 - time_plots.RIGHT)
    placed = [(float(each.get("x", 0)), float(each.get("width", 0))) for each in drawn(plot, "bar")]
    assert placed[0] == pytest.approx((place(0), place(20) - place(0)), abs=0.01)
    assert placed[1] == pytest.approx((place(50), place(60) - place(50)), abs=0.01)
    assert placed[2] == pytest.approx((place(99), 2), abs=0.01)
    assert {"long", "short"} <= set(texts(plot))


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=12))
def test_the_axis_of_an_index_begins_below_all_of_it(values: list[float | None]) -> None:
    """No value is below the start of the axis."""
    floor = time_plots.floor_of(points(values))
    assert all(value >= floor for value in values if value is not None)


def test_the_lorenz_curve_lies_where_its_points_are() -> None:
    """From 0 to 1, below the diagonal; only the last curve is filled."""
    curve = [(i / 10, (i / 10) ** 2) for i in range(11)]
    plot = lorenz.lorenz([lorenz.Curve("a", "r0", curve), lorenz.Curve("b", "r1", curve)], "all", "")
    assert len(drawn(plot, "line")) == 2
    assert len(drawn(plot, "area")) == 1
    places = corners(drawn(plot, "line")[0])
    assert places[-1][0] - places[0][0] == pytest.approx(places[0][1] - places[-1][1])
    assert all(before[1] >= after[1] for before, after in pairwise(places))


def test_placedare_as_long_as_their_values() -> None:
    """Twice the value is twice the length; 0 has no bar; each bar has its label."""
    plot = bars([Bar("a", "r0", 4, "four"), Bar("b", "r1", 2, "two"), Bar("c", "r1", 0, "none")], 500, "")
    lengths = [float(bar.get("width", 0)) for bar in drawn(plot, "bar")]
    assert lengths[0] == pytest.approx(2 * lengths[1])
    assert lengths[2] == 0
    assert texts(plot) == ["a", "four", "b", "two", "c", "none"]


def test_small_multiples_show_gaps_and_starved_hours() -> None:
    """Hours without a row leave a gap in both shapes, starved hours get a red mark."""
    values = ((0, 10, 0), (1, 0, 1), (4, 5, 0))
    rows = [
        {"hour_us": hour * 3_600_000_000, "offered": 10, "sent": sent, "starved_rows": starved}
        for hour, sent, starved in values
    ]
    plot = session(rows, 0, 5 * 3600, "a session")
    assert len(drawn(plot, "asked")) == len(drawn(plot, "got")) == 2
    assert len(drawn(plot, "drop")) == 1
    assert ET.fromstring(plot).findtext("title") == "a session"


def test_rare_long_ones_show_in_the_tail() -> None:
    """One in ten thousand is visible: the axis covers its power of ten."""
    plot = distributions.tails("t", [Series("a", "r0", histogram({3: 9999, 20: 1}))], "us", "axis", "")
    assert "0.01 %" in texts(plot)


def test_the_picture_stands_alone() -> None:
    """One well-formed SVG file with both runs' names, its own style and both colour schemes."""
    picture = compared(sample_comparison())
    root = ET.fromstring(picture)
    written = [e.text or "" for e in root.iter() if e.tag.endswith("text")]
    assert {"gate off", "gate on", "QoS 0 sent, otherwise"} <= set(written)
    assert "prefers-color-scheme: dark" in picture
    assert "starved clients fell" in root.get("aria-label", "")
