"""Instructions of Sluice for each delivery, counted by callgrind: `python tests/bench/callgrind.py --help`.

They hardly depend on how busy the machine is: two commits can be told apart by one percent, which the clock cannot do.
Instructions are not time: those of the kernel and waiting for memory are not in them.
"""

import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.packet import Packet
from protocol.publish import Publish
from tests.bench import earlier, machine, program
from tests.bench.candidates import UNLIMITED
from tests.bench.grids import Grid
from tests.bench.outputs import writable
from tests.bench.run import show_grids
from tests.support.brokers import start_sluice
from tests.support.process import BrokerError, BrokerProcess
from tests.support.wire import WireClient

TIMEOUT: Final = 300.0
"""Seconds; under callgrind everything takes some fifty times as long."""
FEW: Final = 10
"""Rounds before it counts: nothing is allocated or looked up for the first time any more."""
LEAST: Final = 6_000
"""Deliveries that are counted at least: what the broker does each second is among them."""
COLLECTED: Final = re.compile(r"Collected *: (\d+)")


@dataclass(frozen=True)
class Pattern:
    """Who sends what in one round."""

    name: str
    title: str
    qos: int = 0
    publishers: int = 10
    subscribers: int = 1
    """Of each publisher's topic."""
    batch: int = 20
    """Messages that a publisher sends at once."""
    size: int = 64
    together: int = 1
    """Publishers of one topic."""
    window: int = 0
    """`max_inflight`: all that is sent at once beyond it waits in the mqueue. 0 = no limit, nothing waits."""
    fairness: str = "fifo"
    """`mqueue_fairness`."""

    @property
    def sections(self) -> dict[str, object]:
        """What the broker is configured with."""
        session: dict[str, object] = {**UNLIMITED["session"], "mqueue_fairness": self.fairness}
        return {"session": session | ({"max_inflight": self.window} if self.window else {})}

    @property
    def deliveries(self) -> int:
        """How many there are in a round."""
        return self.publishers * self.subscribers * self.batch


PATTERNS: Final = (
    Pattern("pairs-q0", "10 pairs, 20 at once, QoS 0"),
    Pattern("pairs-q1", "the same, QoS 1", qos=1),
    Pattern("pairs-q2", "the same, QoS 2", qos=2),
    Pattern("single-q0", "10 pairs, one at a time, QoS 0", batch=1),
    Pattern("single-q1", "the same, QoS 1", qos=1, batch=1),
    Pattern("fanout-q0", "4 times 1 to 10, 20 at once, QoS 0", publishers=4, subscribers=10),
    Pattern("fanout-q1", "the same, QoS 1", qos=1, publishers=4, subscribers=10),
    Pattern("large-q0", "4 pairs, 16 KiB, 3 at once, QoS 0", publishers=4, batch=3, size=16_384),
    Pattern("queued-q1", "10 to 1, 20 at once, QoS 1, 4 in flight", qos=1, together=10, window=4),
    Pattern("fair-q1", "the same, fair between publishers", qos=1, together=10, window=4, fairness="publisher"),
)
BY_NAME: Final = {pattern.name: pattern for pattern in PATTERNS}


class Topic:
    """Its publishers and subscribers, connected."""

    def __init__(
        self, near: BrokerProcess, far: BrokerProcess, number: int, pattern: Pattern, clients: ExitStack
    ) -> None:
        """The publishers are at `near`, the subscribers at `far`, which may be the same broker."""

        def connected(broker: BrokerProcess) -> WireClient:
            client = clients.enter_context(WireClient(broker.address(), timeout=TIMEOUT))
            client.connect()
            return client

        self._pattern = pattern
        self._publishers = [connected(near) for _ in range(pattern.together)]
        self._subscribers = [connected(far) for _ in range(pattern.subscribers)]
        topic = f"topic/{number}"
        for subscriber in self._subscribers:
            subscriber.subscribe(topic, qos=pattern.qos)
        payload = b"x" * pattern.size
        self._ids = range(1, pattern.batch + 1)
        # Packet ids are free again at the end of a round.
        self._messages = [
            Publish(topic.encode(), payload, pattern.qos, packet_id=each if pattern.qos else 0) for each in self._ids
        ]

    def round(self) -> None:
        """Send a batch, and carry all its exchanges to their ends, in batches too."""
        for publisher in self._publishers:
            publisher.send(*self._messages)
        for publisher in self._publishers:
            if self._pattern.qos == 1:
                _expect_all(publisher, Puback, len(self._ids))
            elif self._pattern.qos == 2:
                _expect_all(publisher, Pubrec, len(self._ids))
                publisher.send(*map(Pubrel, self._ids))
                _expect_all(publisher, Pubcomp, len(self._ids))
        for subscriber in self._subscribers:
            if self._pattern.window:
                for _ in range(len(self._ids) * self._pattern.together):
                    subscriber.send(Puback(subscriber.expect(Publish).packet_id))
                continue
            ids = [subscriber.expect(Publish).packet_id for _ in self._ids]
            if self._pattern.qos == 1:
                subscriber.send(*map(Puback, ids))
            elif self._pattern.qos == 2:
                subscriber.send(*map(Pubrec, ids))
                _expect_all(subscriber, Pubrel, len(ids))
                subscriber.send(*map(Pubcomp, ids))

    def finish(self) -> None:
        """Wait until the broker has taken everything."""
        for subscriber in self._subscribers:
            subscriber.expect_nothing_more()


def _expect_all(client: WireClient, kind: type[Packet], count: int) -> None:
    for _ in range(count):
        client.expect(kind)


def play(
    near: BrokerProcess, far: BrokerProcess, pattern: Pattern, rounds: int, count: Callable[[bool], object]
) -> None:
    """Have the pattern's clients exchange messages. `count` turns counting on after FEW rounds, and off at the end."""
    with ExitStack() as clients:
        count_of_topics = pattern.publishers // pattern.together
        topics = [Topic(near, far, number, pattern, clients) for number in range(count_of_topics)]
        for number in range(FEW + rounds):
            if number == FEW:
                count(True)
            for topic in topics:
                topic.round()
        for topic in topics:
            topic.finish()
        count(False)


def instructions(python: str, pattern: Pattern, rounds: int, bridged: bool = False) -> float:
    """Return the instructions for each delivery in so many rounds, or as many as have LEAST deliveries.

    `bridged`: the subscribers are at another broker, to which a bridge leads; both are counted together.
    """
    rounds = max(rounds, -(-LEAST // pattern.deliveries))
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as name, ExitStack() as stack:
        near = far = _start(stack, python, Path(name) / "far", pattern.sections)
        if bridged:
            bridge = {"name": "far", "address": f"127.0.0.1:{far.address().port}", "proto_ver": "3.1.1"}
            sections = pattern.sections | {"bridges": [bridge | {"topics": [{"filter": "topic/#"}]}]}
            near = _start(stack, python, Path(name) / "near", sections)
            near.wait_for_output(lambda lines: any("bridge_connected" in line for line in lines), "the bridge", TIMEOUT)
        brokers = [near, far] if bridged else [near]
        play(near, far, pattern, rounds, partial(_switch, [broker.pid for broker in brokers]))
        for broker in brokers:
            broker.stop(TIMEOUT)
        collected = [COLLECTED.search(broker.stderr) for broker in brokers]
    counts = [int(each[1]) for each in collected if each is not None]
    if len(counts) < len(brokers):
        raise RuntimeError(f"callgrind has not counted; the broker printed:\n{near.stderr}")
    return sum(counts) / (rounds * pattern.deliveries)


def _start(stack: ExitStack, python: str, folder: Path, sections: dict[str, object]) -> BrokerProcess:
    callgrind = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--instr-atstart=no")
    # -I: neither PYTHONPATH nor the working directory decides what runs, only the installation.
    command = (*callgrind, python, "-I", "-m", "broker")
    folder.mkdir()
    broker = start_sluice(folder, sections=sections, command=command, seconds=TIMEOUT)
    stack.callback(broker.stop, TIMEOUT)
    return broker


def _switch(pids: list[int], on: bool) -> None:
    for pid in pids:
        command = ["callgrind_control", f"--instr={'on' if on else 'off'}", str(pid)]
        subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT)


def table(figures: dict[tuple[str, str], list[float]], patterns: list[Pattern], brokers: list[str]) -> Grid:
    """Return the medians, and of two brokers the first one's as a multiple of the second one's."""
    compared = len(brokers) == 2
    grid = Grid("Instructions for each delivery", ("load", *brokers, *(["ratio"] if compared else [])))
    for pattern in patterns:
        medians = [statistics.median(figures[pattern.name, broker]) for broker in brokers]
        ratio = [f"{medians[0] / medians[1]:.3f}"] if compared else []
        grid.add(pattern.title, *(f"{median:,.0f}" for median in medians), *ratio)
    return grid


def _chosen(names: str) -> list[Pattern]:
    for name in names.split(","):
        if name not in BY_NAME:
            raise typer.BadParameter(f"there is no pattern {name}; there are: {', '.join(BY_NAME)}")
    return [BY_NAME[name] for name in names.split(",")]


def _pythons(sluice: str, before: str | None, bridged: bool, err: Console) -> dict[str, str]:
    """What is counted, and the Python that has it."""
    if bridged and before:
        raise typer.BadParameter("--bridged compares one Sluice with itself: leave --before out")
    if bridged:
        return {"bridged": sluice, "alone": sluice}
    if not before:
        return {"sluice": sluice}
    try:
        return {"sluice": sluice, "sluice-before": earlier.python_of(before, err.print)}
    except LookupError as error:
        raise typer.BadParameter(str(error)) from None


def main(
    patterns: Annotated[str, typer.Option(help=f"Of {', '.join(BY_NAME)}; separated by commas.")] = ",".join(BY_NAME),
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds of messages are counted.")] = 30,
    times: Annotated[int, typer.Option(min=1, help="How often each is counted; medians are shown.")] = 1,
    sluice: Annotated[str | None, typer.Option(help="Python of the environment where Sluice is installed.")] = None,
    before: Annotated[
        str | None, typer.Option(help="An earlier Sluice: a revision, which is built, or the Python that has it.")
    ] = None,
    bridged: Annotated[
        bool, typer.Option("--bridged", help="Beside that, what both brokers need if a bridge is between the clients.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write every count there.", callback=writable)
    ] = None,
) -> None:
    """Count Sluice's instructions for each delivery, beside those of an earlier Sluice. Needs valgrind."""
    if shutil.which("valgrind") is None:
        raise typer.BadParameter("valgrind is not installed (Debian: apt install valgrind)")
    chosen = _chosen(patterns)
    err = Console(stderr=True)
    pythons = _pythons(sluice or sys.executable, before, bridged, err)
    figures: dict[tuple[str, str], list[float]] = {}
    with err.status("") as status:
        for number in range(times):
            for pattern in chosen:
                for broker, python in pythons.items():
                    status.update(f"time {number + 1} of {times}: {pattern.title}: {broker}")
                    try:
                        figure = instructions(python, pattern, rounds, broker == "bridged")
                    except (BrokerError, OSError) as error:
                        err.print(f"{broker} cannot be counted: {python} has to have Sluice installed: {error}")
                        raise typer.Exit(1) from None
                    figures.setdefault((pattern.name, broker), []).append(figure)
    Console().print(" · ".join(machine.description().values()), style="dim")
    show_grids([table(figures, chosen, list(pythons))])
    if json_file:
        results = [{"load": load, "broker": broker, "counts": each} for (load, broker), each in figures.items()]
        json_file.write_text(json.dumps({"machine": machine.description(), "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    program.run(main)
