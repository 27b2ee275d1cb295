"""Each client publishes and subscribes at each QoS, in both versions of MQTT, over TCP and TLS."""

import os
from collections.abc import Callable
from typing import NamedTuple
from uuid import uuid4

import pytest

from tests.clients import aiomqtt_client, gmqtt_client, mosquitto, mqttjs, paho
from tests.clients.exchange import Outcome, Plan, Received, Tls
from tests.support.certificates import Certificates
from tests.support.process import BrokerProcess


def nothing_missing() -> str:
    """Clients that are Python packages come with the dev extra."""
    return ""


class Client(NamedTuple):
    """How to run one client's exchange, and what is missing for it."""

    run: Callable[[Plan], Outcome]
    missing: Callable[[], str]


CLIENTS = {
    "paho": Client(paho.run, nothing_missing),
    "aiomqtt": Client(aiomqtt_client.run, nothing_missing),
    "gmqtt": Client(gmqtt_client.run, nothing_missing),
    "mqttjs": Client(mqttjs.run, mqttjs.missing),
    "mosquitto": Client(mosquitto.run, mosquitto.missing),
}


def plan_for(broker: BrokerProcess, certificates: Certificates, listener: str, version: int, qos: int) -> Plan:
    """Return a plan with a topic of its own."""
    tls = Tls(str(certificates.cafile)) if listener == "tls" else None
    if listener == "mutual":
        tls = Tls(str(certificates.cafile), certificates.client)
    return Plan(broker.address(listener), tls, version, qos, f"clients/größe/{uuid4().hex}")


def exchange(client: str, plan: Plan) -> None:
    """Carry out an exchange and compare; a client that is not installed is skipped, but not in CI."""
    missing = CLIENTS[client].missing()
    if missing and not os.environ.get("CI"):
        pytest.skip(missing)
    assert not missing
    assert CLIENTS[client].run(plan) == plan.expected()


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("listener", ["tcp", "tls"])
@pytest.mark.parametrize("client", CLIENTS)
def test_publish_and_subscribe(
    broker: BrokerProcess, certificates: Certificates, client: str, listener: str, version: int, qos: int
) -> None:
    """Payloads, order, QoS and the retain flag arrive as they were sent, and a retained message is kept."""
    exchange(client, plan_for(broker, certificates, listener, version, qos))


@pytest.mark.parametrize("client", CLIENTS)
def test_client_certificate(broker: BrokerProcess, certificates: Certificates, client: str) -> None:
    """A client that shows its certificate is let in where one is required."""
    exchange(client, plan_for(broker, certificates, "mutual", 5, 1))


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_will(broker: BrokerProcess, certificates: Certificates, version: int, qos: int) -> None:
    """The will of a client that vanishes is published, and kept if it said so [MQTT-3.1.2-8]."""
    plan = plan_for(broker, certificates, "tcp", version, qos)
    will = Received(f"{plan.topic}/will", b"gone", qos, True)
    with paho.connected(plan) as subscriber, paho.connected(plan) as late:
        subscriber.subscribe(plan.topic_filter, qos)
        paho.Client(plan, will).vanish()
        assert subscriber.receive(1) == [will._replace(retain=False)]
        late.subscribe(plan.topic_filter, qos)
        assert late.receive(1) == [will]
        late.publish(will.topic, b"", qos, retain=True)


@pytest.mark.parametrize("version", [4, 5])
def test_no_will_after_disconnect(broker: BrokerProcess, certificates: Certificates, version: int) -> None:
    """A client that disconnects takes its will with it [MQTT-3.14.4-3]."""
    plan = plan_for(broker, certificates, "tcp", version, 1)
    with paho.connected(plan) as subscriber:
        subscriber.subscribe(plan.topic_filter, 1)
        with paho.connected(plan, Received(f"{plan.topic}/will", b"gone", 1, False)):
            pass
        subscriber.publish(f"{plan.topic}/after", b"after", 1)
        assert subscriber.receive(1) == [Received(f"{plan.topic}/after", b"after", 1, False)]
