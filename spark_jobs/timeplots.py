"""The plots over time of one or two runs: from the tables per window to `figures`."""

from collections.abc import Callable, Sequence
from typing import Final

from spark_jobs import figures, words
from spark_jobs.figures import Flow, Index, Point, TimeAxis
from spark_jobs.markup import Html, figure, join, legend
from spark_jobs.run import Row, Run
from spark_jobs.svg import clock_label, elapsed_label

WIDE: Final = 840.0
NARROW: Final = 358.0
_MICRO: Final = 1_000_000


def _windows(run: Run) -> list[int]:
    """The starts of all windows from the first to the last, in seconds, also of those without a row."""
    length = run.window_us // _MICRO
    first = run.first_us // run.window_us * length
    return list(range(first, run.last_us // _MICRO + 1, length))


def _by_window(run: Run, table: str, qos: str) -> dict[int, Row]:
    return {int(row["window_start"].timestamp()): row for row in run.rows_of(table) if row["qos"] == qos}


def _points(run: Run, rows: dict[int, Row], name: str, shift: float, empty: float | None) -> list[Point]:
    half = run.window_us / _MICRO / 2
    found = []
    for start in _windows(run):
        row = rows.get(start)
        value = empty if row is None or row[name] is None else float(row[name])
        found.append(Point(start + half - shift, value))
    return found


def _pressed(run: Run, shift: float) -> list[float]:
    """The middles of the windows with a slot under pressure."""
    half = run.window_us / _MICRO / 2
    rows = _by_window(run, "by_window", "all")
    return [start + half - shift for start, row in rows.items() if row["pressure_seconds"]]


def _axis(runs: Sequence[Run]) -> tuple[TimeAxis, list[float]]:
    """One time axis for all runs, and by what each is shifted: one by the clock, two from their starts on."""
    window = runs[0].window_us / _MICRO
    starts = [float(_windows(run)[0]) for run in runs]
    ends = [_windows(run)[-1] + window for run in runs]
    if len(runs) == 1:
        return TimeAxis(starts[0], ends[0], window, clock_label), [0.0]
    longest = max(end - start for start, end in zip(starts, ends, strict=True))
    return TimeAxis(0.0, longest, window, elapsed_label), starts


def both(draw: Callable[[float], str]) -> Html:
    """The same plot twice, for wide and for narrow screens; the style sheet shows one."""
    return Html(f'<div class="wide">{draw(WIDE)}</div><div class="narrow">{draw(NARROW)}</div>')


def timelines(runs: Sequence[Run]) -> Html:
    """Sent and dropped by QoS over time, a figure for each run."""
    axis, shifts = _axis(runs)
    drawn = []
    for run, shift in zip(runs, shifts, strict=True):
        flows = _flows(run, shift)
        pressed = _pressed(run, shift)
        label = f"{run.label}: deliveries sent and dropped per second by QoS over time"

        def draw(
            width: float, flows: list[Flow] = flows, pressed: list[float] = pressed, label: str = label
        ) -> str:
            return figures.timeline(flows, pressed, axis, width, label)

        drawn.append(figure(both(draw), caption=run.label if len(runs) > 1 else ""))
    entries = [
        ("q0", "sent at QoS 0"),
        ("q1", "QoS 1"),
        ("q2", "QoS 2"),
        ("drop", "dropped"),
        _PRESSURE_ENTRY,
    ]
    return join([legend(entries), *drawn])


_PRESSURE_ENTRY: Final = ("pressure", "some session under pressure")


def _flows(run: Run, shift: float) -> list[Flow]:
    flows = []
    for qos in ("0", "1", "2"):
        rows = _by_window(run, "by_window", qos)
        if not any(row["offered"] or row["sent"] for row in rows.values()):
            continue
        sent = _points(run, rows, "sent_per_second", shift, 0.0)
        dropped = _points(run, rows, "dropped_per_second", shift, 0.0)
        flows.append(Flow(f"QoS {qos}, deliveries per second", f"q{qos}", sent, dropped))
    return flows


def fairness(runs: Sequence[Run]) -> Html:
    """Jain's index over time, a panel for each run."""
    axis, shifts = _axis(runs)
    panels = []
    for i, (run, shift) in enumerate(zip(runs, shifts, strict=True)):
        rows = _by_window(run, "fairness_by_window", "all")
        ratio = _points(run, rows, "jain_delivery_ratio", shift, None)
        goodput = _points(run, rows, "jain_goodput", shift, None)
        class_ = f"r{i}" if len(runs) > 1 else "r1"
        panels.append(Index(run.label, class_, ratio, goodput, _pressed(run, shift)))
    label = "Jain's fairness index over time"
    entries = [("r1", "delivery ratio"), ("r1 thin", "goodput"), _PRESSURE_ENTRY]
    if len(runs) > 1:
        entries = [(f"r{i}", f"delivery ratio, {run.label}") for i, run in enumerate(runs)]
        entries += [("r0 thin", "goodput"), _PRESSURE_ENTRY]
    return join([legend(entries), figure(both(lambda width: figures.fairness(panels, axis, width, label)))])


def jain_axis_words(runs: Sequence[Run]) -> str:
    """Where the axis of the fairness plot starts, in words: it is not always 0."""
    rows = [row for run in runs for row in run.rows_of("fairness_by_window") if row["qos"] == "all"]
    values = [
        row[name] for row in rows for name in ("jain_delivery_ratio", "jain_goodput") if row[name] is not None
    ]
    floor = next(floor for floor in figures.JAIN_AXES if floor <= min(values, default=0.0))
    return "The axis starts at 0." if floor == 0 else f"Mind that the axis starts at {words.short(floor)}."
