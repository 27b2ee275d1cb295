"""The effect of one slow member, of ten, on the nine others of a shared group (FC-13).

With and without the slow one by turns, each time on a fresh broker. The publisher keeps so many messages under way that
none of the others ever waits for work. Asserts that the throughput of the nine is within 5 % of that without the slow
one, and that Jain's index over the nine is above 0.99; the exit code says so.
"""

import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.bench import machine, program
from tests.bench.candidates import UNLIMITED
from tests.bench.flow_clients import Consumer, Loop, Producer
from tests.bench.grids import Grid, rounded
from tests.bench.run import show_grids
from tests.support.brokers import TCP_ONLY, start_sluice

OTHERS = 9
TIMES = 100
"""How many times slower the slow member is."""
TOPIC = "jobs/new"
SHARED = "$share/workers/jobs/#"
WARM_UP = 0.5
"""Seconds before counting begins."""
LIMITS = UNLIMITED | {"session": UNLIMITED["session"] | {"max_inflight": 32}}
"""The default window: it limits how much a slow member holds."""

MOST_LOSS = 0.05
LEAST_JAIN = 0.99


@dataclass(frozen=True)
class Scenario:
    """Rates are messages a second of one member; 0 = as fast as it can."""

    rate: float
    under_way: int
    size: int
    seconds: float


@dataclass
class Outcome:
    """Rounds with and without the slow member: messages a second of each of the nine, and of the slow one."""

    without: list[list[float]] = field(default_factory=list)
    beside: list[list[float]] = field(default_factory=list)
    slow: list[float] = field(default_factory=list)

    def ratio(self) -> float:
        """Throughput of the nine beside the slow one, as a share of what it is without."""
        return statistics.median(map(sum, self.beside)) / statistics.median(map(sum, self.without))

    def index(self) -> float:
        """Jain's index over the nine, all rounds with the slow one together."""
        return jain([sum(rates) for rates in zip(*self.beside, strict=True)])

    def holds(self) -> bool:
        """Whether what is asserted holds."""
        return abs(self.ratio() - 1) <= MOST_LOSS and self.index() > LEAST_JAIN


def jain(values: list[float]) -> float:
    """Jain's fairness index: 1 if all values are equal, 1/n if all but one are 0."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0


def measure(python: str, scenario: Scenario, slow_rate: float) -> list[float]:
    """Return messages a second of each member; with a `slow_rate` the last member is slow."""
    places = machine.cores()
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        with machine.pinned(places.broker):
            broker = start_sluice(Path(folder), TCP_ONLY, LIMITS, command=(python, "-I", "-m", "broker"))
        with broker, machine.pinned(places.generator):
            rates = [scenario.rate] * OTHERS + ([slow_rate] if slow_rate else [])
            members = [Consumer(broker.address(), SHARED, rate) for rate in rates]

            def may_go(sent: int) -> bool:
                return sent - sum(len(member.numbers) for member in members) < scenario.under_way

            producer = Producer(broker.address(), TOPIC, scenario.size, scenario.under_way, may_go)
            loop = Loop([producer, *members])
            loop.run(WARM_UP)
            before = [len(member.numbers) for member in members]
            loop.run(scenario.seconds)
            taken = [len(member.numbers) - start for member, start in zip(members, before, strict=True)]
            loop.close()
    return [count / scenario.seconds for count in taken]


def experiment(python: str, scenario: Scenario, rounds: int) -> Outcome:
    """Measure with and without the slow member, alternating."""
    outcome = Outcome()
    for _ in range(rounds):
        without = measure(python, scenario, 0.0)
        outcome.without.append(without)
        *others, slow = measure(python, scenario, sum(without) / OTHERS / TIMES)
        outcome.beside.append(others)
        outcome.slow.append(slow)
    return outcome


def table(outcomes: dict[str, Outcome]) -> Grid:
    """Return the figures."""
    columns = ("members take", "nine alone, /s", "nine beside, /s", "ratio", "Jain", "slow one, /s", "holds")
    grid = Grid("Nine members of a shared group, alone and beside one that is a hundred times slower", columns)
    for name, outcome in outcomes.items():
        figures = [statistics.median(map(sum, rounds)) for rounds in (outcome.without, outcome.beside)]
        cells = [*map(rounded, figures), f"{outcome.ratio():.3f}", f"{outcome.index():.5f}"]
        grid.add(name, *cells, rounded(statistics.median(outcome.slow)), "yes" if outcome.holds() else "NO")
    return grid


def main(
    sluice: Annotated[str, typer.Option(help="Python of the environment where Sluice is installed.")] = sys.executable,
    rounds: Annotated[int, typer.Option(min=1, help="How often each is measured, by turns.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.5, help="How long each measurement takes.")] = 3.0,
    rate: Annotated[float, typer.Option(min=1, help="What a member takes a second where it has a pace.")] = 200,
    under_way: Annotated[int, typer.Option(min=100, help="Messages published and not taken yet.")] = 1000,
    size: Annotated[int, typer.Option(min=16, help="Payload bytes.")] = 64,
) -> None:
    """Measure the effect of one slow member on a shared group. Exit status 1 if it exceeds a limit."""
    outcomes: dict[str, Outcome] = {}
    with Console(stderr=True).status("") as status:
        for name, pace in ((f"{rate:g} a second each", rate), ("as fast as they can", 0.0)):
            status.update(name)
            outcomes[name] = experiment(sluice, Scenario(pace, under_way, size, seconds), rounds)
    show_grids([table(outcomes)])
    if not all(outcome.holds() for outcome in outcomes.values()):
        raise typer.Exit(1)


if __name__ == "__main__":
    program.run(main)
