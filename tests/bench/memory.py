"""What one idle connection, one exact subscription and one retained message cost a broker: resident bytes.

Each is measured on a fresh broker, as growth over what it needs for a first few, divided by their number. The kernel's
memory for sockets is not counted. Nothing here depends on how busy the machine is.
"""

import json
import resource
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from protocol.acknowledgements import Puback
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.bench import candidates, machine, program
from tests.bench.grids import Grid
from tests.bench.outputs import writable
from tests.bench.peers import Candidate
from tests.bench.run import chosen_brokers, show_grids
from tests.support.process import BrokerProcess
from tests.support.wire import WireClient

TIMEOUT: Final = 120.0
FIRST: Final = 500
"""How many there are before growth is measured: modules are loaded by then, and buffers have their size."""
TOGETHER: Final = 500
"""Filters in one SUBSCRIBE; messages that are sent before their acknowledgements are awaited."""
SUBSCRIBERS: Final = 100
OTHER_FILES: Final = 100
"""Files that a broker, or this program, has open besides its connections, at most."""
KEEP_ALIVE: Final = 0


def topic(number: int) -> str:
    """A topic name, of 24 bytes."""
    return f"fleet/{number:08d}/telemetry"


def idle_connections(broker: BrokerProcess, count: int) -> float:
    """Return the bytes of one connection that does nothing."""
    clients: list[WireClient] = []
    try:
        before = 0
        for number in range(FIRST + count):
            if number == FIRST:
                before = broker.rss()
            client = WireClient(broker.address(), timeout=TIMEOUT)
            clients.append(client)
            client.connect(f"meter-{number:08d}", keep_alive=KEEP_ALIVE)
        return (broker.rss() - before) / count
    finally:
        for client in clients:
            client.close()


def subscriptions(broker: BrokerProcess, count: int) -> float:
    """Return the bytes of one subscription without wildcards, each to a topic of its own, of one of 100 clients."""
    each = -(-count // SUBSCRIBERS)
    before = broker.rss()
    clients: list[WireClient] = []
    try:
        for number in range(SUBSCRIBERS + 1):  # the first one is not counted
            client = WireClient(broker.address(), timeout=TIMEOUT)
            clients.append(client)
            client.connect(f"subscriber-{number}")
            for first in range(number * each, (number + 1) * each, TOGETHER):
                filters = range(first, min(first + TOGETHER, (number + 1) * each))
                client.send(Subscribe(1, [Subscription(topic(each)) for each in filters]))
                answer = client.receive()
                assert isinstance(answer, Suback), answer
                assert set(answer.reason_codes) == {0}, answer
            if number == 0:
                before = broker.rss()
        return (broker.rss() - before) / (each * SUBSCRIBERS)
    finally:
        for client in clients:
            client.close()


def retained_messages(broker: BrokerProcess, count: int, size: int = 50) -> float:
    """Return the bytes of one retained message of `size` bytes, each of a topic of its own."""
    with WireClient(broker.address(), timeout=TIMEOUT) as client:
        client.connect("publisher")
        before = 0
        for first in range(0, TOGETHER + count, TOGETHER):
            if first == TOGETHER:
                before = broker.rss()
            numbers = range(first, first + TOGETHER)
            payload = b"x" * size
            client.send(*[_retain(number, payload, number - first + 1) for number in numbers])
            for _ in numbers:
                answer = client.receive()
                assert isinstance(answer, Puback), answer
        return (broker.rss() - before) / (-(-count // TOGETHER) * TOGETHER)


def _retain(number: int, payload: bytes, packet_id: int) -> Publish:
    return Publish(topic(number).encode(), payload, 1, True, packet_id=packet_id)


@dataclass(frozen=True)
class Cost:
    """One row."""

    name: str
    title: str
    most: float
    """What Sluice may need, in bytes."""
    measure: Callable[[BrokerProcess, int], float]


COSTS: Final = (
    Cost("connection", "an idle connection", 3_000, idle_connections),
    Cost("subscription", "an exact subscription", 500, subscriptions),
    Cost("retained", "a retained message of 50 B", 450, retained_messages),
)


@dataclass
class Measured:
    """Bytes by cost and broker, round by round."""

    bytes: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def median(self, cost: Cost, broker: str) -> float:
        """Return the median of the rounds."""
        return statistics.median(self.bytes[cost.name, broker])

    def missed(self, broker: str) -> list[str]:
        """Return the names of the costs that are above what a broker may need."""
        return [cost.name for cost in COSTS if self.median(cost, broker) > cost.most]

    def grid(self, brokers: list[str]) -> Grid:
        """Return the table."""
        grid = Grid("Resident bytes", ("of", "may be", *brokers))
        for cost in COSTS:
            figures = [f"{self.median(cost, broker):,.0f}" for broker in brokers]
            bad = "sluice" in brokers and cost.name in self.missed("sluice")
            grid.add(cost.title, f"{cost.most:,.0f}", *figures, bad=bad)
        return grid


def openable(count: int) -> int:
    """The callback of an option that asks for so many connections: allow as many files. Raises BadParameter."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = hard - FIRST - OTHER_FILES
    if count > most:
        raise typer.BadParameter(f"{most:,} is the most that {hard:,} files allow: raise `ulimit -n -H`")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # the brokers inherit it
    return count


def measure(broker: Candidate, cost: Cost, count: int) -> float:
    """Measure on a broker that is started for it."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder, broker.start(Path(folder), True) as process:
        return cost.measure(process, count)


def main(
    connections: Annotated[int, typer.Option(min=1_000, help="How many connections.", callback=openable)] = 10_000,
    subscribed: Annotated[int, typer.Option(min=10_000, help="How many subscriptions.")] = 1_000_000,
    retained: Annotated[int, typer.Option(min=10_000, help="How many retained messages.")] = 500_000,
    rounds: Annotated[int, typer.Option(min=1, help="How often each is measured.")] = 1,
    brokers: Annotated[str, typer.Option(help="Brokers, separated by commas.")] = "sluice,mosquitto",
    sluice: Annotated[str | None, typer.Option(help="Python of the environment where Sluice is installed.")] = None,
    before: Annotated[
        str | None, typer.Option(help="An earlier Sluice: a revision, which is built, or the Python that has it.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write every measurement there.", callback=writable)
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if Sluice needs more than it may.")] = False,
) -> None:
    """Measure what connections, subscriptions and retained messages cost, side by side."""
    sources = candidates.Sources(sluice, before)
    names = [*chosen_brokers(brokers, sources), *(["sluice-before"] if before else [])]
    err = Console(stderr=True)
    measured = Measured()
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as scratch, err.status("") as status:
        found = candidates.find(names, sources, Path(scratch))
        for name, reason in found.missing.items():
            err.print(f"not measured: {name}: {reason}")
        if not found.candidates or (before and "sluice-before" in found.missing):
            raise typer.Exit(1)
        if check and "sluice" not in {broker.name for broker in found.candidates}:
            err.print("--check needs Sluice: the limits are for it")
            raise typer.Exit(1)
        for number in range(rounds):
            for cost, count in zip(COSTS, (connections, subscribed, retained), strict=True):
                for broker in found.candidates:
                    status.update(f"round {number + 1} of {rounds}: {cost.title}: {broker.version}")
                    figure = measure(broker, cost, count)
                    measured.bytes.setdefault((cost.name, broker.name), []).append(figure)
                    err.print(f"{cost.title}, {broker.version}: {figure:,.0f}", style="dim")
    known = [broker.name for broker in found.candidates]
    Console().print(" · ".join(machine.description().values()), style="dim")
    show_grids([measured.grid(known)])
    if json_file:
        results = [{"cost": cost, "broker": broker, "bytes": each} for (cost, broker), each in measured.bytes.items()]
        versions = {broker.name: broker.version for broker in found.candidates}
        facts = {"machine": machine.description(), "brokers": versions, "results": results}
        json_file.write_text(json.dumps(facts, indent=1) + "\n")
    if check and measured.missed("sluice"):
        raise typer.Exit(1)


if __name__ == "__main__":
    program.run(main)
