"""SUBSCRIBE and UNSUBSCRIBE over sockets: filters, options, overlapping subscriptions, refusals."""

import pytest

from protocol import reason_codes
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from protocol.unsuback import Unsuback
from protocol.unsubscribe import Unsubscribe
from tests.support.broker.collecting import collect
from tests.support.process import Address
from tests.support.wire import WireClient, connected


def subscribe(client: WireClient, *subscriptions: Subscription) -> list[int]:
    """Subscribe with options; returns the reason codes."""
    client.send(Subscribe(client.packet_id(), list(subscriptions)))
    return client.expect(Suback).reason_codes


def received(client: WireClient) -> list[tuple[str, int]]:
    """Topic and QoS of everything that is on its way."""
    return [(message.topic.decode(), message.qos) for message in collect(client)]


# -- filters


@pytest.mark.parametrize(
    ("topic_filter", "expected"),
    [
        ("filter/a/b", {"filter/a/b"}),
        ("filter/+/b", {"filter/a/b", "filter//b"}),
        ("filter/a/+", {"filter/a/b", "filter/a/"}),
        ("filter/+", {"filter/a", "filter/"}),
        ("filter/#", {"filter", "filter/", "filter/a", "filter/a/", "filter/a/b", "filter//b"}),
        ("filter/a/#", {"filter/a", "filter/a/", "filter/a/b"}),
        ("+/a/b", {"filter/a/b"}),
        ("filter/+/+", {"filter/a/b", "filter/a/", "filter//b"}),
        ("filter//b", {"filter//b"}),
        ("$filter/#", {"$filter/a"}),
        ("$filter/+", {"$filter/a"}),
    ],
)
@pytest.mark.parametrize("version", [4, 5])
def test_wildcards(address: Address, version: int, topic_filter: str, expected: set[str]) -> None:
    """`+` matches one level, `#` any number; neither matches a first level that begins with `$` (section 4.7)."""
    topics = ["filter", "filter/", "filter/a", "filter/a/", "filter/a/b", "filter//b", "$filter/a"]
    with connected(address, version) as client:
        client.subscribe(topic_filter)
        client.send(*[Publish(topic.encode(), b"x") for topic in topics])
        assert {topic for topic, _ in received(client)} == expected


def test_everything(address: Address) -> None:
    """`#` and `+/...` do not match topics that begin with `$` [MQTT-4.7.2-1]."""
    with connected(address, 5) as client:
        client.subscribe("#", "+/all")
        client.send(Publish(b"$SYS/all", b"x"), Publish(b"$", b"x"), Publish(b"all/all", b"x"))
        assert received(client) == [("all/all", 0)]


# -- several subscriptions


@pytest.mark.parametrize("version", [4, 5])
def test_overlapping(address: Address, version: int) -> None:
    """A message that matches several subscriptions of a client is delivered once, at the highest QoS [MQTT-3.3.4-2]."""
    with connected(address, version) as client, connected(address, 4) as publisher:
        subscribe(
            client, Subscription("lap/a", 0), Subscription("lap/+", 1), Subscription("lap/#", 2), Subscription("+/a", 1)
        )
        publisher.publish("lap/a", b"x", 2)
        assert received(client) == [("lap/a", 2)]
        client.send(Unsubscribe(9, ["lap/#"]))
        client.expect(Unsuback)
        publisher.publish("lap/a", b"x", 2)
        assert received(client) == [("lap/a", 1)]


@pytest.mark.parametrize("version", [4, 5])
def test_subscribing_again(address: Address, version: int) -> None:
    """A subscription to the same filter replaces the one before [MQTT-3.8.4-3]."""
    with connected(address, version) as client, connected(address, 4) as publisher:
        for topic_filter in ("again/x", "again/+"):
            for qos in (2, 0, 1):
                assert client.subscribe(topic_filter, qos=qos).reason_codes == [qos]
                publisher.publish("again/x", b"x", 2)
                assert received(client) == [("again/x", qos)]
            client.unsubscribe(topic_filter)


def test_one_packet_many_filters(address: Address) -> None:
    """SUBACK has a reason code for each filter, in order; a refused filter does not affect the others."""
    with connected(address, 5) as new, connected(address, 4) as old:
        filters = [
            Subscription("many/1", 2),
            Subscription("/".join("x" * 129), 0),
            Subscription("many/2", 1),
        ]
        assert subscribe(new, *filters) == [
            2,
            reason_codes.TOPIC_FILTER_INVALID,
            1,
        ]
        assert subscribe(old, *filters) == [2, 0x80, 1]
        for client in (new, old):
            client.publish("many/2", b"x")
        assert received(new) == [("many/2", 0)] * 2


# -- unsubscribing


@pytest.mark.parametrize("version", [4, 5])
def test_unsubscribe(address: Address, version: int) -> None:
    """After UNSUBACK no message is delivered; MQTT 5 is told which subscriptions existed [MQTT-3.10.4-4]."""
    with connected(address, version) as client:
        client.subscribe("un/a", "un/+", "un/c")
        unsuback = client.unsubscribe("un/a", "un/+", "un/b", "un/a")
        if version == 5:
            none = reason_codes.NO_SUBSCRIPTION_EXISTED
            assert unsuback.reason_codes == [0, 0, none, none]
        client.send(Publish(b"un/a", b"x"), Publish(b"un/b", b"x"), Publish(b"un/c", b"x"))
        assert received(client) == [("un/c", 0)]


def test_unsubscribe_needs_the_very_filter(address: Address) -> None:
    """UNSUBSCRIBE compares filters character by character [MQTT-3.10.4-1]."""
    with connected(address, 5) as client:
        client.subscribe("very/#")
        assert client.unsubscribe("very/+", "very/a", "Very/#").reason_codes == [0x11] * 3
        client.publish("very/a", b"x")
        assert received(client) == [("very/a", 0)]


# -- options


def test_no_local(address: Address) -> None:
    """With No Local a client gets the messages of others and not its own [MQTT-3.8.3-3]."""
    with connected(address, 5) as client, connected(address, 4) as other:
        subscribe(client, Subscription("local/#", 1, no_local=True))
        for publisher in (client, other):
            publisher.publish("local/a", b"x", 1)
        assert received(client) == [("local/a", 1)]


def test_no_local_beside_another(address: Address) -> None:
    """A second subscription without No Local delivers a client's own messages."""
    with connected(address, 5) as client:
        subscribe(client, Subscription("beside/#", 1, no_local=True), Subscription("beside/a", 0))
        client.send(Publish(b"beside/a", b"x"), Publish(b"beside/b", b"x"))
        assert [topic for topic, _ in received(client)] == ["beside/a"]


@pytest.mark.parametrize("as_published", [False, True])
@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_retain_as_published(address: Address, qos: int, retain: bool, as_published: bool) -> None:
    """RETAIN of live messages is forwarded only with Retain As Published [MQTT-3.3.1-12, -13]."""
    topic = f"as/{qos}"
    with connected(address, 5) as client, connected(address, 4) as publisher:
        subscribe(client, Subscription(topic, qos, retain_as_published=as_published))
        publisher.publish(topic, b"x", qos, retain=retain)
        message = client.receive_message()
        assert (message.retain, message.qos) == (retain and as_published, qos)
        publisher.publish(topic, b"", retain=True)


def test_retain_handling(address: Address) -> None:
    """Retained messages are sent at each SUBSCRIBE (0), at a new one only (1), or never (2) [MQTT-3.3.1-9 to -11]."""
    with connected(address, 4) as publisher:
        publisher.publish("handling/x", b"x", 1, retain=True)
        for handling, expected in ((0, [1, 1, 1]), (1, [1, 0, 1]), (2, [0, 0, 0])):
            with connected(address, 5) as client:
                counts = []
                for again in range(3):
                    if again == 2:
                        client.unsubscribe("handling/+")
                    subscribe(client, Subscription("handling/+", 0, retain_handling=handling))
                    counts.append(len(received(client)))
                assert counts == expected
        publisher.publish("handling/x", b"", 1, retain=True)


def test_v4_has_no_options(address: Address) -> None:
    """A 3.1.1 client gets its own messages, with RETAIN cleared, and retained messages at each SUBSCRIBE."""
    with connected(address, 4) as client:
        client.publish("old/x", b"x", 1, retain=True)
        for _ in range(2):
            client.subscribe("old/x")
            assert client.receive_message().retain
        client.publish("old/x", b"", 1, retain=True)
        message = client.receive_message()
        assert (message.payload, message.retain) == (b"", False)
