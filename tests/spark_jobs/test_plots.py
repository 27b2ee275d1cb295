"""The plots: what is drawn, and where."""

import xml.etree.ElementTree as ET

import pytest

from spark_jobs import distributions, figures, svg
from spark_jobs.distributions import Bar, Series
from spark_jobs.figures import Flow, Index, Point, TimeAxis
from tests.support_spark.metrics_files import histogram

pytestmark = pytest.mark.once

AXIS = TimeAxis(0, 100, 10, svg.elapsed_label)
XML = "{http://www.w3.org/2000/svg}"


def drawn(plot: str, class_: str) -> list[ET.Element]:
    """The elements of a class, of a plot that is well-formed."""
    return [e for e in ET.fromstring(plot).iter() if class_ in e.get("class", "").split()]


def texts(plot: str) -> list[str]:
    """All that is written on a plot."""
    return [e.text.replace("\u202f", " ") for e in ET.fromstring(plot).iter(f"{XML}text") if e.text]


def points(values: list[float | None]) -> list[Point]:
    """Windows of ten seconds."""
    return [Point(5 + 10 * i, value) for i, value in enumerate(values)]


@pytest.mark.parametrize(
    ("high", "ticks"),
    [(0, [0, 1]), (1, [0, 0.5, 1]), (9, [0, 5, 10]), (4900, [0, 2000, 4000, 6000]), (0.4, [0, 0.2, 0.4])],
)
def test_ticks_are_round_and_reach_the_top(high: float, ticks: list[float]) -> None:
    """The last tick is at or above the highest value."""
    assert svg.round_ticks(high) == pytest.approx(ticks)


def test_time_ticks_are_round_moments() -> None:
    """No more than asked for, at multiples of a round step, also over months."""
    assert svg.time_ticks(7, 100, 4) == [30, 60, 90]
    months = svg.time_ticks(0, 300 * 86_400, 5)
    assert 1 <= len(months) <= 6
    assert all(moment % 86_400 == 0 for moment in months)


def test_axis_labels_suit_the_span() -> None:
    """Seconds only where they matter, days where hours do not."""
    noon = 1_795_262_400
    assert svg.clock_label(noon, 100) == "12:00:00"
    assert svg.clock_label(noon, 7200) == "12:00"
    assert svg.clock_label(noon, 9 * 86_400) == "21 Nov"


def test_attributes_and_text_are_escaped() -> None:
    """Names from outside cannot leave the element they are written in."""
    plot = svg.svg(svg.text("<b>&", 0, 0), 1, 1, '"><script>')
    assert texts(plot) == ["<b>&"]
    assert "<script" not in plot


def test_the_time_line_has_a_panel_for_each_flow() -> None:
    """What was sent goes up; a drop goes down and is labelled with its height; no drop, no red."""
    calm = Flow("QoS 1", "q1", points([1, 2, 3]), points([0, 0, 0]))
    rough = Flow("QoS 0", "q0", points([10, 20, None]), points([0, 5, 0]))
    plot = figures.timeline([rough, calm], [15, 25, 75], AXIS, 840, "label")
    assert len(drawn(plot, "q0")) == len(drawn(plot, "q1")) == 1
    assert len(drawn(plot, "drop")) == 1
    assert {"QoS 0", "QoS 1", "20", "5"} <= set(texts(plot))


def test_pressure_is_shaded_in_bands() -> None:
    """Windows beside each other make one band."""
    flow = Flow("QoS 0", "q0", points([1, 1]), points([0, 0]))
    bands = drawn(figures.timeline([flow], [15, 25, 75], AXIS, 840, ""), "pressure")
    scale = svg.Scale(0, 100, figures.LEFT, 840 - figures.RIGHT)
    found = [(float(b.get("x", 0)), float(b.get("width", 0))) for b in bands]
    assert found[0] == pytest.approx((scale(10), scale(30) - scale(10)), abs=0.01)
    assert found[1] == pytest.approx((scale(70), scale(80) - scale(70)), abs=0.01)


def test_drops_are_drawn_in_stretches() -> None:
    """Where nothing is dropped no red line lies on the axis."""
    flow = Flow("QoS 0", "q0", points([9] * 7), points([0, 4, 0, 0, 0, 3, 3]))
    [group] = drawn(figures.timeline([flow], [], AXIS, 840, ""), "drop")
    assert len([e for e in group if e.get("class") == "area"]) == 2


def test_the_fairness_line_breaks_where_there_is_no_index() -> None:
    """Windows without sessions leave a gap, and a lone window is still seen."""
    panel = Index("run", "r0", points([1, None, 0.9, 0.92]), points([None] * 4), [])
    plot = figures.fairness([panel], AXIS, 840, "")
    assert len(drawn(plot, "line")) == 2
    assert "0.9" in texts(plot)
    assert figures.jain_floor([panel]) == 0.9


def test_an_empty_fairness_plot_starts_at_0() -> None:
    """Without any index there is still an axis."""
    panel = Index("run", "r0", [], [], [])
    assert figures.jain_floor([panel]) == 0.0
    assert texts(figures.fairness([panel], AXIS, 358, ""))


def test_shares_of_a_histogram() -> None:
    """A histogram's highest step is its largest share, and the scale is in per cent."""
    series = [Series("a", "r0", histogram([0, 1, 2, 3])), Series("b", "r1", histogram([5]))]
    plot = distributions.shares("title", series, "us", "axis", "label")
    assert {"title", "axis", "100 %"} <= set(texts(plot))
    assert len(drawn(plot, "r0")) == len(drawn(plot, "r1")) == 1


def test_an_empty_histogram_is_drawn_as_nothing() -> None:
    """No division by nothing."""
    empty = [Series("a", "r0", histogram([]))]
    for plot in (distributions.shares("t", empty, "us", "", ""), distributions.tails("t", empty, "", "", "")):
        assert drawn(plot, "r0")


def test_at_or_above_is_exact() -> None:
    """The share of values in a bucket or a higher one."""
    found = distributions.at_or_above(histogram([0, 1, 2, 3, 100]))
    assert found[:4] == pytest.approx([1, 0.8, 0.6, 0.2])
    assert found[7] == pytest.approx(0.2)
    assert found[8] == 0


def test_tails_reach_as_many_decades_as_there_are() -> None:
    """One value of a thousand makes three steps of ten; there are never more than five."""
    rare = [Series("a", "r0", histogram([1] * 999 + [1000]))]
    assert {"100 %", "10 %", "1 %", "0.1 %"} <= set(texts(distributions.tails("t", rare, "", "", "")))
    counts = histogram([1])
    counts[20] = 1
    counts[2] = 10**9
    rarest = texts(distributions.tails("t", [Series("a", "r0", counts)], "us", "", ""))
    assert "0.001 %" in rarest
    assert "0.0001 %" not in rarest


def test_bars_are_at_one_scale() -> None:
    """A bar of half the value is half as long; nothing is still seen."""
    groups = [("one", [Bar("r0", 10, "10/s")]), ("two", [Bar("r0", 5, "5/s"), Bar("r1", 0, "0/s")])]
    plot = distributions.bars(groups, 400, "label")
    widths = [float(e.get("width", 0)) for e in drawn(plot, "bar")]
    assert widths[0] == 2 * widths[1]
    assert widths[2] == 1
    assert texts(plot) == ["one", "10/s", "two", "5/s", "0/s"]
