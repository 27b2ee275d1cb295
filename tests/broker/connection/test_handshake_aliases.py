"""Topic aliases that the broker sends to a client which accepts them."""

import pytest

from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.properties import Properties
from protocol.publish import Publish
from tests.support.broker.collecting import collect
from tests.support.process import Address
from tests.support.wire import WireClient, connected


def taking(address: Address, maximum: int, **more: int) -> WireClient:
    """A connected client with a Topic Alias Maximum."""
    client = WireClient(address, 5)
    client.connect(properties={props.TOPIC_ALIAS_MAXIMUM: maximum, **{getattr(props, k): v for k, v in more.items()}})
    return client


def alias_of(message: Publish) -> object:
    """The alias in a message, None if it has none."""
    return (message.properties or {}).get(props.TOPIC_ALIAS)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_topic_once(address: Address, qos: int) -> None:
    """The first message has topic and alias, later ones the alias; a client that accepts none gets the topic."""
    with taking(address, 5) as client, connected(address, 5) as plain, connected(address, 4) as sender:
        client.subscribe("out/#", qos=qos)
        plain.subscribe("out/#", qos=qos)
        for number in range(3):
            sender.publish("out/topic", b"%d" % number, qos)
        messages = collect(client)
        assert [message.topic for message in messages] == [b"out/topic", b"", b""]
        assert [alias_of(message) for message in messages] == [1, 1, 1]
        assert [message.payload for message in messages] == [b"0", b"1", b"2"]
        assert [(message.topic, alias_of(message)) for message in collect(plain)] == [(b"out/topic", None)] * 3


def test_maximum_is_kept(address: Address) -> None:
    """The broker uses at most the client's Topic Alias Maximum; other topics are sent in full [MQTT-3.1.2-26]."""
    with taking(address, 2) as client, connected(address, 5) as sender:
        client.subscribe("most/#")
        names = [f"most/{number}" for number in range(4)]
        for name in names * 2:
            sender.publish(name)
        seen: dict[object, bytes] = {}
        arrived = []
        for _ in range(8):
            message = client.receive_message()
            alias = alias_of(message)
            assert alias in {None, 1, 2}
            if message.topic and alias:
                seen[alias] = message.topic
            arrived.append((message.topic or seen[alias]).decode())
        assert arrived == names * 2


def test_with_everything_else(address: Address) -> None:
    """An alias is sent together with properties, subscription identifiers and the remaining expiry."""
    with taking(address, 2) as client, connected(address, 5) as sender:
        client.subscribe("all/#", properties={props.SUBSCRIPTION_IDENTIFIER: 300})
        sent: Properties = {props.USER_PROPERTY: [("b", "1"), ("a", "2")], props.MESSAGE_EXPIRY_INTERVAL: 100}
        for _ in range(2):
            sender.publish("all/at/once", b"x", properties=dict(sent))
        for topic in (b"all/at/once", b""):
            message = client.receive_message()
            assert message.topic == topic
            assert message.properties is not None
            assert message.properties[props.USER_PROPERTY] == [("b", "1"), ("a", "2")]
            assert message.properties[props.SUBSCRIPTION_IDENTIFIER] == [300]
            assert message.properties[props.TOPIC_ALIAS] == 1
            assert message.properties[props.MESSAGE_EXPIRY_INTERVAL] in {99, 100}


def test_packet_size_counts_the_alias(address: Address) -> None:
    """A message is sent without the alias that would make it exceed Maximum Packet Size [MQTT-3.1.2-24]."""
    size = len(Publish(b"size/x", bytes(50)).encode(5))
    with taking(address, 5, MAXIMUM_PACKET_SIZE=size) as client, connected(address, 5) as sender:
        client.subscribe("size/x")
        sender.publish("size/x", bytes(50))
        sender.publish("size/x", bytes(10))
        sender.publish("size/x", bytes(50))
        messages = [client.receive_message() for _ in range(3)]
        assert [(message.topic, alias_of(message)) for message in messages] == [
            (b"size/x", None),
            (b"size/x", 1),
            (b"", 1),
        ]


def test_new_connection_new_aliases(address: Address) -> None:
    """Messages resent on a new connection have their topic, because aliases end with their connection."""
    kept = {props.SESSION_EXPIRY_INTERVAL: 60, props.TOPIC_ALIAS_MAXIMUM: 5}
    with connected(address, 5) as sender:
        with WireClient(address, 5) as client:
            client.connect("alias-again", properties=dict(kept))
            client.subscribe("again/#", qos=1)
            for number in range(2):
                sender.publish("again/topic", b"%d" % number, 1)
                client.expect(Publish)  # and no acknowledgement
        with WireClient(address, 5) as client:
            client.connect("alias-again", clean_start=False, properties=dict(kept))
            for number in range(2):
                message = client.expect(Publish)
                assert (message.topic, message.payload, message.dup) == (b"again/topic", b"%d" % number, True)
                assert alias_of(message) is None
                client.send(Puback(message.packet_id))
            sender.publish("again/topic", b"2", 1)
            message = client.receive_message()
            assert (message.topic, alias_of(message)) == (b"again/topic", 1)
