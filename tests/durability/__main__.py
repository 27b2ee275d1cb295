"""`make durability`: a broker is killed under load, and ledgers outside it say whether it has kept its promises."""

import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from tests.durability.client import Client, check, check_group, check_retained
from tests.support.brokers import start_sluice
from tests.support.process import Address, BrokerProcess, free_port

SMALL_JOURNAL = (
    "import broker.storage.compaction as c; c.SMALL = 100_000; c.PAUSE = 0.05; import runpy; "
    "runpy.run_module('broker', run_name='__main__')"
)
"""A broker that compacts its journal all the time."""

PATIENCE = 60.0
"""Seconds for what is left after the last kill."""


class Victim:
    """A broker on a fixed port that is started again and again on the same journal."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.address = Address("127.0.0.1", self._port)
        self.process: BrokerProcess | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        self.process = start_sluice(
            self._folder,
            command=(sys.executable, "-c", SMALL_JOURNAL),
            sections={
                "listeners": [{"name": "tcp", "bind": f"127.0.0.1:{self._port}"}],
                "persistence": {"directory": str(self._folder / "journal")},
                "session": {"max_mqueue_len": "infinity"},
            },
        )

    def kill(self) -> None:
        """As the kernel kills, without a warning."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.stop()


def topics(number: int) -> list[str]:
    """What a publisher publishes to, in turn. The last character is the QoS; what begins with `r` is retained."""
    return [f"{kind}/p{number}/{qos}" for kind in "ddr" for qos in (1, 2)]


async def _watched(clients: list[Client], tasks: list[asyncio.Task[None]], seconds: float) -> None:
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def play(folder: Path, rounds: int, seed: int) -> str:
    """Kill the broker so often; returns a summary. Raises LedgerError."""
    rng = random.Random(seed)
    victim = Victim(folder)
    await asyncio.to_thread(victim.start)
    publishers = [Client(f"p{n}", lambda: victim.address, [], topics(n)) for n in range(3)]
    subscribers = [Client(f"s{n}", lambda: victim.address, ["d/#"], []) for n in range(3)]
    members = [Client(f"m{n}", lambda: victim.address, ["$share/g/d/#"], []) for n in range(2)]
    late = Client("late", lambda: victim.address, ["r/#"], [])
    receivers = subscribers + members
    clients = publishers + receivers + [late]
    tasks = [asyncio.create_task(client.run()) for client in receivers]
    began = time.monotonic()
    while not all(client.idle for client in receivers):
        await _watched(clients, tasks, 0.05)
    tasks += [asyncio.create_task(client.run()) for client in publishers]
    for _ in range(rounds):
        await _watched(clients, tasks, rng.uniform(0.05, 0.6))
        victim.kill()
        await asyncio.to_thread(victim.start)
    for publisher in publishers:
        publisher.publishing = False
    tasks.append(asyncio.create_task(late.run()))
    until = time.monotonic() + PATIENCE
    while True:
        await _watched(clients, tasks, 0.2)
        try:
            assert all(publisher.idle for publisher in publishers), "not all is acknowledged"
            for subscriber in subscribers:
                check(publishers, subscriber)
            check_group(publishers, members)
            check_retained(publishers, late)
        except AssertionError:
            if time.monotonic() > until:
                raise
            continue
        break
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert victim.process is not None
    status = victim.process.stop()
    messages = sum(len(numbers) for client in publishers for numbers in client.ledger.acknowledged.values())
    return f"{rounds} kills, {messages} messages acknowledged, {time.monotonic() - began:.0f} s, exit status {status}"


def main(
    rounds: Annotated[int, typer.Option(min=1, help="How often the broker is killed.")] = 300,
    seed: Annotated[int, typer.Option(help="Of the moments.")] = 1,
) -> None:
    """Kill a broker at random moments under load, and check that nothing that it acknowledged is lost."""
    with tempfile.TemporaryDirectory(prefix="sluice-durability-") as name:
        print(asyncio.run(play(Path(name), rounds, seed)))


if __name__ == "__main__":
    typer.run(main)
