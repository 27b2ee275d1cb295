"""FC-34: what users of paho-mqtt see of `mqueue_overflow: reject` and `block`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from tests.support.brokers import TCP_ONLY, start_sluice
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

COUNT = 300
QUOTA_EXCEEDED = 0x97


class Client:
    """A paho-mqtt client with its defaults: what it has received, and how its PUBLISHes were answered."""

    def __init__(self, broker: BrokerProcess, version: MQTTProtocolVersion) -> None:
        self.received: list[int] = []
        self.answers: dict[int, int] = {}
        self.subscribed = False
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=version)
        self.client.on_message = lambda _client, _data, message: self.received.append(int(message.payload))
        self.client.on_publish = lambda _client, _data, mid, code, _properties: self.answers.update({mid: code.value})
        self.client.on_subscribe = lambda *_: setattr(self, "subscribed", True)
        host, port = broker.address()
        self.client.connect(host, port)
        self.client.loop_start()

    def subscribe(self) -> None:
        """Subscribe, and wait for SUBACK."""
        self.client.subscribe("t", 1)
        wait_until(lambda: self.subscribed, "SUBACK")

    def publish(self) -> list[int]:
        """Publish in a loop; returns the message ids once all are answered."""
        ids = [self.client.publish("t", str(number), 1).mid for number in range(COUNT)]
        wait_until(lambda: len(self.answers) == COUNT, "all are answered", 30)
        return ids

    def close(self) -> None:
        """Disconnect."""
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture(params=[MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5])
def version(request: pytest.FixtureRequest) -> MQTTProtocolVersion:
    """What the clients speak."""
    return request.param  # type: ignore[no-any-return]


def start(folder: Path, policy: str) -> BrokerProcess:
    """A broker whose sessions hold 30 messages, and take 200 a second."""
    own: dict[str, Any] = {"mqueue_overflow": policy, "max_inflight": 20, "max_mqueue_len": 10}
    return start_sluice(folder, TCP_ONLY, {"session": {**own, "consumer_max_rate": 200, "overflow_patience": 0}})


@pytest.fixture
def pair(
    request: pytest.FixtureRequest, tmp_path: Path, version: MQTTProtocolVersion
) -> Iterator[tuple[Client, Client]]:
    """A subscriber and a publisher."""
    with start(tmp_path, request.param) as broker:
        subscriber, publisher = Client(broker, version), Client(broker, version)
        subscriber.subscribe()
        yield subscriber, publisher
        subscriber.close()
        publisher.close()


@pytest.mark.parametrize("pair", ["block"], indirect=True)
def test_block(pair: tuple[Client, Client]) -> None:
    """FC-34: with `block` a client that publishes in a loop is slowed down, and nothing is lost or refused."""
    subscriber, publisher = pair
    publisher.publish()
    wait_until(lambda: len(subscriber.received) >= COUNT, "all have come", 30)
    assert subscriber.received == list(range(COUNT))
    assert set(publisher.answers.values()) == {0}


@pytest.mark.parametrize("pair", ["reject"], indirect=True)
@pytest.mark.parametrize("version", [MQTTProtocolVersion.MQTTv5], indirect=True)
def test_reject(pair: tuple[Client, Client]) -> None:
    """FC-34: with `reject` just what is answered with success is delivered; the rest is answered with 0x97."""
    subscriber, publisher = pair
    ids = publisher.publish()
    accepted = [number for number, mid in enumerate(ids) if publisher.answers[mid] == 0]
    assert set(publisher.answers.values()) == {0, QUOTA_EXCEEDED}
    wait_until(lambda: len(subscriber.received) >= len(accepted), "they have come", 30)
    assert subscriber.received == accepted
