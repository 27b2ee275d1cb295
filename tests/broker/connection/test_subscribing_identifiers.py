"""Subscription identifiers and overlapping subscriptions over sockets."""

from collections.abc import Callable

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.disconnect import Disconnect
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.collecting import collect
from tests.support.process import Address, BrokerProcess
from tests.support.wire import WireClient, connected

Start = Callable[..., BrokerProcess]


def identified(client: WireClient, topic_filter: str, identifier: int, qos: int = 0) -> None:
    """Subscribe with an identifier."""
    client.subscribe(topic_filter, qos=qos, properties={props.SUBSCRIPTION_IDENTIFIER: identifier})


def identifiers_of(message: Publish) -> list[int]:
    """The identifiers in a message, sorted: their order means nothing."""
    found = (message.properties or {}).get(props.SUBSCRIPTION_IDENTIFIER, [])
    assert isinstance(found, list)
    return sorted(int(str(number)) for number in found)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_all_that_match(address: Address, qos: int) -> None:
    """A message is delivered once, at the highest QoS, with all matching identifiers [MQTT-3.3.4-4]."""
    with connected(address, 5) as client, connected(address, 4) as sender:
        identified(client, "id/#", 1, qos=0)
        identified(client, "id/a", 268_435_455, qos=qos)
        client.subscribe("id/+", qos=0)
        sender.publish("id/a", b"x", qos)
        (message,) = collect(client)
        assert (message.qos, identifiers_of(message)) == (qos, [1, 268_435_455])
        sender.publish("id/b", b"x", qos)
        (message,) = collect(client)
        assert (message.qos, identifiers_of(message)) == (0, [1])


def test_only_for_who_asked(address: Address) -> None:
    """Other subscribers, also of 3.1.1, get the message without the identifiers."""
    with connected(address, 5) as client, connected(address, 5) as other, connected(address, 4) as older:
        identified(client, "own/a", 7)
        other.subscribe("own/a")
        older.subscribe("own/a")
        client.publish("own/a", b"x", properties={props.CONTENT_TYPE: "text"})
        assert client.receive_message().properties == {props.CONTENT_TYPE: "text", props.SUBSCRIPTION_IDENTIFIER: [7]}
        assert other.receive_message().properties == {props.CONTENT_TYPE: "text"}
        assert older.receive_message().payload == b"x"


def test_replaced(address: Address) -> None:
    """Subscribing again replaces or removes the identifier."""
    with connected(address, 5) as client:
        for identifiers in ([1], [2], []):
            properties: Properties = {props.SUBSCRIPTION_IDENTIFIER: identifiers[0]} if identifiers else {}
            client.subscribe("re/a", properties=properties)
            client.publish("re/a")
            assert identifiers_of(client.receive_message()) == identifiers


def test_retained_and_stored(address: Address) -> None:
    """Retained messages have the new subscription's identifier; messages queued for an offline client keep theirs."""
    kept = {props.SESSION_EXPIRY_INTERVAL: 60}
    with connected(address, 5) as sender:
        sender.publish("keep/a", b"r", 1, retain=True)
        with WireClient(address, 5) as client:
            client.connect("id-kept", properties=dict(kept))
            identified(client, "keep/#", 5, qos=1)
            assert identifiers_of(client.receive_message()) == [5]
        sender.publish("keep/a", b"s", 1)
        with WireClient(address, 5) as client:
            client.connect("id-kept", clean_start=False, properties=dict(kept))
            message = client.receive_message()
            assert (message.payload, identifiers_of(message)) == (b"s", [5])
        sender.publish("keep/a", b"", 1, retain=True)


def test_not_from_clients(address: Address) -> None:
    """A client may not put an identifier into its PUBLISH [MQTT-3.3.4-6]."""
    with connected(address, 5) as client:
        client.send(Publish(b"t", b"x", properties={props.SUBSCRIPTION_IDENTIFIER: [3]}))
        last = client.expect_close()
        assert isinstance(last, Disconnect)
        assert last.reason_code == reason_codes.PROTOCOL_ERROR


def test_no_local_beside_another(address: Address) -> None:
    """A client gets its own message by its subscriptions without No Local only, with their QoS and identifiers."""
    with connected(address, 5) as client, connected(address, 5) as other:
        client.send(Subscribe(1, [Subscription("mine/#", 2, no_local=True)], {props.SUBSCRIPTION_IDENTIFIER: 1}))
        client.expect(Suback)
        identified(client, "mine/a", 2, qos=1)
        client.publish("mine/a", b"x", 0)
        (message,) = collect(client)
        assert identifiers_of(message) == [2]
        other.publish("mine/a", b"x", 2)
        (message,) = collect(client)
        assert (message.qos, identifiers_of(message)) == (2, [1, 2])


def test_no_local_retained(address: Address) -> None:
    """With No Local a client does not get its own retained message either [MQTT-3.8.3-3]."""
    with connected(address, 5) as client, connected(address, 5) as other:
        client.publish("nlr/mine", b"x", 1, retain=True)
        other.publish("nlr/other", b"x", 1, retain=True)
        client.send(Subscribe(1, [Subscription("nlr/+", 0, no_local=True)]))
        client.expect(Suback)
        assert [message.topic for message in collect(client)] == [b"nlr/other"]
        for name in ("mine", "other"):
            client.publish(f"nlr/{name}", b"", 1, retain=True)


@pytest.mark.parametrize("version", [4, 5])
def test_each(start: Start, version: int) -> None:
    """`overlapping_subscriptions: each` delivers once for each subscription that matches, at its own QoS."""
    broker = start(sections={"mqtt": {"overlapping_subscriptions": "each"}})
    with connected(broker.address(), version) as client, connected(broker.address(), 5) as sender:
        client.subscribe("each/#", qos=0)
        client.subscribe("each/a", qos=2)
        if version == 5:
            identified(client, "each/+", 4, qos=1)
        else:
            client.subscribe("each/+", qos=1)
        sender.publish("each/a", b"x", 2)
        found = sorted((message.qos, identifiers_of(message)) for message in collect(client))
        assert found == [(0, []), (1, [4] if version == 5 else []), (2, [])]
