"""A publisher at full speed into a `block` address whose consumer takes 1,000 messages a second (FC-24, FC-25).

A pair of other clients, at a fixed rate on another topic, runs by turns alone and beside it. Asserts that

- nothing is lost and nothing comes twice or out of order: QoS 1, all that was published has been taken in the end;
- the broker's memory grows by no more than the address limit, which counts overhead too (FC-24a), the producer window
  and 1 KiB for each message that fits in that one, and 16 MiB for the connections, their buffers and the allocator;
- the pair does not notice: its p99 is at most one and a half times what it is alone, or a millisecond more.

For comparison the same load runs without the address too: there the whole burst is in the broker's memory.
"""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.bench import machine, program
from tests.bench.flow_clients import Consumer, Loop, Producer
from tests.bench.generator import Result, command, finished
from tests.bench.grids import Grid, rounded
from tests.bench.run import show_grids
from tests.support.brokers import TCP_ONLY, start_sluice
from tests.support.process import BrokerProcess

KIB = 1024
MIB = 1024 * KIB
TOPIC = "full/address"
SAMPLE = 0.1
"""Seconds between two samples of the broker's memory."""
PATIENCE = 60.0
"""Seconds within which the remaining messages have to be acknowledged."""
PER_MESSAGE = KIB
ALLOWANCE = 16 * MIB
FACTOR = 1.5
MORE_US = 1000.0


@dataclass(frozen=True)
class Scenario:
    """Sizes are bytes, rates messages a second."""

    limit: int
    producer_window: int
    size: int
    taken: float
    pair_rate: float
    seconds: float
    rounds: int

    def sections(self, limited: bool) -> dict[str, Any]:
        """The broker's configuration. The mqueue has more room than the address, so that it drops nothing."""
        session = {
            "max_mqueue_len": "infinity",
            "receive_maximum": 65535,
            "producer_window_size": self.producer_window,
        }
        addresses = [{"match": "full/#", "max_size_bytes": self.limit, "block_timeout": "infinity"}]
        return {"session": session, "addresses": addresses if limited else []}

    @property
    def bound(self) -> int:
        """The most bytes by which the broker may grow."""
        parked = self.producer_window
        return self.limit + parked + parked // self.size * PER_MESSAGE + ALLOWANCE


@dataclass
class Outcome:
    """The results of one broker."""

    alone: list[Result] = field(default_factory=list)
    beside: list[Result] = field(default_factory=list)
    published: int = 0
    taken: int = 0
    in_order: bool = False
    rss_before: int = 0
    rss_most: int = 0

    @property
    def grown(self) -> int:
        """Bytes."""
        return self.rss_most - self.rss_before


def p99(results: list[Result]) -> float:
    """The median over the rounds, in microseconds."""
    return float(statistics.median(result["latency"]["p99_us"] for result in results))


def measure(python: str, scenario: Scenario, limited: bool) -> Outcome:
    """Run the scenario on a fresh broker."""
    places = machine.cores()
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        sections = scenario.sections(limited)
        with machine.pinned(places.broker):
            broker = start_sluice(Path(folder), TCP_ONLY, sections, command=(python, "-I", "-m", "broker"))
        with broker, machine.pinned(places.generator):
            return _measure(broker, scenario, hurry=not limited)


def _measure(broker: BrokerProcess, scenario: Scenario, *, hurry: bool) -> Outcome:
    outcome = Outcome()
    consumer = Consumer(broker.address(), TOPIC, scenario.taken)
    producer = Producer(broker.address(), TOPIC, scenario.size, 65_535, lambda _: producer.going)
    producer.going = False
    loop = Loop([producer, consumer])

    def serve(until: Callable[[], bool], seconds: float) -> None:
        """Serve both clients, and sample the memory meanwhile."""
        left = seconds
        while left > 0 and not until():
            loop.run(SAMPLE, until)
            left -= SAMPLE
            outcome.rss_most = max(outcome.rss_most, broker.rss())

    _pair(broker, scenario, serve)  # warm-up
    outcome.rss_before = outcome.rss_most = broker.rss()
    for _ in range(scenario.rounds):
        outcome.alone.append(_pair(broker, scenario, serve))
        producer.going = True
        serve(lambda: False, 1.0)  # until the address is full
        outcome.beside.append(_pair(broker, scenario, serve))
        producer.going = False
        if hurry:
            consumer.per_second = 0.0  # it would take minutes
        # What the sockets hold arrives when there is room again; then the state is as before.
        serve(lambda: not producer.stuck and len(consumer.numbers) == producer.sent, PATIENCE)
    serve(lambda: producer.acknowledged == producer.sent, PATIENCE)
    outcome.published = producer.sent
    outcome.taken = len(consumer.numbers)
    outcome.in_order = consumer.numbers == list(range(producer.sent))
    loop.close()
    return outcome


def _pair(broker: BrokerProcess, scenario: Scenario, serve: Callable[[Callable[[], bool], float], None]) -> Result:
    """Run the pair while the other two continue."""
    options = ["--mode", "pair", "--publishers", "1", "--qos", "1", "--rate", str(scenario.pair_rate)]
    options += ["--seconds", str(scenario.seconds), "--warmup", "0.5"]
    process = subprocess.Popen(command(broker, options), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    serve(lambda: process.poll() is not None, scenario.seconds + PATIENCE)
    return finished(process)


def claims(outcome: Outcome, scenario: Scenario) -> dict[str, bool]:
    """What is asserted, and whether it holds."""
    alone, beside = p99(outcome.alone), p99(outcome.beside)
    return {
        "nothing is lost": outcome.in_order and outcome.taken == outcome.published,
        "memory is bounded": outcome.grown <= scenario.bound,
        "others do not notice": beside <= max(alone * FACTOR, alone + MORE_US),
    }


def table(outcomes: dict[str, Outcome], scenario: Scenario) -> Grid:
    """Return the figures."""
    columns = ("", "published", "taken", "in order", "grown by, MiB", "allowed", "p99 alone, ms", "p99 beside, ms")
    grid = Grid(f"A publisher at full speed, a consumer at {scenario.taken:g} messages a second", columns)
    for name, outcome in outcomes.items():
        cells = [f"{outcome.published:,}", f"{outcome.taken:,}", "yes" if outcome.in_order else "NO"]
        cells += [rounded(outcome.grown / MIB), rounded(scenario.bound / MIB) if name == "block" else "-"]
        grid.add(name, *cells, *(rounded(p99(results) / 1000) for results in (outcome.alone, outcome.beside)))
    return grid


def main(
    sluice: Annotated[str, typer.Option(help="Python of the environment where Sluice is installed.")] = sys.executable,
    limit: Annotated[int, typer.Option(min=10_000, help="Bytes that the address may hold.")] = 4 * MIB,
    producer_window: Annotated[int, typer.Option(min=1, help="Bytes that one connection may park.")] = 64 * KIB,
    size: Annotated[int, typer.Option(min=16, help="Payload bytes.")] = 1000,
    taken: Annotated[float, typer.Option(min=1, help="Messages a second that the consumer takes.")] = 1000,
    pair_rate: Annotated[float, typer.Option(min=1, help="Messages a second of the pair.")] = 500,
    seconds: Annotated[float, typer.Option(min=1, help="How long the pair runs, each time.")] = 5.0,
    rounds: Annotated[int, typer.Option(min=1, help="How often it runs alone and beside.")] = 3,
    unlimited: Annotated[bool, typer.Option(help="Run the same without the address, for comparison.")] = True,
) -> None:
    """Measure a publisher that is blocked. Exit status 1 if an assertion does not hold."""
    scenario = Scenario(limit, producer_window, size, taken, pair_rate, seconds, rounds)
    outcomes: dict[str, Outcome] = {}
    with Console(stderr=True).status("") as status:
        status.update("with the address")
        outcomes["block"] = measure(sluice, scenario, True)
        if unlimited:
            status.update("without the address")
            once = Scenario(limit, producer_window, size, taken, pair_rate, min(seconds, 3.0), 1)
            outcomes["no address"] = measure(sluice, once, False)
    show_grids([table(outcomes, scenario)])
    held = claims(outcomes["block"], scenario)
    for claim, holds in held.items():
        print(f"{claim}: {'yes' if holds else 'NO'}")
    if not all(held.values()):
        raise typer.Exit(1)


if __name__ == "__main__":
    program.run(main)
