"""The sections over time: fairness with pressure shaded, deliveries, and latencies."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from spark_jobs import formats
from spark_jobs.measures.result import Result, Row
from spark_jobs.page import time_plots
from spark_jobs.page.markup import Html, both, figure, legend, nothing, section, small_figure
from spark_jobs.page.svg import clock_label, elapsed_label
from spark_jobs.page.time_plots import Band, Flow, Index, Latency, Point, TimeAxis
from spark_jobs.page.words import WORDS
from spark_jobs.page.zoom import zoomable

QOS: Final = ("0", "1", "2")
_MICRO: Final = 1_000_000
_LONGEST_IN_PLOT: Final = 12  # letters of a label in a title that must fit on a phone

_PRESSURE: Final = [("p1 shade", "a session under pressure"), ("p4 shade", "more than half of them")]
_READ_FAIRNESS: Final = WORDS["read"]["fairness"]
_READ_LOWEST: Final = WORDS["read"]["lowest"]
_LATENCIES: Final = {
    "0": "QoS 0, routed to first sent",
    "1": "QoS 1, first sent to acknowledged",
    "2": "QoS 2, first sent to acknowledged",
}
_READ_LATENCY: Final = WORDS["read"]["latency"]
_READ_DELIVERIES: Final = WORDS["read"]["deliveries"]


def fairness_section(results: Sequence[Result]) -> Html:
    """Jain's index and the lowest delivery ratio over time."""
    if not any(result.rows_of("timeline") for result in results):
        return section("Fairness over time", nothing("Nothing was recorded."), id_="fairness")
    axis, shifts = _axis(results)
    jain = [_points(_windows(r, "all"), "jain_delivery_ratio", s) for r, s in zip(results, shifts, strict=True)]
    low = [_points(_windows(r, "all"), "lowest_delivery_ratio", s) for r, s in zip(results, shifts, strict=True)]
    floors = [time_plots.floor_of([p for points in kind for p in points]) for kind in (jain, low)]
    panels = []
    for place, result in enumerate(results):
        shaded = _bands(result, shifts[place])
        of = f"{formats.name(result.label, _LONGEST_IN_PLOT)}: " if len(results) > 1 else ""
        class_ = f"r{place}" if len(results) > 1 else "r1"
        panels.append(Index(f"{of}Jain’s index, delivery ratio", class_, floors[0], jain[place], shaded))
        if len(results) == 1:
            title = "Delivery ratio of the worst served client"
            panels.append(Index(title, "drop", floors[1], low[place], shaded, as_share=True))
    drawn = both(lambda width: time_plots.indices(panels, axis, width, "Fairness over time, window by window"))
    how = _READ_FAIRNESS + (_READ_LOWEST if len(results) == 1 else " Both runs start at the left.")
    return section(
        "Fairness over time",
        figure(
            "Were all clients served equally?",
            how,
            drawn,
            zoomable(panels, axis),
            data=["timeline"],
            key=legend(_PRESSURE),
        ),
        id_="fairness",
    )


def deliveries_section(results: Sequence[Result]) -> Html:
    """Sent and dropped by QoS, a figure for each run."""
    if not any(result.rows_of("timeline") for result in results):
        return section("Deliveries over time", nothing("Nothing was recorded."), id_="deliveries")
    axis, shifts = _axis(results)
    drawn: list[Html] = []
    most = {
        qos: max((r["sent_per_second"] or 0.0 for x in results for r in _windows(x, qos)), default=0.0) for qos in QOS
    }
    for result, shift in zip(results, shifts, strict=True):
        plot = _deliveries(result, axis, shift, most)
        drawn += [small_figure(formats.name(result.label), *plot)] if len(results) > 1 else plot
    return section(
        "Deliveries over time",
        figure("Sent and dropped per second", _READ_DELIVERIES, *drawn, data=["timeline"], key=legend(_PRESSURE)),
        id_="deliveries",
    )


def _deliveries(result: Result, axis: TimeAxis, shift: float, most: dict[str, float]) -> list[Html]:
    flows = []
    for qos in QOS:
        rows = _windows(result, qos)
        if any(row["offered"] or row["sent"] or row["dropped"] for row in rows):
            sent, dropped = (_points(rows, f"{name}_per_second", shift, 0.0) for name in ("sent", "dropped"))
            flows.append(Flow(f"QoS {qos}", f"q{qos}", sent, dropped, most[qos]))
    shaded = _bands(result, shift)
    label = f"{formats.name(result.label)}: deliveries sent and dropped per second by QoS over time"
    if not flows:
        return [nothing("Nothing was offered.")]
    return [both(lambda width: time_plots.deliveries(flows, shaded, axis, width, label)), zoomable(flows, axis)]


def latency_section(results: Sequence[Result]) -> Html:
    """The 99th percentiles over time, a figure for each run, at the same scale."""
    axis, shifts = _axis(results)
    runs = [_latencies(result, shift) for result, shift in zip(results, shifts, strict=True)]
    if not any(runs):
        return section("Latency over time", nothing("Nothing waited and nothing was acknowledged."), id_="latency")
    between = time_plots.decades([panel for panels in runs for panel in panels])
    drawn: list[Html] = []
    for result, panels in zip(results, runs, strict=True):
        label = f"{formats.name(result.label)}: 99th percentile of latency by QoS over time"
        plot = [nothing("Nothing waited and nothing was acknowledged.")]
        if panels:
            plot = [both(partial(_draw_latencies, panels, between, axis, label)), zoomable(panels, axis)]
        drawn += [small_figure(formats.name(result.label), *plot)] if len(results) > 1 else plot
    return section(
        "Latency over time",
        figure("99th percentile, window by window", _READ_LATENCY, *drawn, data=["timeline"], key=legend(_PRESSURE)),
        id_="latency",
    )


def _latencies(result: Result, shift: float) -> list[Latency]:
    """A panel for each QoS with values."""
    shaded = _bands(result, shift)
    panels = []
    for qos, title in _LATENCIES.items():
        points = _points(_windows(result, qos), "latency_p99", shift)
        if any(point.value is not None for point in points):
            panels.append(Latency(title, f"q{qos}", points, shaded))
    return panels


def _draw_latencies(
    panels: Sequence[Latency], between: tuple[int, int], axis: TimeAxis, label: str, width: float
) -> str:
    return time_plots.latencies(panels, between, axis, width, label)


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
