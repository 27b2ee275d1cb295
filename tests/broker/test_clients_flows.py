"""FC-33: with `mqueue_fairness: publisher` a quiet publisher neither waits behind a loud one nor loses to it."""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from protocol import properties as props
from protocol.publish import Publish
from tests.support.brokers import TCP_ONLY, start_sluice
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

FOR_AN_HOUR: props.Properties = {props.SESSION_EXPIRY_INTERVAL: 3600}
LOUD, QUIET = 300, 5


def fair(**session: Any) -> dict[str, Any]:
    """A configuration: one delivery at a time, and no patience, so that overflows are seen."""
    return {"session": {"mqueue_fairness": "publisher", "max_inflight": 1, "overflow_patience": 0, **session}}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what is opened."""
    with ExitStack() as opened:
        yield opened


def publish(broker: BrokerProcess, topic: str = "t", loud: int = LOUD) -> None:
    """A loud client publishes, then a quiet one; all is acknowledged."""
    for name, count in (("loud", loud), ("quiet", QUIET)):
        with connected(broker.address(), client_id=name) as client:
            for number in range(count):
                assert client.publish(topic, f"{name} {number}".encode(), 1) == 0


def subscribe(client: mqtt.Client) -> None:
    """Subscribe, and wait for SUBACK: what is published before it is for nobody."""
    subscribed: list[bool] = []
    client.on_subscribe = lambda *_: subscribed.append(True)
    client.subscribe("t", 1)
    wait_until(lambda: bool(subscribed), "SUBACK")


def received(client: WireClient, count: int) -> list[str]:
    """The next messages, each acknowledged before the next one comes."""
    return [client.receive_message().payload.decode() for _ in range(count)]


def check_order(texts: list[str]) -> None:
    """The quiet client's messages are among the first ones, and the order of each is that of publishing (FC-9)."""
    first = Counter(text.split()[0] for text in texts[: 2 * QUIET + 3])
    assert first["quiet"] == QUIET
    for name in ("loud", "quiet"):
        numbers = [int(text.split()[1]) for text in texts if text.startswith(name)]
        assert numbers == sorted(numbers)


def test_a_slow_subscriber(tmp_path: Path, stack: ExitStack) -> None:
    """FC-33: what a quiet publisher sends overtakes what a loud one has waiting for a slow subscriber."""
    broker = stack.enter_context(start_sluice(tmp_path, TCP_ONLY, fair()))
    subscriber = stack.enter_context(connected(broker.address()))
    subscriber.subscribe("t", qos=1)
    publish(broker)

    check_order(received(subscriber, LOUD + QUIET))


def test_without_it_the_loud_one_is_first(tmp_path: Path, stack: ExitStack) -> None:
    """FC-4: by default the queue is first in, first out."""
    broker = stack.enter_context(start_sluice(tmp_path, TCP_ONLY, fair(mqueue_fairness="fifo")))
    subscriber = stack.enter_context(connected(broker.address()))
    subscriber.subscribe("t", qos=1)
    publish(broker)

    assert received(subscriber, LOUD + QUIET)[-QUIET:] == [f"quiet {number}" for number in range(QUIET)]


@pytest.mark.parametrize("shared", ["", "$share/g/"])
def test_an_overflow(tmp_path: Path, stack: ExitStack, shared: str) -> None:
    """FC-33, FC-13: at an overflow of a session's or a group's queue only the loud publisher loses."""
    broker = stack.enter_context(start_sluice(tmp_path, TCP_ONLY, fair(max_mqueue_len=50)))
    subscriber = stack.enter_context(connected(broker.address()))
    subscriber.subscribe(f"{shared}t", qos=1)
    publish(broker)
    publish(broker)

    texts = received(subscriber, 51)
    assert Counter(text.split()[0] for text in texts)["quiet"] == 2 * QUIET


@pytest.mark.parametrize("memory", [0, 1])
@pytest.mark.parametrize("shared", ["", "$share/g/"])
def test_after_a_crash(tmp_path: Path, stack: ExitStack, memory: int, shared: str) -> None:
    """FC-33, FC-27, FC-30: after kill -9 the shares are the same, in memory and on disk only."""
    sections = fair() | {"persistence": {"directory": "journal", "memory": memory}}
    with start_sluice(tmp_path, TCP_ONLY, sections) as broker, WireClient(broker.address(), 5) as subscriber:
        subscriber.connect("kept", properties=FOR_AN_HOUR)
        subscriber.subscribe(f"{shared}t", qos=1)
        subscriber.disconnect()
        publish(broker)
        os.kill(broker.pid, signal.SIGKILL)

    broker = stack.enter_context(start_sluice(tmp_path, TCP_ONLY, sections))
    subscriber = stack.enter_context(WireClient(broker.address(), 5))
    assert subscriber.connect("kept", clean_start=False, properties=FOR_AN_HOUR).session_present
    check_order(received(subscriber, LOUD + QUIET))


def test_what_waited_before_it_was_switched_on(tmp_path: Path, stack: ExitStack) -> None:
    """FC-9: after a restart with another `mqueue_fairness` the order of each publisher's messages stays."""
    sections = {"persistence": {"directory": "journal"}}
    with start_sluice(tmp_path, TCP_ONLY, fair(mqueue_fairness="fifo") | sections) as broker:
        subscriber = connected(broker.address(), 5, client_id="kept", properties=FOR_AN_HOUR)
        subscriber.subscribe("t", qos=1)
        subscriber.disconnect()
        publish(broker, loud=20)

    broker = stack.enter_context(start_sluice(tmp_path, TCP_ONLY, fair() | sections))
    with connected(broker.address(), client_id="loud") as loud:
        for number in range(20, 30):
            loud.publish("t", f"loud {number}".encode(), 1)
    subscriber = stack.enter_context(WireClient(broker.address(), 5))
    subscriber.connect("kept", clean_start=False, properties=FOR_AN_HOUR)

    assert received(subscriber, 30 + QUIET)[-10:] == [f"loud {number}" for number in range(20, 30)]


def test_only_the_loud_one_is_paced(tmp_path: Path, stack: ExitStack) -> None:
    """FC-16, FC-33: while a queue overflows and drains, a publisher above its share is held back, and nobody loses."""
    sections = fair(max_mqueue_len=50, overflow_patience="5s", consumer_max_rate=200)
    broker = stack.enter_context(start_sluice(tmp_path, TCP_ONLY, sections))
    texts: list[str] = []
    subscriber = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
    subscriber.on_message = lambda *got: texts.append(got[2].payload.decode())
    subscriber.connect(*broker.address())
    stack.callback(subscriber.loop_stop)
    subscriber.loop_start()
    wait_until(subscriber.is_connected, "paho is connected")
    subscribe(subscriber)
    loud, quiet = (stack.enter_context(connected(broker.address(), client_id=name)) for name in ("loud", "quiet"))
    loud.send(*[Publish(b"t", b"loud %d" % number, 1, packet_id=number + 1) for number in range(500)])
    wait_until(lambda: len(texts) > 20, "some have come")

    before = len(texts)
    for number in range(QUIET):
        assert quiet.publish("t", f"quiet {number}".encode(), 1) == 0

    wait_until(lambda: len(texts) == 500 + QUIET, "nobody loses")
    assert texts.index(f"quiet {QUIET - 1}") < before + 100
