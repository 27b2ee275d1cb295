"""FC-33: with `group_order: key` the members of a group handle what each publisher sends in its order."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.support.brokers import TCP_ONLY, start_sluice
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import connected

PUBLISHERS, EACH = 5, 30


def keyed(**sections: Any) -> dict[str, Any]:
    """A configuration."""
    return {"session": {"mqueue_fairness": "publisher", "group_order": "key", "max_inflight": 8}, **sections}


class Worker:
    """A member of the group that handles a few messages now and then, and acknowledges them when it has."""

    def __init__(self, name: str, every: int, share: int, done: list[str]) -> None:
        """`done`: what all have handled, in that order."""
        self._every = every
        self._share = share
        self._done = done
        self._inbox: list[mqtt.MQTTMessage] = []
        self._calls = 0
        self._name = name
        self._client: mqtt.Client | None = None

    def start(self, broker: BrokerProcess, expiry: int = 0) -> None:
        """Connect and subscribe; the session is kept for `expiry` seconds."""
        self._inbox.clear()
        client = self._client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            self._name,
            protocol=MQTTProtocolVersion.MQTTv5,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.on_message = lambda *got: self._inbox.append(got[2])
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = expiry
        client.connect(*broker.address(), clean_start=False, properties=properties)
        client.loop_start()
        wait_until(client.is_connected, "paho is connected")
        subscribed: list[int] = []
        client.on_subscribe = lambda *got: subscribed.append(got[2])
        client.subscribe("$share/g/t", 1)
        wait_until(lambda: len(subscribed) == 1, "it is subscribed")

    def stop(self) -> None:
        """Be gone."""
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()
            self._client = None

    def holds(self) -> int:
        """How many messages it has that are not handled."""
        return len(self._inbox)

    def work(self) -> None:
        """Handle some, if it is time."""
        self._calls += 1
        for _ in range(self._share if self._calls % self._every == 0 else 0):
            if self._inbox and self._client is not None:
                message = self._inbox.pop(0)
                self._done.append(message.payload.decode())
                self._client.ack(message.mid, message.qos)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what is opened."""
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def done() -> list[str]:
    """What has been handled."""
    return []


@pytest.fixture
def workers(done: list[str]) -> Iterator[list[Worker]]:
    """A quick one, one that is slower, and one that is slow."""
    members = [Worker("quick", 1, 8, done), Worker("steady", 1, 1, done), Worker("slow", 6, 1, done)]
    yield members
    for member in members:
        member.stop()


def publish(broker: BrokerProcess, first: int, last: int) -> None:
    """Five clients publish in turn."""
    with ExitStack() as opened:
        clients = [
            opened.enter_context(connected(broker.address(), client_id=f"p{number}")) for number in range(PUBLISHERS)
        ]
        for number in range(first, last):
            for name, client in enumerate(clients):
                assert client.publish("t", f"p{name} {number}".encode(), 1) == 0


def work(workers: list[Worker], done: list[str], count: int) -> None:
    """They work until so many different messages have been handled."""

    def step() -> bool:
        for worker in workers:
            worker.work()
        return len(set(done)) >= count

    wait_until(step, f"{count} have been handled")


def is_in_order(done: list[str]) -> bool:
    """Whether what each client has published was first handled in that order, and completely."""
    first = list(dict.fromkeys(done))
    every = [[int(text.split()[1]) for text in first if text.startswith(f"p{name} ")] for name in range(PUBLISHERS)]
    return all(numbers == list(range(EACH)) for numbers in every)


@pytest.mark.parametrize("order", ["key", "any"])
def test_members_of_different_speed(
    tmp_path: Path, stack: ExitStack, workers: list[Worker], done: list[str], order: str
) -> None:
    """FC-33: all messages of a publisher are handled in its order by whoever gets them; not so by default."""
    sections = keyed()
    sections["session"]["group_order"] = order
    broker = stack.enter_context(start_sluice(tmp_path, TCP_ONLY, sections))
    for worker in workers:
        worker.start(broker)
    publish(broker, 0, EACH // 2)
    work(workers, done, PUBLISHERS * EACH // 4)
    publish(broker, EACH // 2, EACH)
    work(workers, done, PUBLISHERS * EACH)
    assert is_in_order(done) == (order == "key")
    assert len(done) == PUBLISHERS * EACH


def test_a_member_that_dies(tmp_path: Path, stack: ExitStack, workers: list[Worker], done: list[str]) -> None:
    """FC-33, FC-13: what it has not acknowledged is handled by another one, before what follows."""
    broker = stack.enter_context(start_sluice(tmp_path, TCP_ONLY, keyed()))
    for worker in workers:
        worker.start(broker)
    publish(broker, 0, EACH // 2)
    work(workers, done, PUBLISHERS * EACH // 4)
    slow = workers.pop()
    wait_until(lambda: slow.holds() > 0, "it has something to do")
    slow.stop()
    publish(broker, EACH // 2, EACH)
    work(workers, done, PUBLISHERS * EACH)
    assert is_in_order(done)


@pytest.mark.parametrize("memory", [0, 1])
def test_after_a_crash(tmp_path: Path, stack: ExitStack, workers: list[Worker], done: list[str], memory: int) -> None:
    """FC-33, FC-27, FC-30: after kill -9 kept members go on in order, also with what is on disk only."""
    sections = keyed(persistence={"directory": "journal", "memory": memory})
    with start_sluice(tmp_path, TCP_ONLY, sections) as broker:
        for worker in workers:
            worker.start(broker, 3600)
        publish(broker, 0, EACH // 2)
        work(workers, done, PUBLISHERS * EACH // 4)
        os.kill(broker.pid, signal.SIGKILL)
    for worker in workers:
        worker.stop()
    broker = stack.enter_context(start_sluice(tmp_path, TCP_ONLY, sections))
    publish(broker, EACH // 2, EACH)
    for worker in workers:
        worker.start(broker, 3600)
    work(workers, done, PUBLISHERS * EACH)
    assert is_in_order(done)
