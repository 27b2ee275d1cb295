"""From publisher to subscriber: QoS, versions, properties, expiry, order, sizes."""

from itertools import product
from pathlib import Path

import pytest

from broker.runtime.clock import monotonic_us
from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.connect import Connect
from protocol.packet import Packet
from protocol.properties import Properties
from protocol.publish import Publish, encode_publish
from protocol.subscribe import Subscribe, Subscription
from tests.broker.conftest import Start
from tests.support.broker.collecting import collect
from tests.support.broker.stored import KEPT, broker_on, on_disk, say
from tests.support.broker.stored import connected as connected_to_journal
from tests.support.process import Address
from tests.support.wire import WireClient, connected

QOS = [0, 1, 2]
ALL_PROPERTIES: Properties = {
    props.PAYLOAD_FORMAT_INDICATOR: 1,
    props.CONTENT_TYPE: "text/plain",
    props.RESPONSE_TOPIC: "answers/hier",
    props.CORRELATION_DATA: b"\x00\xff",
    props.USER_PROPERTY: [("b", "1"), ("a", "2"), ("b", "3"), ("", "")],
}


@pytest.mark.parametrize("subscriber_version", [4, 5])
@pytest.mark.parametrize("publisher_version", [4, 5])
@pytest.mark.parametrize("subscribed", QOS)
@pytest.mark.parametrize("published", QOS)
def test_qos(
    address: Address, published: int, subscribed: int, publisher_version: int, subscriber_version: int
) -> None:
    """A delivery has the lower QoS of publication and subscription, for each pair of versions [MQTT-3.8.4-8]."""
    topic = f"qos/{published}/{subscribed}/{publisher_version}/{subscriber_version}"
    with connected(address, subscriber_version) as subscriber, connected(address, publisher_version) as publisher:
        assert subscriber.subscribe(topic, qos=subscribed).reason_codes == [subscribed]
        for payload in (b"", b"x", bytes(20_000)):
            publisher.publish(topic, payload, published)
            message = subscriber.receive_message()
            assert (message.topic, message.payload) == (topic.encode(), payload)
            assert (message.qos, message.retain, message.dup) == (min(published, subscribed), False, False)
            assert message.properties is None
        subscriber.expect_nothing_more()


@pytest.mark.parametrize(("published", "subscribed"), list(product(QOS, QOS)))
def test_properties(address: Address, published: int, subscribed: int) -> None:
    """All properties of a PUBLISH are forwarded, user properties in their order [MQTT-3.3.2-17]."""
    with connected(address, 5) as subscriber, connected(address, 4) as plain, connected(address, 5) as publisher:
        subscriber.subscribe("properties", qos=subscribed)
        plain.subscribe("properties", qos=subscribed)
        publisher.publish("properties", b"x", published, properties=dict(ALL_PROPERTIES))
        assert subscriber.receive_message().properties == ALL_PROPERTIES
        assert plain.receive_message().payload == b"x"


def test_many_subscribers(address: Address) -> None:
    """One message reaches subscribers of both versions and every QoS."""
    pairs = list(product((4, 5), QOS))
    subscribers = [(connected(address, version), qos) for version, qos in pairs]
    with connected(address, 5) as publisher:
        for client, qos in subscribers:
            client.subscribe("fan/#", qos=qos)
        publisher.publish("fan/out", b"payload", 2, properties={props.CONTENT_TYPE: "x"})
        for client, qos in subscribers:
            message = client.receive_message()
            assert (message.payload, message.qos) == (b"payload", qos)
            assert message.properties == ({props.CONTENT_TYPE: "x"} if client.version == 5 else None)
            client.disconnect()


@pytest.mark.parametrize("version", [4, 5])
def test_to_itself(address: Address, version: int) -> None:
    """A subscribed client gets its own messages; the packet ids of the two directions are separate."""
    with connected(address, version) as client:
        client.subscribe("itself", qos=1)
        client.send(*[Publish(b"itself", b"%d" % number, 1, packet_id=number) for number in range(1, 11)])
        received: list[Packet] = [client.receive() for _ in range(20)]
        deliveries = [packet for packet in received if isinstance(packet, Publish)]
        assert [packet.payload for packet in deliveries] == [b"%d" % number for number in range(1, 11)]
        assert [packet.packet_id for packet in received if isinstance(packet, Puback)] == list(range(1, 11))
        client.send(*[Puback(packet.packet_id) for packet in deliveries])
        client.expect_nothing_more()


@pytest.mark.parametrize("qos", QOS)
def test_order(address: Address, qos: int) -> None:
    """Messages of one publisher to one topic arrive in the order in which they were sent [MQTT-4.6.0-6]."""
    with connected(address, 5) as subscriber, connected(address, 4) as publisher:
        subscriber.subscribe("order", qos=qos)
        batch = [encode_publish(b"order", b"%d" % number, 0, False, False, 0, None, 4) for number in range(500)]
        publisher.send(*batch)
        for number in range(500):
            assert subscriber.receive_message().payload == b"%d" % number


def test_topics(address: Address) -> None:
    """Topic names are compared byte by byte: case, spaces, empty levels and any script."""
    topics = ["a/b", "A/b", "a/b/", "/a/b", "a//b", " ", "größe/℃/🌡", "/", "$weather/x"]
    with connected(address, 4) as publisher:
        for topic in topics:
            with connected(address, 5) as subscriber:
                subscriber.subscribe(topic)
                for other in topics:
                    publisher.publish(other, other.encode())
                publisher.expect_nothing_more()
                assert subscriber.receive_message().payload.decode() == topic
                subscriber.expect_nothing_more()


# -- expiry


@pytest.mark.parametrize("qos", QOS)
def test_expiry_is_passed_on(address: Address, qos: int) -> None:
    """A message that does not wait is sent with its Message Expiry Interval [MQTT-3.3.2-6]."""
    with connected(address, 5) as subscriber, connected(address, 4) as plain, connected(address, 5) as publisher:
        subscriber.subscribe("expiry", qos=qos)
        plain.subscribe("expiry", qos=qos)
        publisher.publish("expiry", b"x", qos, properties={props.MESSAGE_EXPIRY_INTERVAL: 100})
        assert subscriber.receive_message().properties == {props.MESSAGE_EXPIRY_INTERVAL: 100}
        assert plain.receive_message().payload == b"x"


def test_expiry_while_away(address: Address) -> None:
    """A message for an offline client expires, or is sent with the rest of its interval [MQTT-3.3.2-5, -6]."""
    with WireClient(address, 5) as client, connected(address, 5) as publisher:
        client.connect("expiring", properties={props.SESSION_EXPIRY_INTERVAL: 60})
        client.subscribe("away/#", qos=1)
        client.disconnect()
        for seconds in (100, 1):
            publisher.publish(f"away/{seconds}", b"x", 1, properties={props.MESSAGE_EXPIRY_INTERVAL: seconds})
        publisher.publish("clock", b"x", 1, retain=True, properties={props.MESSAGE_EXPIRY_INTERVAL: 1})
        publisher.subscribe("clock")
        while collect(publisher):
            publisher.subscribe("clock")
    with WireClient(address, 5) as client:
        assert client.connect("expiring", clean_start=False).session_present
        (message,) = collect(client)
        assert message.topic == b"away/100"
        assert message.properties is not None
        assert message.properties.keys() == {props.MESSAGE_EXPIRY_INTERVAL}
        assert 90 <= int(str(message.properties[props.MESSAGE_EXPIRY_INTERVAL])) <= 99


@pytest.mark.parametrize("policy", ["drop_oldest", "drop_oldest_qos0", "drop_newest"])
def test_what_has_expired_makes_room(start: Start, policy: str) -> None:
    """A full queue drops expired messages at its head before others [MQTT-3.3.2-5]."""
    address = start(sections={"session": {"max_mqueue_len": 2, "mqueue_overflow": policy}}).address()
    with connected(address, 5) as publisher:
        with WireClient(address, 5) as client:
            client.connect("full", properties={props.SESSION_EXPIRY_INTERVAL: 60})
            client.subscribe("full", qos=1)
        for _ in range(2):
            publisher.publish("full", b"expired", 1, properties={props.MESSAGE_EXPIRY_INTERVAL: 0})
        publisher.publish("full", b"first", 0)
        publisher.publish("full", b"second", 1)
        with WireClient(address, 5) as client:
            assert client.connect("full", clean_start=False).session_present
            assert [message.payload for message in collect(client)] == [b"first", b"second"]


# -- what does not fit


@pytest.mark.parametrize("qos", QOS)
def test_maximum_packet_size_of_a_client(address: Address, qos: int) -> None:
    """A message above a client's Maximum Packet Size is not sent to it; all others are [MQTT-3.1.2-24]."""
    with WireClient(address, 5) as small, connected(address, 5) as any_size, connected(address, 4) as publisher:
        small.connect(properties={props.MAXIMUM_PACKET_SIZE: 100})
        small.subscribe("size", qos=qos)
        any_size.subscribe("size", qos=qos)
        overhead = 2 + 2 + len("size") + 1 + (2 if qos else 0)
        sizes = [1, 100 - overhead, 100 - overhead + 1, 500, 2]
        for size in sizes:
            publisher.publish("size", bytes(size), qos)
        assert [message.size for message in collect(any_size)] == sizes
        assert [message.size for message in collect(small)] == [1, 100 - overhead, 2]


def test_no_subscriber(address: Address) -> None:
    """Without subscribers an MQTT 5 publisher gets 0x10, a 3.1.1 publisher just its acknowledgement."""
    with connected(address, 5) as new, connected(address, 4) as old:
        new.send(Publish(b"nobody/at/all", b"x", 1, packet_id=1))
        assert new.expect(Puback).reason_code == 0x10
        old.publish("nobody/at/all", b"x", 1)
        old.publish("nobody/at/all", b"x", 2)


def test_large_messages_to_many(address: Address) -> None:
    """Payloads near max_packet_size arrive unchanged, at each QoS and in both versions."""
    payload = bytes(range(256)) * 4000
    with connected(address, 5) as new, connected(address, 4) as old, connected(address, 5) as publisher:
        for client in (new, old):
            client.send(Subscribe(1, [Subscription("large/+", 2)]))
            client.receive()
        for qos in QOS:
            publisher.publish(f"large/{qos}", payload, qos)
            for client in (new, old):
                assert client.receive_message().payload == payload


def test_own_messages_survive(tmp_path: Path) -> None:
    """FC-27: what an operator publishes survives a restart as what a client publishes does."""
    with broker_on(tmp_path) as (local, storage):
        connected_to_journal(local, storage, "away", "t").drop()
        local.run(lambda: local.broker.messages.publish_own(Publish(b"t", b"own", 1), monotonic_us()))
        on_disk(local, storage)
    with broker_on(tmp_path) as (local, storage):
        came = say(local, storage, local.client(), Connect("away", False, 0, properties=KEPT, version=5))
        assert [packet.payload for packet in came if isinstance(packet, Publish)] == [b"own"]
