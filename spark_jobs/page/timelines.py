"""The sections over time: fairness with pressure shaded, deliveries, and latencies."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from spark_jobs import words
from spark_jobs.measures.result import Result, Row
from spark_jobs.page import overtime
from spark_jobs.page.markup import Html, both, figure, legend, nothing, section, small_figure
from spark_jobs.page.overtime import Band, Flow, Index, Latency, Point, TimeAxis
from spark_jobs.page.svg import clock_label, elapsed_label

QOS: Final = ("0", "1", "2")
_MICRO: Final = 1_000_000

_PRESSURE: Final = [("p1 shade", "some session under pressure"), ("p4 shade", "more than half of them")]
_READ_FAIRNESS: Final = (
    "How to read: at 1 every session was sent the same share of what was offered to it; the lower, the more "
    "unequal. Grey: sessions under pressure, the darker the more of them."
)
_READ_LOWEST: Final = " The second line is the share that the worst served session got."
_LATENCIES: Final = {
    "0": "QoS 0, routed to first sent",
    "1": "QoS 1, first sent to acknowledged",
    "2": "QoS 2, first sent to acknowledged",
}
_READ_LATENCY: Final = (
    "How to read: of a hundred deliveries in a window ninety-nine took no longer; each line up is ten times as long. "
    "The value is less than a factor of two away from the exact one. Grey: sessions under pressure."
)
_READ_DELIVERIES: Final = (
    "How to read: upwards what was sent per second, downwards, in red, what was dropped at a scale that is the "
    "same within a panel. Grey: sessions under pressure."
)


def fairness_section(results: Sequence[Result]) -> Html:
    """Jain's index and the worst served session over time."""
    if not any(result.rows_of("timeline") for result in results):
        return section("Fairness over time", nothing("Nothing was recorded."), id_="fairness")
    axis, shifts = _axis(results)
    jain = [_points(_windows(r, "all"), "jain_delivery_ratio", s) for r, s in zip(results, shifts, strict=True)]
    low = [_points(_windows(r, "all"), "lowest_delivery_ratio", s) for r, s in zip(results, shifts, strict=True)]
    floors = [overtime.floor_of([p for points in kind for p in points]) for kind in (jain, low)]
    panels = []
    for place, result in enumerate(results):
        shaded = _bands(result, shifts[place])
        of = f"{words.name(result.label)}: " if len(results) > 1 else ""
        class_ = f"r{place}" if len(results) > 1 else "r1"
        panels.append(Index(f"{of}Jain’s index, delivery ratio", class_, floors[0], jain[place], shaded))
        if len(results) == 1:
            title = "Delivery ratio of the worst served session"
            panels.append(Index(title, "drop", floors[1], low[place], shaded, as_share=True))
    drawn = both(lambda width: overtime.indices(panels, axis, width, "Fairness over time, window by window"))
    how = _READ_FAIRNESS + (_READ_LOWEST if len(results) == 1 else " Both begin at the left, whenever they were.")
    return section(
        "Fairness over time",
        figure("Were all served alike?", how, drawn, data=["timeline"], key=legend(_PRESSURE)),
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
        drawn.append(small_figure(words.name(result.label), plot) if len(results) > 1 else plot)
    return section(
        "Deliveries over time",
        figure("Sent and dropped per second", _READ_DELIVERIES, *drawn, data=["timeline"], key=legend(_PRESSURE)),
        id_="deliveries",
    )


def _deliveries(result: Result, axis: TimeAxis, shift: float, most: dict[str, float]) -> Html:
    flows = []
    for qos in QOS:
        rows = _windows(result, qos)
        if any(row["offered"] or row["sent"] or row["dropped"] for row in rows):
            sent, dropped = (_points(rows, f"{name}_per_second", shift, 0.0) for name in ("sent", "dropped"))
            flows.append(Flow(f"QoS {qos}", f"q{qos}", sent, dropped, most[qos]))
    shaded = _bands(result, shift)
    label = f"{words.name(result.label)}: deliveries sent and dropped per second by QoS over time"
    if not flows:
        return nothing("Nothing was offered.")
    return both(lambda width: overtime.deliveries(flows, shaded, axis, width, label))


def latency_section(results: Sequence[Result]) -> Html:
    """The 99th percentiles over time, a figure for each run, all at one scale."""
    axis, shifts = _axis(results)
    runs = [_latencies(result, shift) for result, shift in zip(results, shifts, strict=True)]
    if not any(runs):
        return section("Latency over time", nothing("Nothing waited and nothing was acknowledged."), id_="latency")
    between = overtime.decades([panel for panels in runs for panel in panels])
    drawn: list[Html] = []
    for result, panels in zip(results, runs, strict=True):
        label = f"{words.name(result.label)}: 99th percentile of latency by QoS over time"
        plot = nothing("Nothing waited and nothing was acknowledged.")
        if panels:
            plot = both(partial(_draw_latencies, panels, between, axis, label))
        drawn.append(small_figure(words.name(result.label), plot) if len(results) > 1 else plot)
    return section(
        "Latency over time",
        figure("99th percentile, window by window", _READ_LATENCY, *drawn, data=["timeline"], key=legend(_PRESSURE)),
        id_="latency",
    )


def _latencies(result: Result, shift: float) -> list[Latency]:
    """A panel for each QoS of which anything is known."""
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
    return overtime.latencies(panels, between, axis, width, label)


def _windows(result: Result, qos: str) -> list[Row]:
    rows = [row for row in result.rows_of("timeline") if row["qos"] == qos]
    return sorted(rows, key=lambda row: row["start_us"])


def _points(rows: Sequence[Row], name: str, shift: float, empty: float | None = None) -> list[Point]:
    """A point for each window; windows that have no row stand as `empty` between the others."""
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
    return overtime.bands(windows)


def _axis(results: Sequence[Result]) -> tuple[TimeAxis, list[float]]:
    """One time axis for all runs, and by what each is shifted: one by the clock, two from their starts on."""
    starts, ends = [], []
    for result in results:
        rows = _windows(result, "all")
        starts.append(rows[0]["start_us"] / _MICRO if rows else 0.0)
        ends.append((rows[-1]["start_us"] + rows[-1]["window_us"]) / _MICRO if rows else 1.0)
    if len(results) == 1:
        return TimeAxis(starts[0], ends[0], clock_label), [0.0]
    longest = max(end - start for start, end in zip(starts, ends, strict=True))
    return TimeAxis(0.0, longest, elapsed_label), starts
