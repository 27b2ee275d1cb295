"""An outage of a bridge, and kill -9 of both brokers while it catches up: `python tests/bench/outage.py --help`.

Asserts that of what was acknowledged nothing is lost and the order is kept, that the broker with the bridge needs at
most 64 MiB more than before the outage, and that other clients' p99 is at most 1.1 times what it was.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.bench import machine, program
from tests.bench.generator import drive
from tests.soak.bridge.ledger import Publisher, Subscriber, violations
from tests.soak.bridge.round import Side
from tests.support.waiting import wait_until

MIB = 2**20
MOST_MEMORY = 64 * MIB
FACTOR = 1.1
LOOK = 10.0
"""Seconds of one measurement of other clients' latency."""


@dataclass
class Seen:
    """What was measured in one phase."""

    p99_us: list[float] = field(default_factory=list)
    rss: int = 0


class Traffic:
    """A publisher at a rate, in a thread."""

    def __init__(self, publisher: Publisher, rate: float) -> None:
        self.publisher = publisher
        self._rate = rate
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopped.is_set():
            due += 0.01
            for _ in range(int(self._rate / 100)):
                if not self.publisher.publish():
                    break
            self._stopped.wait(max(0.0, due - time.monotonic()))

    def stop(self) -> None:
        """Publish nothing more, and wait until all is acknowledged."""
        self._stopped.set()
        self._thread.join()
        wait_until(lambda: not self.publisher.pending, "all acknowledgements", 60)


def look(near: Side, seen: Seen, seconds: float) -> None:
    """Measure other clients of the broker for so long."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        arguments = ["--mode", "pair", "--publishers", "10", "--qos", "1", "--rate", "20", "--prefix", "other"]
        part = max(2.0, min(LOOK, until - time.monotonic()))
        with machine.pinned(machine.cores().generator):
            result = drive(near.broker, [*arguments, "--seconds", str(part)])
        seen.p99_us.append(float(result["latency"]["p99_us"]))
        seen.rss = max(seen.rss, near.broker.rss())


@dataclass
class Plan:
    """How long, and how often; rates are messages a second."""

    rate: float
    seconds: float
    calm: float
    kills: int
    memory: str
    max_rate: int


@dataclass
class Outcome:
    """What has come of it."""

    before: Seen = field(default_factory=Seen)
    during: Seen = field(default_factory=Seen)
    killed: Seen = field(default_factory=Seen)
    """Between kills: the others have just connected again, so their latency says nothing."""
    after: Seen = field(default_factory=Seen)
    idle: int = 0
    waiting: int = 0
    acknowledged: int = 0
    caught_up: float = 0.0
    wrong: list[str] = field(default_factory=list)

    @property
    def grown(self) -> int:
        """Bytes of memory more than before the outage, at most."""
        return max(self.during.rss, self.killed.rss, self.after.rss) - self.idle


@contextmanager
def brokers(folder: Path, command: Sequence[str], plan: Plan) -> Iterator[tuple[Side, Side]]:
    """The broker with the bridge, and the remote one.

    The remote one would have a machine of its own: here it is on the core of the clients, and they go before it.
    """
    limits: dict[str, Any] = {"consumer_max_rate": plan.max_rate} if plan.max_rate else {}
    with ExitStack() as stack:
        with machine.pinned(machine.cores().generator):
            far = Side(folder, "far", ["nice", "-n", "5", *command], [])
            stack.callback(far.stop)
        with machine.pinned(machine.cores().broker):
            bridge: dict[str, Any] = {"name": "far", "address": f"127.0.0.1:{far.address.port}", "reconnect_max": "2s"}
            bridge |= {"topics": [{"filter": "near/#"}], "session": limits}
            near = Side(folder, "near", command, [bridge], plan.memory)
            stack.callback(near.stop)
        wait_until(lambda: '"bridge_connected"' in near.broker.stderr, "the bridge")
        yield near, far


def measure(folder: Path, command: Sequence[str], plan: Plan) -> Outcome:
    """Go through all phases."""
    outcome = Outcome()
    with brokers(folder, command, plan) as (near, far), ExitStack() as stack:
        cores = {near: machine.cores().broker, far: machine.cores().generator}
        subscriber = Subscriber("sub-far", far.address, "near/#")
        stack.callback(subscriber.stop)
        wait_until(subscriber.ready.is_set, "the subscriber")
        publisher = Publisher("near", near.address, 1, 1, under_way=1_000)
        stack.callback(publisher.stop)
        traffic = Traffic(publisher, plan.rate)
        look(near, outcome.before, plan.calm)
        outcome.idle = near.broker.rss()
        far.halt()
        look(near, outcome.during, plan.seconds)
        outcome.waiting = publisher.sent - subscriber.count()
        with machine.pinned(cores[far]):
            far.go_on()
        began = time.monotonic()
        for victim in [near, far] * plan.kills:
            look(near, outcome.killed, 2.0)
            with machine.pinned(cores[victim]):
                victim.kill()
        until = began + 2 * plan.seconds + 300
        look(near, outcome.after, 2.0)
        while subscriber.count() < publisher.sent - plan.rate and time.monotonic() < until:
            look(near, outcome.after, LOOK)
        outcome.caught_up = time.monotonic() - began
        traffic.stop()
        with suppress(TimeoutError):
            wait_until(lambda: publisher.acknowledged <= set(subscriber.came[publisher.topic]), "everything", 120)
        outcome.acknowledged = len(publisher.acknowledged)
        outcome.wrong = violations(publisher, subscriber.came[publisher.topic])
    return outcome


def main(
    sluice: Annotated[str, typer.Option(help="Python of the environment where Sluice is installed.")] = sys.executable,
    rate: Annotated[float, typer.Option(min=100, help="Messages a second.")] = 1_000,
    seconds: Annotated[float, typer.Option(min=2, help="How long the remote broker is away.")] = 600,
    calm: Annotated[float, typer.Option(min=2, help="How long is measured before the outage.")] = 60,
    kills: Annotated[int, typer.Option(min=0, help="kill -9 of each broker while it catches up.")] = 10,
    memory: Annotated[str, typer.Option(help="persistence.memory: what waits beyond it is on disk only.")] = "16MiB",
    max_rate: Annotated[int, typer.Option(min=0, help="consumer_max_rate of the bridge; 0 = none.")] = 5_000,
) -> None:
    """Measure an outage. Exit status 1 if an assertion does not hold."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as name:
        plan = Plan(rate, seconds, calm, kills, memory, max_rate)
        outcome = measure(Path(name), (sluice, "-I", "-m", "broker"), plan)
    before, during, after = (median(seen.p99_us) for seen in (outcome.before, outcome.during, outcome.after))
    print(f"{outcome.acknowledged:,} acknowledged, {outcome.waiting:,} waited, caught up in {outcome.caught_up:.0f} s")
    print(f"memory {outcome.idle / MIB:.0f} MiB before, {outcome.grown / MIB:+.1f} MiB at most")
    print(f"p99 of others: {before:.0f} us before, {during:.0f} during, {after:.0f} while it catches up")
    held = {
        "nothing acknowledged is lost, and the order is kept": not outcome.wrong,
        "at most 64 MiB more": outcome.grown <= MOST_MEMORY,
        "p99 of others during the outage at most 1.1 times": during <= FACTOR * before,
        "p99 of others while it catches up at most 1.1 times": after <= FACTOR * before,
    }
    for claim, holds in held.items():
        print(f"{claim}: {'yes' if holds else 'NO'}")
    for each in outcome.wrong:
        print(each)
    if not all(held.values()):
        raise typer.Exit(1)


if __name__ == "__main__":
    program.run(main)
