"""The effect of a subscriber that stops reading on the broker and on other clients.

Publishers send QoS 0 at a fixed rate to subscribers that read well; first alone, then beside a subscriber of
everything that never reads. Brokers run with their own default limits here: bounds are what is looked at.
"""

import json
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.bench import candidates, machine, program
from tests.bench.generator import LoadError, Result, command, finished
from tests.bench.grids import Grid, rounded
from tests.bench.peers import Candidate
from tests.bench.run import chosen_brokers, show_grids
from tests.support.process import BrokerProcess

PUBLISHERS = 10
SAMPLE = 0.25
"""Seconds between two samples of the broker's memory."""

SETTLE = 5.0
"""Seconds after the load at which the last sample is taken."""

MIB = 2**20

MEMORY = ("broker", "at start", "load alone", "most", "at its end", "after", "stalled ones cut off")
LATENCY = ("p50", "p99", "p99.9", "lost", "CPU µs")


@dataclass
class Outcome:
    """One broker: blast's results without and with the stalled subscriber, and samples of the memory in bytes."""

    version: str
    without: Result
    beside: Result
    rss_before: int
    rss_without: int
    rss_most: int
    rss_end: int
    rss_after: int


@dataclass(frozen=True)
class Scenario:
    """How much load, for how long."""

    rate: int
    seconds: float
    alone: float
    stalled: int


def measure(candidate: Candidate, scenario: Scenario, folder: Path) -> Outcome:
    """Run the scenario on a fresh broker; LoadError if it fails a client that reads."""
    places = machine.cores()
    with machine.pinned(places.broker):
        broker = candidate.start(folder, False)
    try:
        with machine.pinned(places.generator):
            return _measure(candidate, broker, scenario)
    finally:
        broker.stop()


def _measure(candidate: Candidate, broker: BrokerProcess, scenario: Scenario) -> Outcome:
    load = ["--mode", "pair", "--publishers", str(PUBLISHERS), "--rate", str(scenario.rate / PUBLISHERS)]
    before = broker.rss()
    without, alone = _watched(broker, [*load, "--seconds", str(scenario.alone)])
    stalled = ["--stalled", str(scenario.stalled), "--seconds", str(scenario.seconds)]
    beside, memory = _watched(broker, [*load, *stalled])
    threading.Event().wait(SETTLE)
    return Outcome(
        candidate.version, without, beside, before, max(alone), max(memory), memory[-1], broker.rss()
    )


def _watched(broker: BrokerProcess, arguments: list[str]) -> tuple[Result, list[int]]:
    """Run a load, and sample the broker's memory meanwhile."""
    process = subprocess.Popen(command(broker, arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    memory = [broker.rss()]
    while process.poll() is None:
        memory.append(broker.rss())
        threading.Event().wait(SAMPLE)
    return finished(process), memory


def tables(outcomes: dict[str, Outcome]) -> list[Grid]:
    """Return memory, and the latency of the others, side by side."""
    memory = Grid("Memory of the broker, MiB", MEMORY)
    latency = Grid(
        "Latency of the other clients, ms, without and with",
        ["broker", *(name for each in LATENCY for name in (each, f"{each} with"))],
    )
    for outcome in outcomes.values():
        sizes = (outcome.rss_before, outcome.rss_without, outcome.rss_most, outcome.rss_end, outcome.rss_after)
        texts = [rounded(size / MIB) if size else "ended" for size in sizes]
        memory.add(outcome.version, *texts, str(outcome.beside["cut_off"]), bad="ended" in texts)
        both = (outcome.without, outcome.beside)
        row = [rounded(r["latency"][key] / 1000) for key in ("p50_us", "p99_us", "p999_us") for r in both]
        row += [f"{r['lost'] + r['skipped']:,}" for r in both] + [rounded(r["cpu_us_per_delivery"]) for r in both]
        latency.add(outcome.version, *row)
    return [memory, latency]


def main(
    brokers: Annotated[str | None, typer.Option(help="Brokers, separated by commas; all that are found.")] = None,
    rate: Annotated[int, typer.Option(min=10, help="Messages a second in all.")] = 20_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long the subscriber does not read.")] = 60.0,
    alone: Annotated[float, typer.Option(min=0.1, help="How long the load runs without it, before.")] = 20.0,
    stalled: Annotated[int, typer.Option(min=1, help="How many subscribers do not read.")] = 1,
    sluice: Annotated[str | None, typer.Option(help="Python of the environment where Sluice is installed.")] = None,
    amqtt: Annotated[str | None, typer.Option(help="Python of an environment that has amqtt.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every measurement there.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write the tables there.")] = None,
) -> None:
    """Measure the effect of a subscriber that never reads on each broker."""
    sources = candidates.Sources(sluice, amqtt=amqtt)
    scenario = Scenario(rate, seconds, alone, stalled)
    outcomes: dict[str, Outcome] = {}
    err = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as scratch, err.status("") as status:
        found = candidates.find(chosen_brokers(brokers, sources), sources, Path(scratch))
        failures = dict(found.missing)
        for candidate in found.candidates:
            status.update(f"{candidate.version}: {alone:g} s and {seconds:g} s")
            folder = Path(scratch, candidate.name)
            folder.mkdir()
            try:
                outcomes[candidate.name] = measure(candidate, scenario, folder)
            except LoadError as error:
                failures[candidate.name] = str(error)
    for name, reason in failures.items():
        err.print(f"not measured: {name}: {reason}")
    grids = tables(outcomes)
    show_grids(grids)
    if json_file:
        data = {name: asdict(outcome) for name, outcome in outcomes.items()}
        json_file.write_text(json.dumps({"scenario": asdict(scenario), "outcomes": data}, indent=1) + "\n")
    if markdown:
        markdown.write_text("\n".join(grid.markdown() for grid in grids))


if __name__ == "__main__":
    program.run(main)
