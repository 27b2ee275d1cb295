"""What a message between two workers costs, and what many clients of several do: `python tests/bench/cells.py --help`.

Beside one process, by turns in one run, are measured:

- kept sessions with a journal, QoS 1, both ends of each pair at different workers: processor time of all processes;
- one message at a time between clients of different workers: its processor time, and how long it takes;
- a storm: many clients connect, each with a filter of its own: processor time of all processes;
- many filters without wildcards, over four workers: the bytes of one that another worker has.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.bench import machine, program
from tests.bench.candidates import UNLIMITED
from tests.bench.generator import Result, drive
from tests.bench.grids import Grid, rounded
from tests.bench.memory import openable
from tests.bench.run import show_grids
from tests.support.brokers import TCP_ONLY, start_sluice
from tests.support.process import BrokerProcess

CROSSING = ("--publisher-cell", "1", "--subscriber-cell", "2")
PAIRS = ("--mode", "pair", "--publishers", "10", "--version", "5", "--qos", "1")
KEPT = (*PAIRS, "--kept", "3600", "--window", "100")
LONE = ("--mode", "pair", "--publishers", "1", "--version", "5", "--window", "1", "--rate", "200")
MEMORY_CELLS = 4


def start(python: str, folder: Path, workers: int, journal: bool = False) -> BrokerProcess:
    """Start a Sluice with so many workers."""
    folder.mkdir()
    sections: dict[str, object] = dict(UNLIMITED)
    if journal:
        sections["persistence"] = {"directory": str(folder / "journal")}
    return start_sluice(folder, TCP_ONLY, sections, command=(python, "-I", "-m", "broker"), workers=workers, seconds=60)


def across(workers: int) -> Sequence[str]:
    """The generator's options for pairs with their ends at different workers; none for one process."""
    return ("--cells", str(workers), *CROSSING) if workers > 1 else ()


def by_turns(
    python: str, workers: int, arguments: Sequence[str], rounds: int, seconds: float, journal: bool
) -> tuple[list[Result], list[Result]]:
    """Measure one process and several by turns."""
    found: tuple[list[Result], list[Result]] = ([], [])
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as name, ExitStack() as stack:
        brokers = [stack.enter_context(start(python, Path(name) / str(n), n, journal)) for n in (1, workers)]
        for number in range(rounds):
            turns = list(zip(brokers, (1, workers), found, strict=True))
            for broker, count, results in reversed(turns) if number % 2 else turns:
                options = [*arguments, *across(count), "--prefix", f"r{number}", "--seconds", str(seconds)]
                results.append(drive(broker, options))
    return found


def storm(python: str, workers: int, clients: int) -> float:
    """Microseconds of processor time for each of so many clients that connect, and subscribe to a topic each."""
    with (
        tempfile.TemporaryDirectory(prefix="sluice-bench-") as name,
        start(python, Path(name) / "storm", workers) as broker,
    ):
        return float(drive(broker, _topics(clients, clients))["cpu_us_per_connection"])


def filters(python: str, workers: int, count: int) -> int:
    """Bytes by which all processes grow for so many topics, of ten subscribers."""
    with (
        tempfile.TemporaryDirectory(prefix="sluice-bench-") as name,
        start(python, Path(name) / "filters", workers) as broker,
    ):
        drive(broker, [*_topics(10, 1_000), "--prefix", "warm"])
        result = drive(broker, _topics(10, count))
        return int(result["rss_ready_kb"] - result["rss_before_kb"]) * 1024


def _topics(subscribers: int, topics: int) -> list[str]:
    load = ["--mode", "topics", "--publishers", "1", "--rate", "1000", "--setup-limit", "300", "--burst", "256"]
    return [*load, "--subscribers", str(subscribers), "--topics", str(topics), "--seconds", "0.1", "--warmup", "0"]


def main(
    sluice: Annotated[str, typer.Option(help="Python of the environment where Sluice is installed.")] = sys.executable,
    workers: Annotated[int, typer.Option(min=2, help="How many, but for the filters.")] = 2,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each, by turns.")] = 4,
    seconds: Annotated[float, typer.Option(min=0.2, help="How long a load is measured.")] = 2.0,
    clients: Annotated[int, typer.Option(min=100, help="Clients of the storm.", callback=openable)] = 10_000,
    topics: Annotated[int, typer.Option(min=1_000, help="Filters without wildcards.")] = 1_000_000,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there.")] = None,
) -> None:
    """Measure what several workers cost, beside one process."""
    grid = Grid(f"{workers} workers beside one process", ("", "one", "workers", "ratio"))
    figures: dict[str, tuple[float, float]] = {}

    def add(title: str, one: float, several: float) -> None:
        figures[title] = one, several
        grid.add(title, rounded(one), rounded(several), f"{several / one:.2f}")
        print(f"{title}: {one:.4g}, {several:.4g}", file=sys.stderr)

    one, several = by_turns(sluice, workers, KEPT, rounds, seconds, journal=True)
    add("10 kept pairs across, QoS 1, journal: CPU us a delivery", *(_median(each) for each in (one, several)))
    for qos in (0, 1):
        alone, crossing = by_turns(sluice, workers, [*LONE, "--qos", str(qos)], rounds, seconds, journal=False)
        title = f"one message at a time, QoS {qos}"
        add(f"{title}: CPU us", *(_median(each) for each in (alone, crossing)))
        add(f"{title}: p50 us", *(median(result["latency"]["p50_us"] for result in each) for each in (alone, crossing)))
    rows = [[storm(sluice, count, clients) for _ in range(max(1, rounds // 2))] for count in (1, workers)]
    add(f"{clients:,} clients connect, a filter each: CPU us each", *map(median, rows))
    local, all_cells = filters(sluice, 1, topics), filters(sluice, MEMORY_CELLS, topics)
    add(f"{topics:,} filters, {MEMORY_CELLS} workers: bytes each, all processes", local / topics, all_cells / topics)
    remote = (all_cells - local) / (topics * (MEMORY_CELLS - 1))
    print(" · ".join(machine.description().values()))
    show_grids([grid])
    print(f"a filter that another of {MEMORY_CELLS} workers has: {remote:.0f} bytes")
    if json_file:
        found = {"machine": machine.description(), "figures": figures, "remote": remote}
        json_file.write_text(json.dumps(found) + "\n")


def _median(results: list[Result]) -> float:
    return float(median(result["cpu_us_per_delivery"] for result in results))


if __name__ == "__main__":
    program.run(main)
