"""The sections over time: fairness with pressure shaded, deliveries, and latencies."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.result import Result, Row
from spark_jobs.page import time_plots
from spark_jobs.page.finding import CLASSES, Finding
from spark_jobs.page.markup import Html, Section, both, figure, legend, small_figure
from spark_jobs.page.svg import clock_label, elapsed_label, round_ticks
from spark_jobs.page.time_plots import Band, Line, Mark, Panel, Point, TimeAxis
from spark_jobs.page.words import WORDS
from spark_jobs.page.zoom import zoomable

QOS: Final = ("0", "1", "2")
_MICRO: Final = 1_000_000
_LONGEST_IN_PLOT: Final = 12  # letters of a label in a title that must fit on a phone
_LATENCIES: Final = {
    "0": "QoS 0, routed to first sent",
    "1": "QoS 1, first sent to acknowledged",
    "2": "QoS 2, first sent to acknowledged",
}
_PRESSURE: Final = legend([("p1 shade", "a session under pressure"), ("p4 shade", "more than half of them")])


def fairness_section(results: Sequence[Result], found: Sequence[Finding]) -> Section:
    """Jain's index and the lowest delivery ratio over time, with the times of findings about the last run."""
    title = "Fairness over time"
    if not any(result.rows_of("timeline") for result in results):
        return Section("fairness", title, "Nothing was recorded.")
    axis, shifts = _axis(results)
    several = len(results) > 1
    panels = []
    for name, head, unit in (
        ("jain_delivery_ratio", "Jain’s index, delivery ratio", "index"),
        ("lowest_delivery_ratio", "Delivery ratio of the worst served client", "share"),
    )[: 1 if several else 2]:
        lines = [_points(_windows(result, "all"), name, shift) for result, shift in zip(results, shifts, strict=True)]
        floor = time_plots.floor_of([point for points in lines for point in points])
        for place, (result, points) in enumerate(zip(results, lines, strict=True)):
            of = f"{formats.name(result.label, _LONGEST_IN_PLOT)}: " if several else ""
            class_ = f"r{place}" if several else "r1" if unit == "index" else "drop"
            line = Line("value", class_, points)
            panels.append(Panel(f"{of}{head}", unit, [line], _bands(result, shifts[place]), floor))
    marks = []
    for each in found:
        if each.start_us is not None and each.end_us is not None:
            times = [(each.start_us, each.end_us), *each.episodes]
            whole, *episodes = [(start / _MICRO - shifts[-1], end / _MICRO - shifts[-1]) for start, end in times]
            marks.append(Mark(each.subject, CLASSES[each.grade], *whole, episodes))
    drawn = both(lambda width: time_plots.plot(panels, axis, width, "Fairness over time, window by window", marks))
    how = WORDS["read"]["fairness"] + (" Both runs start at the left." if several else "")
    told = "Jain’s index and the worst served client, window by window; the bars are the times of the findings."
    zoom = zoomable(panels, axis)
    plot = figure("Were all clients served equally?", how, drawn, zoom, data=["timeline"], key=_PRESSURE)
    return Section("fairness", title, told, (plot,))


def deliveries_section(results: Sequence[Result]) -> Section:
    """Sent and dropped by QoS, a figure for each run, at the same scale."""
    axis, shifts = _axis(results)
    most: dict[str, float] = {}
    for row in (row for result in results for row in result.rows_of("timeline")):
        rate = max(row["sent_per_second"] or 0.0, row["dropped_per_second"] or 0.0)
        most[row["qos"]] = max(rate, most.get(row["qos"], 0.0))
    runs = []
    for result, shift in zip(results, shifts, strict=True):
        panels = []
        for qos in QOS:
            rows = _windows(result, qos)
            if any(row["offered"] or row["sent"] or row["dropped"] for row in rows):
                names = [("sent", f"q{qos}"), *([("dropped", "drop")] if any(row["dropped"] for row in rows) else [])]
                lines = [Line(name, class_, _points(rows, f"{name}_per_second", shift, 0.0)) for name, class_ in names]
                high = round_ticks(most[qos])[-1]
                panels.append(Panel(f"QoS {qos}", "per_second", lines, _bands(result, shift), high=high))
        runs.append(panels)
    question = "Sent and dropped per second"
    return _of_runs(results, runs, axis, "deliveries", "Deliveries over time", question)


def latency_section(results: Sequence[Result]) -> Section:
    """The 99th percentiles over time, a figure for each run, at the same scale."""
    axis, shifts = _axis(results)
    found = [
        {qos: _points(_windows(result, qos), "latency_p99", shift) for qos in _LATENCIES}
        for result, shift in zip(results, shifts, strict=True)
    ]
    low, high = time_plots.decades([point for each in found for points in each.values() for point in points])
    runs = [
        [
            Panel(_LATENCIES[qos], "us", [Line("p99", f"q{qos}", points)], _bands(result, shift), low, high)
            for qos, points in of_qos.items()
            if any(point.value is not None for point in points)
        ]
        for result, shift, of_qos in zip(results, shifts, found, strict=True)
    ]
    return _of_runs(results, runs, axis, "latency", "Latency over time", "99th percentile, window by window")


def _of_runs(
    results: Sequence[Result], runs: Sequence[Sequence[Panel]], axis: TimeAxis, id_: str, title: str, question: str
) -> Section:
    """A section with a plot of each run."""
    if not any(runs):
        return Section(id_, title, "Nothing was recorded.")
    plots: list[Html] = []
    for result, panels in zip(results, runs, strict=True):
        name = formats.name(result.label)
        drawn = both(partial(_drawn, panels, axis, f"{name}: {title.lower()}"))
        plots += [small_figure(name if len(results) > 1 else "", drawn, zoomable(panels, axis))] if panels else []
    plot = figure(question, WORDS["read"][id_], *plots, data=["timeline"], key=_PRESSURE)
    return Section(id_, title, f"{question}, by QoS.", (plot,))


def _drawn(panels: Sequence[Panel], axis: TimeAxis, label: str, width: float) -> str:
    return time_plots.plot(panels, axis, width, label)


def _windows(result: Result, qos: str) -> list[Row]:
    rows = [row for row in result.rows_of("timeline") if row["qos"] == qos]
    return sorted(rows, key=lambda row: row["start_us"])


def _points(rows: Sequence[Row], name: str, shift: float, empty: float | None = None) -> list[Point]:
    """A point for each window; windows without a row have the value `empty`."""
    found: list[Point] = []
    for row in rows:
        length = row["window_us"] / _MICRO
        at = row["start_us"] / _MICRO + length / 2 - shift
        if found and at - found[-1].at > length * 1.5:
            found.append(Point(found[-1].at + length, empty))
            if at - found[-1].at > length * 1.5:
                found.append(Point(at - length, empty))
        found.append(Point(at, empty if row[name] is None else float(row[name])))
    return found


def _bands(result: Result, shift: float) -> list[Band]:
    windows = []
    for row in _windows(result, "all"):
        start = row["start_us"] / _MICRO - shift
        windows.append((start, start + row["window_us"] / _MICRO, float(row["pressed_sessions"] or 0.0)))
    return time_plots.bands(windows)


def _axis(results: Sequence[Result]) -> tuple[TimeAxis, list[float]]:
    """The time axis of all runs, and the shift of each: clock time for one run, time since the start for two."""
    starts, ends = [], []
    for result in results:
        rows = _windows(result, "all")
        starts.append(rows[0]["start_us"] / _MICRO if rows else 0.0)
        ends.append((rows[-1]["start_us"] + rows[-1]["window_us"]) / _MICRO if rows else 1.0)
    if len(results) == 1:
        return TimeAxis(starts[0], ends[0], clock_label, formats.utc_offset(starts[0])), [0.0]
    longest = max(end - start for start, end in zip(starts, ends, strict=True))
    return TimeAxis(0.0, longest, elapsed_label), starts
