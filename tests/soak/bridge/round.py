"""One round: traffic in both directions, faults, kills, and then everything has to arrive."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.soak.bridge.ledger import Publisher, Subscriber, violations
from tests.soak.bridge.proxy import Proxy
from tests.support.brokers import HOST, SLUICE, start_sluice
from tests.support.process import Address, BrokerProcess, free_port
from tests.support.waiting import wait_until

PUBLISHERS: Final = 3
"""On each side, one for each QoS."""
CATCH_UP: Final = 60.0
"""Seconds within which everything has to arrive after the faults."""


@dataclass
class Outcome:
    """What has come of a round."""

    violations: list[str] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    came: int = 0
    connects: int = 0
    caught_up: float = 0.0
    rss: int = 0
    """The most resident memory of the broker with the bridge, in bytes."""


class Side:
    """One broker, which is killed and started again on the same port and journal."""

    def __init__(
        self, folder: Path, name: str, command: Sequence[str], bridges: list[dict[str, Any]], memory: str = "256MiB"
    ) -> None:
        self.address = Address(HOST, free_port())
        self._folder = folder / name
        self._folder.mkdir()
        self._command = command
        bind = f"{HOST}:{self.address.port}"
        self._sections: dict[str, Any] = {
            "node_name": name,
            "listeners": [{"name": "tcp", "bind": bind}],
            "persistence": {"directory": str(self._folder / "journal"), "memory": memory},
            "session": {"max_mqueue_len": "infinity", "max_mqueue_bytes": "infinity"},
            "bridges": bridges,
        }
        self.connects = 0
        self.broker = self._start()

    def _start(self) -> BrokerProcess:
        return start_sluice(self._folder, sections=self._sections, command=self._command)

    def kill(self) -> None:
        """kill -9, and start again."""
        self.halt()
        self.go_on()

    def halt(self) -> None:
        """kill -9, and stay away."""
        self._end("SIGKILL")

    def go_on(self) -> None:
        """Come back after `halt`."""
        self.broker = self._start()

    def _end(self, how: str) -> None:
        self.broker.ask_to_end(signal.Signals[how])
        self.connects += self.broker.stderr.count('"bridge_connected"')
        self.broker.stop()

    def stop(self) -> list[str]:
        """Stop in order; returns what must not be in the log."""
        self._end("SIGTERM")
        return self.broker.trouble()


async def run_round(
    folder: Path,
    chance: random.Random,
    seconds: float,
    kills: int,
    rate: float,
    version: str = "5",
    command: Sequence[str] = SLUICE,
) -> Outcome:
    """Run one round, and check it."""
    outcome = Outcome()
    far = Side(folder, "far", command, [])
    proxy = Proxy(far.address, chance)
    bridge = {
        "name": "far",
        "address": f"{HOST}:{await proxy.open()}",
        "proto_ver": version,
        "keepalive": "5s",
        "reconnect_min": "100ms",
        "reconnect_max": "1s",
        "topics": [{"filter": "near/#", "direction": "out"}, {"filter": "far/#", "direction": "in"}],
    }
    near = Side(folder, "near", command, [bridge])
    at_near = Subscriber("sub-near", near.address, "#")
    at_far = Subscriber("sub-far", far.address, "#")
    for subscriber in (at_near, at_far):
        await asyncio.to_thread(wait_until, subscriber.ready.is_set, "a subscriber")
    await asyncio.to_thread(wait_until, lambda: '"bridge_connected"' in near.broker.stderr, "the bridge")
    out = [Publisher("near", near.address, number, number % 3) for number in range(PUBLISHERS)]
    into = [Publisher("far", far.address, number, number % 3) for number in range(PUBLISHERS)]
    traffic = asyncio.create_task(publish(out + into, rate, outcome, near))
    murder = asyncio.create_task(kill(chance, [near, far], kills, seconds, outcome))
    await proxy.disturb(seconds)
    await murder
    traffic.cancel()
    with suppress(asyncio.CancelledError):
        await traffic
    began = asyncio.get_running_loop().time()
    await asyncio.to_thread(settle, [(out, at_far), (into, at_near), (out, at_near), (into, at_far)])
    outcome.caught_up = asyncio.get_running_loop().time() - began
    for publishers, subscriber, own in ((out, at_far, at_near), (into, at_near, at_far)):
        for publisher in publishers:
            outcome.violations += violations(publisher, subscriber.came[publisher.topic])
            outcome.violations += [f"at home {each}" for each in violations(publisher, own.came[publisher.topic])]
            outcome.acknowledged += len(publisher.acknowledged)
    outcome.came = at_near.count() + at_far.count()
    outcome.happened += proxy.happened
    for publisher in (*out, *into):
        await asyncio.to_thread(publisher.stop)
    for subscriber in (at_near, at_far):
        await asyncio.to_thread(subscriber.stop)
    await proxy.close()
    for side in (near, far):
        outcome.violations += await asyncio.to_thread(side.stop)
    outcome.connects = near.connects
    return outcome


async def publish(publishers: list[Publisher], rate: float, outcome: Outcome, near: Side) -> None:
    """Publish at a rate until cancelled."""
    step = 0.02
    while True:
        for _ in range(max(1, int(rate * step / len(publishers)))):
            for publisher in publishers:
                publisher.publish()
        with suppress(Exception):  # it is being killed
            outcome.rss = max(outcome.rss, near.broker.rss())
        await asyncio.sleep(step)  # the rate: it waits for nothing


async def kill(chance: random.Random, sides: list[Side], kills: int, seconds: float, outcome: Outcome) -> None:
    """Kill each broker so many times."""
    victims = sides * kills
    chance.shuffle(victims)
    for victim in victims:
        await asyncio.sleep(seconds / (len(victims) + 1))  # kills are spread over the round
        await asyncio.to_thread(victim.kill)
        outcome.happened["kill -9"] += 1


def settle(flows: list[tuple[list[Publisher], Subscriber]]) -> None:
    """Wait until all is acknowledged, and everything acknowledged has come, or nothing more comes in time."""

    def arrived() -> bool:
        return all(
            not publisher.pending
            and (not publisher.qos or publisher.acknowledged <= set(subscriber.came[publisher.topic]))
            for publishers, subscriber in flows
            for publisher in publishers
        )

    with suppress(TimeoutError, AssertionError):
        wait_until(arrived, "everything to arrive", CATCH_UP)
