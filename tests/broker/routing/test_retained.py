"""Retained messages over sockets: stored, replaced, cleared, matched by filters, expired."""

from collections.abc import Iterator

import pytest

from protocol import properties as props
from protocol.properties import Properties
from protocol.publish import Publish
from tests.support.broker.collecting import collect
from tests.support.process import Address
from tests.support.wire import WireClient, connected

TOPICS = ["keep", "keep/a", "keep/a/b", "keep//b", "keep/b/b", "$keep/a"]


@pytest.fixture
def publisher(address: Address) -> Iterator[WireClient]:
    """Somebody who publishes, and clears the topics afterwards."""
    with connected(address, 5) as client:
        yield client
        for topic in TOPICS:
            client.publish(topic, b"", 1, retain=True)


def found(address: Address, topic_filter: str, version: int = 5, qos: int = 0) -> list[Publish]:
    """What a new subscription brings."""
    with connected(address, version) as client:
        client.subscribe(topic_filter, qos=qos)
        return collect(client)


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("subscribed", [0, 1, 2])
@pytest.mark.parametrize("published", [0, 1, 2])
def test_set(address: Address, publisher: WireClient, published: int, subscribed: int, version: int) -> None:
    """A retained message is stored, and sent with RETAIN set at the lower QoS [MQTT-3.3.1-5, -8]."""
    publisher.publish("keep", b"x", published, retain=True)
    publisher.publish("keep", b"not kept", published)
    (message,) = found(address, "keep", version, subscribed)
    assert (message.payload, message.qos, message.retain, message.dup) == (
        b"x",
        min(published, subscribed),
        True,
        False,
    )


def test_replaced_and_cleared(address: Address, publisher: WireClient) -> None:
    """The latest message is retained; an empty one clears the topic, and is delivered as usual [MQTT-3.3.1-6, -7]."""
    with connected(address, 4) as there:
        there.subscribe("keep")
        for payload in (b"1", b"2", b"3"):
            publisher.publish("keep", payload, 1, retain=True)
        assert [message.payload for message in found(address, "keep")] == [b"3"]
        for _ in range(2):
            publisher.publish("keep", b"", 1, retain=True)
        assert found(address, "keep") == []
        assert [(message.payload, message.retain) for message in collect(there)] == [
            (payload, False) for payload in (b"1", b"2", b"3", b"", b"")
        ]


@pytest.mark.parametrize(
    ("topic_filter", "expected"),
    [
        ("keep/#", {"keep", "keep/a", "keep/a/b", "keep//b", "keep/b/b"}),
        ("keep/+", {"keep/a"}),
        ("keep/+/b", {"keep/a/b", "keep//b", "keep/b/b"}),
        ("+/a", {"keep/a"}),
        ("keep/a/#", {"keep/a", "keep/a/b"}),
        ("+/+/+", {"keep/a/b", "keep//b", "keep/b/b"}),
        ("$keep/#", {"$keep/a"}),
        ("keep/b", set()),
    ],
)
def test_filters(address: Address, publisher: WireClient, topic_filter: str, expected: set[str]) -> None:
    """A subscription gets every retained message that its filter matches, once."""
    for topic in TOPICS:
        publisher.publish(topic, topic.encode(), 1, retain=True)
    messages = found(address, topic_filter)
    assert {message.topic.decode() for message in messages} == expected
    assert all(message.payload == message.topic and message.retain for message in messages)
    assert len(messages) == len(expected)


def test_properties(address: Address, publisher: WireClient) -> None:
    """A retained message keeps its properties for MQTT 5 subscribers."""
    properties: Properties = {props.CONTENT_TYPE: "x", props.USER_PROPERTY: [("b", "1"), ("a", "2")]}
    publisher.publish("keep", b"x", 1, retain=True, properties=dict(properties))
    assert found(address, "keep")[0].properties == properties
    assert found(address, "keep", version=4)[0].payload == b"x"


def test_expiry_counts_down(address: Address, publisher: WireClient) -> None:
    """A retained message is sent with the rest of its expiry interval, and is gone when that has passed."""
    publisher.publish("keep", b"long", 1, retain=True, properties={props.MESSAGE_EXPIRY_INTERVAL: 100})
    publisher.publish("keep/a", b"short", 1, retain=True, properties={props.MESSAGE_EXPIRY_INTERVAL: 1})
    left = []
    while (messages := found(address, "keep/#"))[-1].payload == b"short":
        left.append(expiry_interval(messages[0]))
    left += [expiry_interval(message) for message in messages]
    assert left[0] == 100
    assert left == sorted(left, reverse=True)
    assert 90 <= left[-1] <= 99
    assert found(address, "keep/a") == []


def expiry_interval(message: Publish) -> int:
    """Seconds that a message says it is good for."""
    assert message.properties is not None
    return int(str(message.properties[props.MESSAGE_EXPIRY_INTERVAL]))


def test_at_a_kept_session(address: Address, publisher: WireClient) -> None:
    """Resuming a session is not a subscription: retained messages are not sent again."""
    publisher.publish("keep", b"x", 1, retain=True)
    kept: Properties = {props.SESSION_EXPIRY_INTERVAL: 60}
    with WireClient(address, 5) as client:
        client.connect("keeper", properties=dict(kept))
        client.subscribe("keep", qos=1)
        assert len(collect(client)) == 1
    with WireClient(address, 5) as client:
        assert client.connect("keeper", clean_start=False).session_present
        assert collect(client) == []
