"""FC-37: with `conflate` a slow subscriber gets the newest value of each topic, in order, and none is lost."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.publish import Publish
from tests.support.broker.metrics import check_books, of_client, read_rows, total
from tests.support.brokers import TCP_ONLY, start_sluice
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

FOR_AN_HOUR: props.Properties = {props.SESSION_EXPIRY_INTERVAL: 3600}
SENSORS, VALUES = 50, 20


def conflating(**sections: Any) -> dict[str, Any]:
    """A configuration: one delivery at a time, and room for one value of each sensor."""
    return {"session": {"conflate": ["s/#"], "max_inflight": 1, "max_mqueue_len": SENSORS}, **sections}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what is opened."""
    with ExitStack() as opened:
        yield opened


def measure(broker: BrokerProcess) -> None:
    """Each sensor publishes one value after the other; all is acknowledged."""
    with connected(broker.address(), client_id="sensors") as sensors:
        for value in range(VALUES):
            sensors.send(
                *[Publish(b"s/%d" % sensor, b"%d" % value, 1, packet_id=sensor + 1) for sensor in range(SENSORS)]
            )
            for _ in range(SENSORS):
                sensors.expect(Puback)


def received(client: WireClient, count: int) -> list[tuple[str, int]]:
    """The next values, each acknowledged before the next one comes."""
    messages = [client.receive_message() for _ in range(count)]
    return [(message.topic.decode(), int(message.payload)) for message in messages]


def test_a_slow_subscriber(tmp_path: Path, stack: ExitStack) -> None:
    """FC-37: paho, which acknowledges late, gets what was sent before, then the newest value of each of 50 sensors."""
    sections = conflating(metrics={"directory": "metrics", "interval": "1h"})
    broker = stack.enter_context(start_sluice(tmp_path, TCP_ONLY, sections))
    values: list[tuple[str, int]] = []
    slow = mqtt.Client(CallbackAPIVersion.VERSION2, "slow", protocol=MQTTProtocolVersion.MQTTv5, manual_ack=True)
    unacknowledged: list[int] = []

    def on_message(_client: mqtt.Client, _data: object, message: mqtt.MQTTMessage) -> None:
        values.append((message.topic, int(message.payload)))
        unacknowledged.append(message.mid)

    slow.on_message = on_message
    slow.connect(*broker.address())
    stack.callback(slow.loop_stop)
    slow.loop_start()
    wait_until(slow.is_connected, "paho is connected")
    subscribed: list[int] = []
    slow.on_subscribe = lambda *_: subscribed.append(1)
    slow.subscribe("s/#", 1)
    wait_until(lambda: bool(subscribed), "paho is subscribed")
    measure(broker)
    while len(values) < 1 + SENSORS:
        wait_until(lambda: bool(unacknowledged), "the next value has come")
        slow.ack(unacknowledged.pop(), 1)

    newest = [(f"s/{sensor}", VALUES - 1) for sensor in range(SENSORS)]
    assert values == [("s/0", 0), *newest[1:], newest[0]]
    slow.disconnect()
    broker.stop()
    rows = read_rows(tmp_path / "metrics")
    check_books(rows)
    superseded = SENSORS * (VALUES - 1) - 1
    assert total(of_client(rows, "slow"), "superseded_qos1") == superseded
    assert total(of_client(rows, "slow"), "dropped_qos1") == 0


@pytest.mark.parametrize("memory", [0, 1])
@pytest.mark.parametrize("shared", ["", "$share/g/"])
def test_after_a_crash(tmp_path: Path, stack: ExitStack, memory: int, shared: str) -> None:
    """FC-37, FC-27, FC-30: what is superseded does not come back after kill -9, and a newer value still replaces."""
    sections = conflating(persistence={"directory": "journal", "memory": memory})
    with start_sluice(tmp_path, TCP_ONLY, sections) as broker, WireClient(broker.address(), 5) as subscriber:
        subscriber.connect("kept", properties=FOR_AN_HOUR)
        subscriber.subscribe(f"{shared}s/#", qos=1)
        subscriber.disconnect()
        measure(broker)
        os.kill(broker.pid, signal.SIGKILL)

    broker = stack.enter_context(start_sluice(tmp_path, TCP_ONLY, sections))
    with connected(broker.address(), client_id="one") as one:
        one.publish("s/7", b"99", 1)
    subscriber = stack.enter_context(WireClient(broker.address(), 5))
    assert subscriber.connect("kept", clean_start=False, properties=FOR_AN_HOUR).session_present

    assert received(subscriber, SENSORS) == [
        (f"s/{sensor}", 99 if sensor == 7 else VALUES - 1) for sensor in range(SENSORS)
    ]
