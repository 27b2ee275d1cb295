"""The runner's calculations and tables, on invented results."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.bench import report
from tests.bench.candidates import Sources
from tests.bench.grids import Grid, rounded, short
from tests.bench.loads import BY_NAME, LOADS
from tests.bench.machine import description
from tests.bench.peers import Candidate
from tests.bench.rounds import Cell, Comparison, Timing, in_order
from tests.bench.run import as_markdown, chosen_brokers, chosen_loads
from tests.support.process import BrokerError, BrokerProcess

pytestmark = pytest.mark.once

TIMING = Timing(rounds=3, seconds=1.0, warmup=0.5, version=4)


def never_started(folder: Path, unlimited: bool) -> BrokerProcess:
    """No broker is started here."""
    raise BrokerError("not started")


def result(cpu: float, **more: Any) -> dict[str, Any]:
    """A result as blast prints it."""
    latency = {"p50_us": 1000.0, "p99_us": 2000.0}
    counts = {"lost": 0, "out_of_order": 0, "refused": 0, "skipped": 0, "generator_cpu": 0.5}
    figures = {"cpu_us_per_delivery": cpu, "received_per_s": 1e6 / cpu, "latency": latency, "connect": latency}
    cycles = {"cpu_us_per_cycle": cpu, "cycles_per_s": 1e6 / cpu, "cycle": latency}
    connections = {"kb_per_connection": 4.0, "cpu_us_per_connection": cpu, "setup_s": 1.0}
    return {**counts, **figures, **connections, **cycles, **more}


def comparison(**cpu: list[float]) -> Comparison:
    """One load of pairs, with CPU times in microseconds by broker and round."""
    load = BY_NAME["pairs-q0"]
    candidates = [Candidate(name, name.title(), never_started) for name in cpu]
    cells = {(load.name, name): Cell([result(value) for value in values]) for name, values in cpu.items()}
    return Comparison([load], candidates, cells)


def cell(grid: Grid, row: int, column: str) -> str:
    """The text of one cell."""
    return grid.rows[row][list(grid.columns).index(column)]


def test_median_and_ratio() -> None:
    """The median of the rounds counts, and its ratio to Mosquitto's median."""
    made = comparison(sluice=[0.9, 1.0, 9.0], mosquitto=[4.0, 5.0, 6.0])
    assert made.ratio(BY_NAME["pairs-q0"], "sluice", "mosquitto") == pytest.approx(0.2)
    assert cell(report.grids(made)[0], 0, "sluice") == "1.00 [0.90–9.00] (0.20×)"
    assert made.ratio(BY_NAME["pairs-q0"], "sluice", "prototype") is None


def test_ratio_to_before() -> None:
    """Sluice beside an earlier Sluice has a table of its own, which others do not need."""
    made = comparison(**{"sluice": [0.9, 1.0, 9.0], "sluice-before": [1.9, 2.0, 3.0]})
    grid = next(grid for grid in report.grids(made) if "÷ sluice-before" in grid.columns)
    assert cell(grid, 0, "÷ sluice-before") == "0.50×"
    without = report.grids(comparison(sluice=[1.0], mosquitto=[2.0]))
    assert not any("÷ sluice-before" in grid.columns for grid in without)


def test_order_is_reversed_from_round_to_round() -> None:
    """Of several rounds each broker is first in one half and last in the other: A B, B A, A B, B A."""
    candidates = [Candidate(name, name, never_started) for name in ("a", "b", "c")]
    assert [each.name for number in range(3) for each in in_order(candidates, number)] == [*"abc", *"cba", *"abc"]


@pytest.mark.parametrize(
    ("sluice", "mosquitto", "prototype", "missed"),
    [(0.11, 2.0, 0.055, 0), (0.12, 2.0, 0.9, 1), (0.11, 2.0, 0.05, 1)],
)
def test_targets(sluice: float, mosquitto: float, prototype: float, missed: int) -> None:
    """A limit is exceeded above the ratio of the load, or above twice the prototype."""
    made = comparison(sluice=[sluice], mosquitto=[mosquitto], prototype=[prototype])
    assert report.missed_targets(made) == missed


@pytest.mark.parametrize(("without", "with_rules", "missed"), [(1.0, 1.02, 0), (1.0, 1.04, 1)])
def test_rules_and_users(without: float, with_rules: float, missed: int) -> None:
    """A row with rules and a user for each client is compared with the same without, and may cost 3 % more."""
    made = comparison(sluice=[without], **{"sluice-rules": [with_rules]})
    (grid,) = [grid for grid in report.grids(made) if grid.title == "Rules and users"]
    assert cell(grid, 0, "÷ without") == f"{with_rules:.3f}×"
    assert report.missed_targets(made) == missed


def test_idle_connection_has_a_target_of_its_own() -> None:
    """The limit of idle connections is for memory, not for CPU time."""
    load = BY_NAME["idle"]
    made = Comparison([load], [Candidate("sluice", "Sluice", never_started)])
    made.cells[load.name, "sluice"] = Cell([result(50.0, kb_per_connection=8.5)])
    assert report.missed_targets(made) == 1


def test_rows_are_about_what_they_say() -> None:
    """A row of connections that come and go has the CPU time of one of them, not of a delivery."""
    load = BY_NAME["reconnect"]
    made = Comparison([load], [Candidate("sluice", "Sluice", never_started)])
    made.cells[load.name, "sluice"] = Cell([result(50.0, cpu_us_per_delivery=0.0, received_per_s=0.0)])
    cpu, rates = report.grids(made)[:2]
    assert cell(cpu, 0, "sluice") == "50.0"
    assert cell(rates, 0, "sluice").startswith("20.0 k:")
    assert BY_NAME["subscribe"].unit == BY_NAME["retained"].unit == BY_NAME["pairs-q0"].unit


def test_instructions_have_a_table_where_they_are_counted() -> None:
    """Without perf there is no such table; with it, it has the same rows."""
    made = comparison(sluice=[1.0, 2.0], mosquitto=[5.0])
    assert not [grid for grid in report.grids(made) if "instructions" in grid.title]
    for each in made.cells["pairs-q0", "sluice"].results:
        each.update(counted=1e6, counted_per_delivery=8448.0)
    made.cells["pairs-q0", "mosquitto"] = Cell(failure="did not start")
    (grid,) = (grid for grid in report.grids(made) if "instructions" in grid.title)
    assert cell(grid, 0, "sluice") == "8,448 [8,448–8,448]"
    assert cell(grid, 0, "mosquitto") == report.NOTHING


def test_notes_name_what_is_wrong() -> None:
    """Failures, losses and a busy generator are in the notes."""
    made = comparison(sluice=[1.0], mosquitto=[5.0])
    made.cells["pairs-q0", "sluice"].results[0].update(lost=3, generator_cpu=0.99)
    made.cells["pairs-q0", "mosquitto"] = Cell(failure="did not start")
    said = "\n".join(report.notes(made))
    assert "sluice, 10 pairs, QoS 0, window 200: 3 lost" in said
    assert "the rate may be its own" in said
    assert "did not start" in said
    assert cell(report.grids(made)[0], 0, "mosquitto") == report.NOTHING


def test_json_and_markdown() -> None:
    """Both hold every load and broker, and JSON every round."""
    made = comparison(sluice=[1.0, 2.0], mosquitto=[5.0])
    data = json.loads(json.dumps(report.as_json(made, description(), TIMING)))
    assert [len(entry["rounds"]) for entry in data["results"]] == [2, 1]
    summary = data["results"][0]["summary"]["cpu_us_per_delivery"]
    assert summary == {"median": 1.5, "lowest": 1.0, "highest": 2.0}
    text = as_markdown(made, "where and how")
    assert "| 10 pairs, QoS 0, window 200 | 1.50 [1.00–2.00] (0.30×) | 5.00 |" in text
    assert text.startswith("where and how\n")


def test_choice_of_loads_and_brokers() -> None:
    """Names keep their order, a star means all that begin so, and unknown names are refused with the list."""
    assert [load.name for load in chosen_loads("idle,fanin*")] == ["idle", "fanin-q0", "fanin-q1", "fanin-q2"]
    assert len(chosen_loads("*")) == len(LOADS)
    with pytest.raises(typer.BadParameter, match="pairs-q0"):
        chosen_loads("nothing")
    assert chosen_brokers("nats,sluice", Sources()) == ["nats", "sluice"]
    assert "prototype" not in chosen_brokers(None, Sources())
    assert "prototype" in chosen_brokers(None, Sources(prototype=Path("prototype.py")))
    with pytest.raises(typer.BadParameter, match="mosquitto"):
        chosen_brokers("nothing", Sources())


def test_loads_are_distinct() -> None:
    """Each load has a name of its own and complete arguments."""
    assert len(BY_NAME) == len(LOADS)
    assert all(load.arguments[0] == "--mode" for load in LOADS)


@pytest.mark.parametrize(("value", "text"), [(0.294, "0.29"), (12.34, "12.3"), (1234.5, "1,234"), (0, "0.00")])
def test_rounding(value: float, text: str) -> None:
    """Numbers have only significant digits."""
    assert rounded(value) == text


@pytest.mark.parametrize(("value", "text"), [(3_760_000, "3.76 M"), (148_000, "148 k"), (12, "12.0")])
def test_short(value: float, text: str) -> None:
    """Large numbers have a letter for thousands or millions."""
    assert short(value) == text
