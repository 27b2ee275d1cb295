"""One run: traffic, by turns without kills and with kill -9 of a random cell now and then; all has to arrive."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from protocol.publish import Publish
from tests.soak.bridge.ledger import Publisher, Subscriber, violations
from tests.soak.bridge.round import settle
from tests.soak.cells.latencies import Latencies
from tests.soak.cells.wills import MortalClients
from tests.support.broker.cells import at_home, processes
from tests.support.brokers import SLUICE, start_sluice
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import connected

SIZES: Final = ((64, 60), (1_024, 30), (16_384, 8), (65_536, 2))
"""Bytes of a payload, and how often they come."""
STEP: Final = 0.02
"""Seconds between two turns of the publishers."""
SPELL: Final = 60.0
"""Seconds with kills; times with and without them take turns, for the machine may have other work, too."""
PROBES: Final = 10.0
"""Messages a second of each publisher of the probe."""
QUEUE: Final = {"max_mqueue_len": "infinity", "max_mqueue_bytes": "infinity"}


@dataclass(frozen=True)
class CellsPlan:
    """What a run is."""

    workers: int
    calm: float
    """Seconds without kills, before each SPELL of them."""
    stormy: float
    """Seconds with kills."""
    every: float
    """Seconds from one kill to the next."""
    rate: float
    """Messages a second, all publishers together."""
    seed: int


@dataclass
class CellsOutcome:
    """What has come of it."""

    latencies: Latencies = field(default_factory=Latencies)
    violations: list[str] = field(default_factory=list)
    kills: list[tuple[float, int]] = field(default_factory=list)
    """When, and which cell."""
    acknowledged: int = 0
    came: int = 0
    wills: int = 0
    caught_up: float = 0.0


class Victims:
    """The processes of the cells, by the number of the cell: what comes after a kill is the same cell again."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self._pids = processes(broker)

    def kill(self, cell: int) -> bool:
        """kill -9; False if the last process of this cell has no successor yet."""
        now = processes(self._broker)
        gone = [number for number, pid in enumerate(self._pids) if pid not in now]
        fresh = [pid for pid in now if pid not in self._pids]
        if len(gone) == 1 and fresh:
            self._pids[gone[0]] = fresh[0]
        elif gone:
            return False
        os.kill(self._pids[cell - 1], signal.SIGKILL)
        return True


class Traffic:
    """The clients of a run, some of each kind at each cell."""

    def __init__(self, broker: BrokerProcess, workers: int) -> None:
        self._broker = broker
        address = broker.address()
        self._chance = random.Random(1)
        self.cells = range(1, workers + 1)

        def at(cell: int, name: str) -> str:
            return next(at_home(cell, workers, name))

        self.kept = [Subscriber(at(cell, f"kept{kind}"), address, "load/#") for cell in self.cells for kind in "ab"]
        self.clean = [Subscriber(at(cell, "clean"), address, "load/#", kept=False) for cell in self.cells]
        self.watchers = [Subscriber(at(cell, "watcher"), address, "will/#") for cell in self.cells]
        for subscriber in (*self.kept, *self.clean, *self.watchers):
            wait_until(subscriber.ready.is_set, "a subscriber")
        self.load = [
            Publisher(f"load/{cell}", address, number, number % 3, client_id=at(cell, f"load{number}-"))
            for cell in self.cells
            for number in range(3)
        ]
        self.state = [
            Publisher(f"state/{cell}", address, cell, 1, client_id=at(cell, "state"), retain=True)
            for cell in self.cells
        ]

    def publish(self, seconds: float, rate: float) -> None:
        """Publish for a while."""
        until = time.monotonic() + seconds
        due = time.monotonic()
        publishers = [*self.load, *self.state]
        sizes, weights = zip(*SIZES, strict=True)
        while due < until:
            for publisher in publishers:
                if self._chance.random() < rate * STEP / len(publishers):
                    publisher.publish(self._chance.choices(sizes, weights)[0])
            due += STEP
            time.sleep(max(0.0, due - time.monotonic()))  # the rate: it waits for nothing

    def violations(self, killed: set[int]) -> list[str]:
        """What is wrong when all has arrived. `killed`: cells whose clients with clean sessions have lost these."""
        found = []
        for publisher in self.load:
            for number, subscriber in enumerate(self.kept):
                wrong = violations(publisher, subscriber.came[publisher.topic])
                found += [f"kept {number % 2} at {number // 2 + 1}: {each}" for each in wrong]
            for cell, subscriber in zip(self.cells, self.clean, strict=True):
                wrong = violations(publisher, subscriber.came[publisher.topic])
                found += [f"clean at {cell}: {each}" for each in wrong if cell not in killed or "came after" in each]
        last = {publisher.topic: publisher.sent - 1 for publisher in self.state if publisher.sent}
        for cell in self.cells:
            seen = self._retained(cell, len(last))
            if seen != last:
                found.append(f"retained at cell {cell}: {seen}, published last: {last}")
        return found

    def _retained(self, cell: int, count: int) -> dict[str, int]:
        name = next(at_home(cell, len(self.cells), "late"))
        with connected(self._broker.address(), 5, client_id=name) as client:
            client.subscribe("state/#")
            came = [client.expect(Publish) for _ in range(count)]
            return {each.topic.decode(): int(each.payload.partition(b" ")[0]) for each in came}

    def stop(self) -> None:
        """All leave."""
        for publisher in (*self.load, *self.state):
            publisher.stop()
        for subscriber in (*self.kept, *self.clean, *self.watchers):
            subscriber.stop()


def run_cells(folder: Path, plan: CellsPlan, command: Sequence[str] = SLUICE) -> CellsOutcome:
    """Run it, and check what has come."""
    sections = {"persistence": {"directory": str(folder / "journal")}, "session": QUEUE}
    chance = random.Random(plan.seed)
    with ExitStack() as stack:
        broker = stack.enter_context(start_sluice(folder, sections=sections, command=command, workers=plan.workers))
        lines = stack.enter_context((folder / "latencies").open("w+"))
        traffic = Traffic(broker, plan.workers)
        stack.callback(traffic.stop)
        wills = MortalClients(broker.address(), plan.workers, chance)
        outcome = CellsOutcome()
        address = broker.address()
        arguments = [str(each) for each in (address.port, plan.workers, PROBES)]
        with subprocess.Popen([sys.executable, "-m", "tests.soak.cells.probe", *arguments], stdout=lines) as probe:
            try:
                _play(plan, broker, traffic, chance, outcome)
            finally:
                probe.terminate()
                wills.stop()
        outcome.latencies.read(lines)
        began = time.monotonic()
        settle([(traffic.load, subscriber) for subscriber in traffic.kept])
        outcome.caught_up = time.monotonic() - began
        outcome.violations += traffic.violations({cell for _, cell in outcome.kills})
        for watcher in traffic.watchers:
            outcome.violations += wills.lost(watcher.came, outcome.kills)
        outcome.violations += broker.trouble()
        outcome.acknowledged = sum(len(publisher.acknowledged) for publisher in traffic.load)
        outcome.came = sum(subscriber.count() for subscriber in (*traffic.kept, *traffic.clean))
        outcome.wills = sum(map(len, wills.sent.values()))
    return outcome


def _play(
    plan: CellsPlan, broker: BrokerProcess, traffic: Traffic, chance: random.Random, outcome: CellsOutcome
) -> None:
    victims = Victims(broker)
    left = plan.stormy
    while left > 0:
        traffic.publish(plan.calm, plan.rate)
        for _ in range(max(1, round(min(left, SPELL) / plan.every))):
            cell = chance.randint(1, plan.workers)
            if victims.kill(cell):
                outcome.kills.append((time.monotonic(), cell))
            traffic.publish(plan.every, plan.rate)
        left -= SPELL


def summary(outcome: CellsOutcome) -> list[str]:
    """What there is to say."""
    killed = Counter(cell for _, cell in outcome.kills)
    counts = f"{outcome.acknowledged} acknowledged, {outcome.came} came, {outcome.wills} wills"
    kills = ", ".join(f"{count} of cell {cell}" for cell, count in sorted(killed.items()))
    first = f"{len(outcome.kills)} kills ({kills}); {counts}; caught up in {outcome.caught_up:.1f} s"
    return [first, *outcome.latencies.told(outcome.kills)]
