"""`make durability`: kills a broker under load, and checks by ledgers outside it that nothing acknowledged is lost."""

import asyncio
import math
import os
import random
import signal
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from tests.durability.client import Client, check, check_group, check_retained
from tests.durability.member import Member
from tests.durability.visitor import Visitor
from tests.support.brokers import start_sluice
from tests.support.process import Address, BrokerProcess, free_port

SMALL_JOURNAL = "import broker.storage.compaction as c; c.SMALL = 100_000; c.PAUSE = 0.05"
"""A broker that compacts its journal continually."""

PATIENCE = 60.0
"""Seconds without a delivery, after the last kill, in which what is missing counts as lost."""

SHORT = 0.9
"""How many of the rounds are shorter than it takes a session to expire."""

PROGRESS = 50
"""Rounds from one line about the progress to the next."""


class KilledBroker:
    """A broker on a fixed port that is started repeatedly on the same journal."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.address = Address("127.0.0.1", self._port)
        self.process: BrokerProcess | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        self.process = start_sluice(
            self._folder,
            prepare=SMALL_JOURNAL,
            sections={
                "listeners": [{"name": "tcp", "bind": f"127.0.0.1:{self._port}"}],
                "persistence": {"directory": str(self._folder / "journal")},
                # A run that is stopped for minutes must not make the broker forget ids (FC-22): that is time, too.
                "session": {
                    "max_mqueue_len": "infinity",
                    "max_mqueue_bytes": "infinity",
                    "await_rel_timeout": "infinity",
                },
            },
        )

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.stop()


def topics(number: int) -> list[str]:
    """The topics of a publisher, in turn. The last character is the QoS; those that begin with `r` are retained."""
    return [f"{kind}/p{number}/{qos}" for kind in "ddr" for qos in (1, 2)]


class Clients:
    """All clients of a run."""

    def __init__(self, broker: KilledBroker, seed: int) -> None:
        self.publishers = [Client(f"p{n}", lambda: broker.address, [], topics(n)) for n in range(3)]
        self.subscribers = [Client(f"s{n}", lambda: broker.address, ["d/#"], []) for n in range(3)]
        self.members = [Client(f"m{n}", lambda: broker.address, ["$share/g/d/#"], []) for n in range(2)]
        changing = "$share/changing/d/#"
        self.changing = [
            Member(f"c{n}", lambda: broker.address, changing, n == 0, random.Random(f"{seed} c{n}")) for n in range(2)
        ]
        self.steady = Client("steady", lambda: broker.address, [changing], [])
        self.receivers = [*self.subscribers, *self.members, self.steady, *self.changing]
        self.late = Client("late", lambda: broker.address, ["r/#"], [])
        self.visitors = [Visitor(f"v{n}", lambda: broker.address, random.Random(f"{seed} v{n}")) for n in range(4)]
        self.tasks: list[asyncio.Task[None]] = []

    def begin(self, *clients: Client) -> None:
        """Let them begin."""
        self.tasks += [asyncio.create_task(client.run()) for client in clients]

    async def watch(self, seconds: float) -> None:
        """Let them go on for so long. Raises LedgerError."""
        done, _ = await asyncio.wait(self.tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        for visitor in self.visitors:
            if visitor.error is not None:
                raise visitor.error

    def check(self) -> None:
        """Raise AssertionError unless all that was acknowledged has come, and LedgerError as the checks do."""
        assert all(publisher.idle for publisher in self.publishers), "not all is acknowledged"
        for subscriber in self.subscribers:
            check(self.publishers, subscriber)
        check_group(self.publishers, self.members)
        check_group(self.publishers, [self.steady, *self.changing])
        check_retained(self.publishers, self.late)

    def came(self) -> int:
        """How many messages have come to the receivers."""
        return sum(len(numbers) for each in self.receivers for numbers in each.ledger.came.values())

    async def end(self) -> None:
        """They do nothing more."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def __str__(self) -> str:
        messages = sum(len(numbers) for each in self.publishers for numbers in each.ledger.acknowledged.values())
        takeovers = sum(client.takeovers for client in self.publishers + self.receivers)
        found = sum(visitor.found for visitor in self.visitors)
        expired = sum(visitor.expired for visitor in self.visitors)
        anew = sum(member.anew for member in self.changing)
        kept = f"{found} sessions kept, {expired} expired, {anew} begun anew"
        return f"{messages} messages acknowledged, {takeovers} take-overs, {kept}"


async def play(folder: Path, rounds: int, seed: int) -> str:
    """Kill the broker `rounds` times; returns a summary. Raises LedgerError."""
    broker = KilledBroker(folder)
    await asyncio.to_thread(broker.start)
    try:
        began = time.monotonic()
        clients = Clients(broker, seed)
        await _play(broker, clients, rounds, random.Random(seed))
        await clients.end()
    finally:
        assert broker.process is not None
        status = broker.process.stop()
    return f"{rounds} kills, {clients}, {time.monotonic() - began:.0f} s, exit status {status}"


async def _play(broker: KilledBroker, clients: Clients, rounds: int, rng: random.Random) -> None:
    """All rounds, and then wait until nothing is missing."""
    clients.begin(*clients.receivers)
    while not all(client.idle for client in clients.receivers):
        await clients.watch(0.05)
    clients.begin(*clients.publishers)
    for visitor in clients.visitors:
        visitor.start()
    for number in range(1, rounds + 1):
        await _play_round(broker, clients, rng)
        if number % PROGRESS == 0:
            print(f"  {number} of {rounds} kills", flush=True)
    for visitor in clients.visitors:
        await asyncio.to_thread(visitor.stop)
    for publisher in clients.publishers:
        publisher.publishing = False
    clients.begin(clients.late)
    came, until = -1, math.inf
    while True:
        await clients.watch(0.2)
        try:
            clients.check()
        except AssertionError:
            if clients.came() > came:
                came, until = clients.came(), time.monotonic() + PATIENCE
            if time.monotonic() > until:
                raise
            continue
        break


async def _play_round(broker: KilledBroker, clients: Clients, rng: random.Random) -> None:
    """Sessions are taken over, the broker is killed, and started again."""
    for _ in range(rng.randint(0, 3)):
        rng.choice(clients.publishers + clients.receivers).take_over()
        await clients.watch(rng.uniform(0.01, 0.2))
    await clients.watch(rng.uniform(0.05, 0.6) if rng.random() < SHORT else rng.uniform(2, 6))
    for visitor in clients.visitors:
        visitor.restarted_at = math.inf
    broker.kill()
    await asyncio.to_thread(broker.start)
    for visitor in clients.visitors:
        visitor.restarted_at = time.monotonic()


def main(
    rounds: Annotated[int, typer.Option(min=1, help="How often the broker is killed.")] = 300,
    seed: Annotated[int, typer.Option(help="Of the moments.")] = 1,
) -> None:
    """Kill a broker at random moments under load, and check that nothing that it acknowledged is lost."""
    with tempfile.TemporaryDirectory(prefix="sluice-durability-") as name:
        print(asyncio.run(play(Path(name), rounds, seed)))


if __name__ == "__main__":
    typer.run(main)
