"""Attacks a broker over thousands of connections and checks that it takes no harm: `python tests/fuzz/hostile.py`.

All the while an honest client sends itself messages, and every one of them has to arrive. Afterwards the broker
must have closed every connection, printed no traceback, and hold no more memory than before.
"""

import asyncio
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.fuzz.attacks import ATTACKS, PATIENCE, Attack, Connection, NotClosedError
from tests.support.brokers import start_broker
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import connected

MIB = 2**20
WARM_UP = 200
"""Attacks before memory is first looked at: by then the broker has grown to its working size."""


@dataclass
class Outcome:
    """What an assault has shown."""

    attacks: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    grown: int = 0
    """Bytes of memory that the broker holds more than before."""
    round_trips: list[float] = field(default_factory=list)
    """Seconds from the honest client's PUBLISH to the message's arrival."""


@dataclass(frozen=True)
class Plan:
    """How many attacks, how many of them at the same time, of which kinds; the same seed makes the same attacks."""

    connections: int
    at_once: int
    seed: int
    attacks: Sequence[Attack] = ATTACKS


def assault(broker: BrokerProcess, plan: Plan) -> Outcome:
    """Attack the broker; afterwards it has to be as it was before, which is for the caller to judge."""
    outcome = Outcome()
    files = broker.open_files()
    asyncio.run(_attack(broker.address(), plan, WARM_UP, random.Random(plan.seed), outcome))
    _wait_for_release(broker, files)
    before = broker.rss()
    with HonestClient(broker.address()) as honest:
        asyncio.run(_attack(broker.address(), plan, plan.connections, random.Random(plan.seed + 1), outcome))
    outcome.round_trips = honest.round_trips
    outcome.failures += honest.failures
    _wait_for_release(broker, files)
    outcome.grown = broker.rss() - before
    broker.assert_healthy()
    return outcome


def _wait_for_release(broker: BrokerProcess, files: int) -> None:
    wait_until(lambda: broker.open_files() <= files, "every connection closed by the broker", PATIENCE)


async def _attack(address: Address, plan: Plan, count: int, rng: random.Random, outcome: Outcome) -> None:
    places = asyncio.Semaphore(plan.at_once)
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            await places.acquire()
            attack = plan.attacks[number % len(plan.attacks)]
            task = group.create_task(_one(address, attack, random.Random(rng.getrandbits(64)), outcome))
            task.add_done_callback(lambda _: places.release())


async def _one(address: Address, attack: Attack, rng: random.Random, outcome: Outcome) -> None:
    name = attack.__name__
    outcome.attacks[name] += 1
    try:
        connection = await Connection.open(address)
    except OSError as error:
        outcome.failures.append(f"{name}: connect: {error}")
        return
    try:
        await attack(connection, rng)
    except NotClosedError as error:
        outcome.failures.append(f"{name}: {error}")
    finally:
        connection.reset() if rng.random() < 0.5 else connection.finish()


class HonestClient:
    """A client in a thread of its own that sends itself messages with QoS 1 until the block ends."""

    def __init__(self, address: Address) -> None:
        self.round_trips: list[float] = []
        self.failures: list[str] = []
        self._address = address
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "HonestClient":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with connected(self._address, 5) as receiver, connected(self._address, 4) as sender:
                receiver.timeout = sender.timeout = PATIENCE
                receiver.subscribe("honest", qos=1)
                while not self._over.is_set():
                    payload = b"%d" % len(self.round_trips)
                    start = time.monotonic()
                    sender.publish("honest", payload, 1)
                    assert receiver.receive_message().payload == payload
                    self.round_trips.append(time.monotonic() - start)
                    self._over.wait(0.002)
        except (AssertionError, OSError) as error:
            self.failures.append(f"honest client: {error!r}")


def main(
    connections: Annotated[int, typer.Option(min=1, help="How many hostile connections.")] = 1000,
    at_once: Annotated[int, typer.Option(min=1, help="How many of them at the same time.")] = 200,
    seed: Annotated[int, typer.Option(help="The same seed makes the same attacks.")] = 1,
    kinds: Annotated[str, typer.Option(help="Kinds of attack, separated by commas; all.")] = "",
    most_growth: Annotated[float, typer.Option(help="MiB that the broker may have grown.")] = 16.0,
) -> None:
    """Attack Sluice, or with SLUICE_TEST_BROKER=mosquitto Mosquitto."""
    chosen = [attack for attack in ATTACKS if not kinds or attack.__name__ in kinds.split(",")]
    if not chosen:
        raise typer.BadParameter(f"there are: {', '.join(attack.__name__ for attack in ATTACKS)}")
    plan = Plan(connections, at_once, seed, chosen)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sluice-hostile-") as folder, start_broker(Path(folder)) as broker:
        outcome = assault(broker, plan)
    trips = sorted(outcome.round_trips)
    slow, slowest = (trips[int(0.99 * len(trips))] * 1000, trips[-1] * 1000) if trips else (0.0, 0.0)
    print(f"{outcome.attacks.total()} attacks in {time.monotonic() - started:.1f} s: {dict(outcome.attacks)}")
    print(f"honest client: {len(trips)} messages, p99 {slow:.1f} ms, slowest {slowest:.1f} ms")
    print(f"memory grown by {outcome.grown / MIB:.1f} MiB; no traceback; every connection released")
    for failure in outcome.failures:
        print(f"failure: {failure}")
    if outcome.failures or outcome.grown > most_growth * MIB:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
