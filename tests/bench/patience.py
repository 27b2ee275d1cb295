"""The effect of one subscriber that is slow, or has stalled, on nine fast ones on the same topic (FC-16).

A publisher at a fixed rate and QoS 1, nine subscribers that read as fast as it comes, and beside them none, one that
reads and acknowledges 1,000 messages a second, or one that never reads. Asserts that

- beside the slow one the nine get at least 95 % of what they get alone, and past the first ten seconds, in which its
  patience is used up, their p99 is at most 1.2 times what it is alone;
- beside the stalled one they get at least 99 %.

The publisher catches up, as far as packet ids go: a message that was due while it was held back is sent as soon as the
socket takes it, and its latency counts from when it was due. With the fast subscriptions at QoS 1 the broker is busy
nearly all of the time, and nothing is left for catching up.
"""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.console import Console

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.bench import machine, program
from tests.bench.generator import Result, drive
from tests.bench.grids import Grid, rounded
from tests.bench.run import show_grids
from tests.support.brokers import TCP_ONLY, start_sluice

FAST = 9
PACKET = 73
"""Bytes of a QoS 1 PUBLISH that blast sends: the slow subscriber reads so many bytes for each message it takes."""
FIRST = 10.0
"""Seconds within which the patience of a slow subscriber is used up."""
SHARE_SLOW = 0.95
SHARE_STALLED = 0.99
FACTOR = 1.2


@dataclass(frozen=True)
class Scenario:
    """Rates are messages a second."""

    rate: float
    taken: float
    fast_qos: int
    seconds: float
    patience: str
    rounds: int


@dataclass
class Outcome:
    """What the nine received: in all, and after the first seconds, for each round."""

    whole: Result
    later: list[Result] = field(default_factory=list)

    @property
    def delivered(self) -> int:
        """Messages, all nine together."""
        return int(sum(self.whole["received"]))

    @property
    def p99_us(self) -> float:
        """Microseconds, of the median round."""
        return median(float(later["latency"]["p99_us"]) for later in self.later)

    @property
    def cpu_us(self) -> float:
        """Microseconds of processor time for each delivery, of the median round."""
        return median(float(later["cpu_us_per_delivery"]) for later in self.later)


def measure(python: str, scenario: Scenario, show: Callable[[str], None]) -> dict[str, Outcome]:
    """Run both parts, each on a fresh broker. Their rounds alternate, so that other load disturbs both."""
    names = ("none", "slow", "stalled")
    outcomes: dict[str, Outcome] = {}
    for beside in names:
        show(f"{beside} beside the nine")
        outcomes[beside] = Outcome(_run(python, scenario, beside, 0.0, scenario.seconds))
    for number in range(scenario.rounds):
        for beside in names:
            show(f"{beside} beside the nine, past {FIRST:g} s, round {number + 1} of {scenario.rounds}")
            later = _run(python, scenario, beside, FIRST, max(scenario.seconds - FIRST, 1.0))
            outcomes[beside].later.append(later)
    return outcomes


def _run(python: str, scenario: Scenario, beside: str, warmup: float, seconds: float) -> Result:
    places = machine.cores()
    options = ["--mode", "fanout", "--publishers", "1", "--subscribers", str(FAST), "--qos", "1"]
    options += ["--subscription-qos", str(scenario.fast_qos)]
    options += ["--rate", str(scenario.rate), "--awaited", "65535"]
    options += ["--warmup", str(warmup), "--seconds", str(seconds)]
    if beside == "stalled":
        options += ["--stalled", "1", "--slow-qos", "1"]
    if beside == "slow":
        options += ["--slow", "1", "--slow-qos", "1", "--slow-rate", str(scenario.taken * PACKET)]
    sections = {"session": {"overflow_patience": scenario.patience}}
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        with machine.pinned(places.broker):
            broker = start_sluice(Path(folder), TCP_ONLY, sections, command=(python, "-I", "-m", "broker"))
        with broker, machine.pinned(places.generator):
            return drive(broker, options)


def claims(outcomes: dict[str, Outcome]) -> dict[str, bool]:
    """What is asserted, and whether it holds."""
    alone, slow, stalled = (outcomes[name] for name in ("none", "slow", "stalled"))
    return {
        f"beside a slow one the nine get {SHARE_SLOW:.0%}": slow.delivered >= SHARE_SLOW * alone.delivered,
        f"past {FIRST:g} s their p99 is at most {FACTOR:g} times": slow.p99_us <= FACTOR * alone.p99_us,
        f"beside a stalled one they get {SHARE_STALLED:.0%}": stalled.delivered >= SHARE_STALLED * alone.delivered,
    }


def table(outcomes: dict[str, Outcome], scenario: Scenario) -> Grid:
    """Return the figures."""
    columns = ("beside them", "deliveries", "of alone", "p99, ms", "p99 later, ms", "of alone", "CPU us")
    title = f"Nine fast subscribers at QoS {scenario.fast_qos}, {scenario.rate:g} messages a second of QoS 1"
    grid = Grid(title, columns)
    alone = outcomes["none"]
    for name, outcome in outcomes.items():
        grid.add(
            name,
            f"{outcome.delivered:,}",
            f"{outcome.delivered / alone.delivered:.4f}",
            rounded(outcome.whole["latency"]["p99_us"] / 1000),
            rounded(outcome.p99_us / 1000),
            rounded(outcome.p99_us / alone.p99_us),
            rounded(outcome.cpu_us),
        )
    return grid


def main(
    sluice: Annotated[str, typer.Option(help="Python of the environment where Sluice is installed.")] = sys.executable,
    rate: Annotated[float, typer.Option(min=10, help="Messages a second of the publisher.")] = 20_000,
    taken: Annotated[float, typer.Option(min=1, help="Messages a second that the slow subscriber takes.")] = 1000,
    fast_qos: Annotated[int, typer.Option(min=0, max=1, help="Of the fast subscriptions; messages have 1.")] = 0,
    seconds: Annotated[float, typer.Option(min=1, help="How long each run takes.")] = 60.0,
    patience: Annotated[str, typer.Option(help="session.overflow_patience.")] = "5s",
    rounds: Annotated[int, typer.Option(min=1, help="How often the time past the first seconds is measured.")] = 3,
) -> None:
    """Measure the effect of slow and stalled subscribers on others. Exit status 1 if an assertion does not hold."""
    scenario = Scenario(rate, taken, fast_qos, seconds, patience, rounds)
    with Console(stderr=True).status("") as status:
        outcomes = measure(sluice, scenario, status.update)
    show_grids([table(outcomes, scenario)])
    held = claims(outcomes)
    for claim, holds in held.items():
        print(f"{claim}: {'yes' if holds else 'NO'}")
    if not all(held.values()):
        raise typer.Exit(1)


if __name__ == "__main__":
    program.run(main)
