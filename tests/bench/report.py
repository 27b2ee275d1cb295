"""Tables and JSON of a comparison."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from tests.bench.candidates import LIMITS
from tests.bench.grids import Grid, rounded, short
from tests.bench.loads import Load
from tests.bench.machine import cores
from tests.bench.rounds import Cell, Comparison, Timing
from tests.bench.ruled import MOST as MOST_WITH_RULES
from tests.bench.ruled import NAME as RULED

NOTHING = "–"
BUSY = 0.95
"""The share of its core above which the generator, not the broker, may limit the rate."""

MOST_TO_PROTOTYPE = 2.0
"""The highest ratio to the compiled prototype's CPU time that Sluice may have, for every load of messages."""

MOST_KB = 8.0
"""The most memory that an idle connection may cost Sluice, KB."""


def grids(comparison: Comparison) -> list[Grid]:
    """Return all tables that have rows."""
    made = [each(comparison) for each in (_cpu, _before, _counted, _rates, _connections, _targets, _rules)]
    return [grid for grid in made if grid.rows]


def headline(machine: dict[str, str], timing: Timing) -> str:
    """Return in a few sentences what was measured, where and how."""
    places = cores()
    where = (
        f"broker on core {places.broker}, generator on core {places.generator}"
        if places.broker != places.generator
        else "broker and generator on the only core"
    )
    version = "5.0" if timing.version == 5 else "3.1.1"
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory']}, Linux {machine['kernel']}, "
        f"Python {machine['python']}; {where}. MQTT {version} and payloads of 64 bytes unless said, a fresh broker for "
        f"each measurement of {timing.seconds:g} s; medians of {timing.rounds}. {LIMITS}"
    )


def _message_loads(comparison: Comparison) -> list[Load]:
    return [load for load in comparison.loads if not load.counts_connections]


def _names(comparison: Comparison) -> list[str]:
    return [candidate.name for candidate in comparison.candidates]


def _ratio_text(ratio: float | None) -> str:
    if ratio is None:
        return NOTHING
    return f"{ratio:.2f}×" if ratio >= 0.1 else f"{ratio:.3f}×"


def _with_spread(cell: Cell, *path: str) -> str:
    """The median and, of several rounds, from the lowest to the highest."""
    text = rounded(cell.median(*path))
    if len(cell.results) == 1:
        return text
    lowest, highest = cell.spread(*path)
    return f"{text} [{rounded(lowest)}–{rounded(highest)}]"


def _cpu(comparison: Comparison) -> Grid:
    title = "Broker CPU per delivered message, or what else the row says, µs [lowest–highest] (ratio to Mosquitto)"
    grid = Grid(title, ["load", *_names(comparison)])
    for load in _message_loads(comparison):
        row = []
        for name in _names(comparison):
            cell = comparison.cell(load, name)
            text = _with_spread(cell, load.unit.cpu) if cell else NOTHING
            ratio = comparison.ratio(load, name, "mosquitto")
            row.append(f"{text} ({_ratio_text(ratio)})" if ratio is not None and name != "mosquitto" else text)
        grid.add(load.title, *row)
    return grid


def _before(comparison: Comparison) -> Grid:
    grid = Grid("The same, as a multiple of what it took before", ["load", "÷ sluice-before"])
    for load in _message_loads(comparison):
        ratio = comparison.ratio(load, "sluice", "sluice-before")
        if ratio is not None:
            grid.add(load.title, _ratio_text(ratio))
    return grid


def _counted(comparison: Comparison) -> Grid:
    grid = Grid("Broker's instructions in user space, for the same", ["load", *_names(comparison)])
    for load in _message_loads(comparison):
        cells = [comparison.cell(load, name) for name in _names(comparison)]
        if any(cell and "counted" in cell.results[0] for cell in cells):
            grid.add(load.title, *(_with_spread(cell, load.unit.counted) if cell else NOTHING for cell in cells))
    return grid


def _rates(comparison: Comparison) -> Grid:
    grid = Grid("Per second: latency p50 / p99 in ms", ["load", *_names(comparison)])
    for load in _message_loads(comparison):
        row = []
        for name in _names(comparison):
            cell = comparison.cell(load, name)
            if cell is None:
                row.append(NOTHING)
                continue
            p50, p99 = (cell.median(load.unit.latency, key) / 1000 for key in ("p50_us", "p99_us"))
            row.append(f"{short(cell.median(load.unit.rate))}: {rounded(p50)} / {rounded(p99)}")
        grid.add(load.title, *row)
    return grid


def _connections(comparison: Comparison) -> Grid:
    grid = Grid("Connections", ["load", *_names(comparison)])
    figures = (
        ("KB each", ("kb_per_connection",), 1.0),
        ("CPU each, µs", ("cpu_us_per_connection",), 1.0),
        ("all connected after, s", ("setup_s",), 1.0),
        ("CONNECT to CONNACK, p99, ms", ("connect", "p99_us"), 0.001),
    )
    for load in comparison.loads:
        if load.counts_connections:
            for title, path, scale in figures:
                cells = [comparison.cell(load, name) for name in _names(comparison)]
                row = [rounded(cell.median(*path) * scale) if cell else NOTHING for cell in cells]
                grid.add(f"{load.title}: {title}", *row)
    return grid


def _targets(comparison: Comparison) -> Grid:
    """Sluice's figures row by row; those above their limit are highlighted."""
    columns = ["Sluice against its targets", "µs", "÷ Mosquitto", "at most", "÷ prototype", "at most", ""]
    grid = Grid("Targets", columns)
    for load in _message_loads(comparison):
        cell = comparison.cell(load, "sluice")
        if cell is None:
            continue
        ratio = comparison.ratio(load, "sluice", "mosquitto")
        to_prototype = comparison.ratio(load, "sluice", "prototype")
        bad = (ratio is not None and load.most is not None and ratio > load.most) or (
            to_prototype is not None and to_prototype > MOST_TO_PROTOTYPE
        )
        grid.add(
            load.title,
            rounded(cell.median(load.unit.cpu)),
            _ratio_text(ratio),
            _ratio_text(load.most),
            _ratio_text(to_prototype),
            _ratio_text(MOST_TO_PROTOTYPE),
            NOTHING if ratio is None and to_prototype is None else "missed" if bad else "held",
            bad=bad,
        )
    for load in comparison.loads:
        cell = comparison.cell(load, "sluice") if load.counts_connections else None
        if cell:
            kb = cell.median("kb_per_connection")
            bad = kb > MOST_KB
            row = [f"{rounded(kb)} KB", NOTHING, f"{MOST_KB:g} KB", NOTHING, NOTHING, "missed" if bad else "held"]
            grid.add(load.title, *row, bad=bad)
    return grid


def _rules(comparison: Comparison) -> Grid:
    """What many rules and a user for each client cost, as the ratio to Sluice without; limits as above."""
    grid = Grid("Rules and users", ["load", "µs without", "µs with", "÷ without", "at most", ""])
    for load in _message_loads(comparison):
        ratio = comparison.ratio(load, RULED, "sluice")
        cells = [comparison.cell(load, name) for name in ("sluice", RULED)]
        if ratio is not None:
            bad = ratio > MOST_WITH_RULES
            medians = [rounded(cell.median(load.unit.cpu)) for cell in cells if cell]
            held = "missed" if bad else "held"
            grid.add(load.title, *medians, f"{ratio:.3f}×", f"{MOST_WITH_RULES:.2f}×", held, bad=bad)
    return grid


def missed_targets(comparison: Comparison) -> int:
    """Return how many limits Sluice exceeds."""
    return len(_targets(comparison).bad_rows) + len(_rules(comparison).bad_rows)


def notes(comparison: Comparison) -> Iterator[str]:
    """Return what the figures do not show: failures, losses, a generator that was the bottleneck."""
    for load in comparison.loads:
        for name in _names(comparison):
            kept = comparison.cells.get((load.name, name))
            if kept and kept.failure:
                yield f"{name}, {load.title}: {kept.failure}"
            cell = comparison.cell(load, name)
            if cell is None:
                continue
            for count in ("lost", "out_of_order", "refused", "skipped"):
                worst = max(result[count] for result in cell.results)
                if worst:
                    yield f"{name}, {load.title}: {worst:,} {count.replace('_', ' ')}"
            busy = max(result["generator_cpu"] for result in cell.results)
            if busy > BUSY:
                yield f"{name}, {load.title}: the generator used {busy:.0%} of its core: the rate may be its own"


def as_json(comparison: Comparison, machine: dict[str, str], timing: Timing) -> dict[str, Any]:
    """Return everything that was measured."""
    return {
        "headline": headline(machine, timing),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine,
        "timing": vars(timing),
        "limits": LIMITS,
        "brokers": {candidate.name: candidate.version for candidate in comparison.candidates},
        "not_measured": comparison.missing,
        "loads": {
            load.name: {"title": load.title, "arguments": load.arguments, "cpu": load.unit.cpu}
            for load in comparison.loads
        },
        "results": [
            {
                "load": load,
                "broker": name,
                "failure": cell.failure,
                "summary": _summary(cell),
                "rounds": cell.results,
            }
            for (load, name), cell in comparison.cells.items()
        ],
    }


SUMMED_UP = (
    ("cpu_us_per_delivery",),
    ("cpu_us_per_cycle",),
    ("cycles_per_s",),
    ("counted_per_delivery",),
    ("counted_per_cycle",),
    ("cpu_us_per_connection",),
    ("kb_per_connection",),
    ("received_per_s",),
    ("latency", "p50_us"),
    ("latency", "p99_us"),
)
"""What JSON has medians of, by the keys in blast's results."""


def _summary(cell: Cell) -> dict[str, dict[str, float]]:
    """Return the median, the lowest and the highest of the rounds, by figure."""
    made = {}
    for path in SUMMED_UP if cell.results else ():
        if path[0] not in cell.results[0]:
            continue
        lowest, highest = cell.spread(*path)
        made[".".join(path)] = {"median": cell.median(*path), "lowest": lowest, "highest": highest}
    return made
