"""RETAIN: which messages are retained, and what new subscribers get of them (section 3.3.1.3)."""

from collections.abc import Iterator

import pytest

from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.conformance.delivery import collect, messages, payloads, subscribe, topics, unique
from tests.conformance.sessions import KeptSession
from tests.support.process import Address
from tests.support.wire import WireClient, connected

LEVELS = ("a", "b", "c")


@pytest.fixture
def topic(address: Address) -> Iterator[str]:
    """A topic whose retained message, and those at LEVELS below it, are removed at the end."""
    name = unique("retained")
    yield name
    with connected(address, 4) as client:
        for used in (name, *[f"{name}/{level}" for level in LEVELS]):
            client.publish(used, b"", 1, retain=True)


@pytest.fixture
def publisher(address: Address, version: int) -> Iterator[WireClient]:
    """A client that publishes."""
    with connected(address, version) as client:
        yield client


def subscribing_brings(client: WireClient, publisher: WireClient, *wanted: Subscription) -> list[Publish]:
    """Subscribe, and return the messages that follow. What the publisher has sent before has come to an end by then."""
    messages(client, publisher)
    client.send(Subscribe(client.packet_id(), list(wanted)))
    found = collect(client, lambda packet: isinstance(packet, Suback))
    return found + messages(client, publisher, max(subscription.qos for subscription in wanted))


def future_subscriber(address: Address, version: int, publisher: WireClient, topic_filter: str) -> list[Publish]:
    """Return what a new subscriber at QoS 2 gets."""
    with connected(address, version) as client:
        return subscribing_brings(client, publisher, Subscription(topic_filter, 2))


# -- retained for later subscribers


@pytest.mark.parametrize("qos", [1, 2])
def test_kept_with_its_qos(address: Address, version: int, publisher: WireClient, topic: str, qos: int) -> None:
    """A message with RETAIN is sent to later subscribers, with the QoS it was published at."""
    publisher.publish(topic, b"kept", qos, retain=True)
    for _ in range(2):
        found = future_subscriber(address, version, publisher, topic)
        assert [(message.payload, message.qos) for message in found] == [(b"kept", qos)]


def test_qos_0_is_kept_or_dropped(address: Address, version: int, publisher: WireClient, topic: str) -> None:
    """At QoS 0 it should be retained, but 3.1.1 allows the server to drop it; nothing else is sent."""
    publisher.publish(topic, b"kept", retain=True)
    found = future_subscriber(address, version, publisher, topic)
    kept = [(b"kept", 0)]
    assert [(message.payload, message.qos) for message in found] in ([kept] if version == 5 else [kept, []])


def test_kept_beyond_its_publisher(address: Address, version: int, publisher: WireClient, topic: str) -> None:
    """It stays when its publisher and its publisher's session are gone."""
    with connected(address, version) as gone:
        gone.publish(topic, b"kept", 1, retain=True)
        gone.disconnect()
    assert payloads(future_subscriber(address, version, publisher, topic)) == [b"kept"]


def test_last_of_each_topic(address: Address, version: int, publisher: WireClient, topic: str) -> None:
    """A filter with a wildcard gets the last message of each topic that it matches."""
    for level in LEVELS:
        for number in range(3):
            publisher.publish(f"{topic}/{level}", f"{level}{number}".encode(), 1, retain=True)
    found = future_subscriber(address, version, publisher, f"{topic}/+")
    assert sorted(payloads(found)) == [b"a2", b"b2", b"c2"]
    assert sorted(topics(found)) == [f"{topic}/{level}" for level in LEVELS]
    assert payloads(future_subscriber(address, version, publisher, f"{topic}/b/#")) == [b"b2"]


@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_replaced(address: Address, version: int, publisher: WireClient, topic: str, before: int, after: int) -> None:
    """A second message with RETAIN replaces the first, whatever the QoS of either."""
    publisher.publish(topic, b"old", before, retain=True)
    publisher.publish(topic, b"new", after, retain=True)
    found = payloads(future_subscriber(address, version, publisher, topic))
    assert found == [b"new"] or (version == 4 and after == 0 and found == [])


# -- RETAIN in deliveries


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_set_for_new_subscriptions(address: Address, version: int, publisher: WireClient, topic: str, qos: int) -> None:
    """Messages that a new subscription gets from the retained ones have RETAIN 1, at each QoS granted."""
    publisher.publish(topic, b"kept", 2, retain=True)
    with connected(address, version) as client:
        found = subscribing_brings(client, publisher, Subscription(topic, qos))
    assert [(message.payload, message.retain, message.qos) for message in found] == [(b"kept", True, qos)]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_clear_for_established_subscriptions(
    address: Address, version: int, publisher: WireClient, topic: str, qos: int
) -> None:
    """Messages for an existing subscription have RETAIN 0, however they were published."""
    with connected(address, version) as client:
        subscribe(client, Subscription(topic, 2))
        publisher.publish(topic, b"retained", qos, retain=True)
        publisher.publish(topic, b"not retained", qos)
        found = messages(client, publisher, qos)
    assert [(message.payload, message.retain) for message in found] == [(b"retained", False), (b"not retained", False)]


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("as_published", [True, False])
def test_retain_as_published(address: Address, topic: str, qos: int, as_published: bool) -> None:
    """With Retain As Published, RETAIN is as in the PUBLISH; without it, it is 0."""
    with connected(address, 5) as client, connected(address, 5) as publisher:
        subscribe(client, Subscription(topic, 2, retain_as_published=as_published))
        publisher.publish(topic, b"retained", qos, retain=True)
        publisher.publish(topic, b"not retained", qos)
        found = messages(client, publisher, qos)
    assert [message.retain for message in found] == [as_published, False]


def test_retain_as_published_of_each(address: Address, topic: str) -> None:
    """Each subscriber gets RETAIN by the option of its own subscription; a 3.1.1 client gets 0."""
    with (
        connected(address, 5) as wants,
        connected(address, 5) as wants_not,
        connected(address, 4) as older,
        connected(address, 5) as publisher,
    ):
        subscribe(wants, Subscription(topic, 1, retain_as_published=True))
        subscribe(wants_not, Subscription(topic, 1))
        subscribe(older, Subscription(topic, 1))
        publisher.publish(topic, b"retained", 1, retain=True)
        flags = [messages(client, publisher, 1)[0].retain for client in (wants, wants_not, older)]
    assert flags == [True, False, False]


def test_retained_has_retain_whatever_the_option(address: Address, topic: str) -> None:
    """A retained message for a new subscription has RETAIN 1 without Retain As Published too [MQTT5 3.3.1.3]."""
    with connected(address, 5) as client, connected(address, 5) as publisher:
        publisher.publish(topic, b"kept", 1, retain=True)
        for as_published in (False, True):
            found = subscribing_brings(client, publisher, Subscription(topic, 1, retain_as_published=as_published))
            assert [message.retain for message in found] == [True]


# -- removing


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_empty_removes(address: Address, version: int, publisher: WireClient, topic: str, qos: int) -> None:
    """An empty message with RETAIN is delivered as usual, and later subscribers get nothing."""
    publisher.publish(topic, b"kept", 1, retain=True)
    with connected(address, version) as client:
        assert payloads(subscribing_brings(client, publisher, Subscription(topic, 2))) == [b"kept"]
        publisher.publish(topic, b"", qos, retain=True)
        assert [(message.payload, message.qos) for message in messages(client, publisher, qos)] == [(b"", qos)]
    assert future_subscriber(address, version, publisher, topic) == []


def test_empty_removes_its_own_topic_only(address: Address, version: int, publisher: WireClient, topic: str) -> None:
    """Retained messages of other topics stay."""
    for level in LEVELS:
        publisher.publish(f"{topic}/{level}", level.encode(), 1, retain=True)
    publisher.publish(f"{topic}/b", b"", 1, retain=True)
    publisher.publish(topic, b"", 1, retain=True)
    assert sorted(payloads(future_subscriber(address, version, publisher, f"{topic}/#"))) == [b"a", b"c"]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_empty_is_not_kept(address: Address, version: int, publisher: WireClient, topic: str, qos: int) -> None:
    """An empty message with RETAIN is not retained itself, also where there was nothing to remove."""
    publisher.publish(topic, b"", qos, retain=True)
    assert future_subscriber(address, version, publisher, topic) == []


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("payload", [b"passing", b""])
def test_without_retain(
    address: Address, version: int, publisher: WireClient, topic: str, qos: int, payload: bytes
) -> None:
    """A message without RETAIN is not retained, and neither replaces nor removes a retained one."""
    publisher.publish(topic, payload, qos)
    assert future_subscriber(address, version, publisher, topic) == []
    publisher.publish(topic, b"kept", 1, retain=True)
    publisher.publish(topic, payload, qos)
    assert payloads(future_subscriber(address, version, publisher, topic)) == [b"kept"]


# -- Retain Handling


def test_retain_handling_0(address: Address, topic: str) -> None:
    """With 0, each SUBSCRIBE is followed by the retained messages, whether the subscription is new or not."""
    with connected(address, 5) as client, connected(address, 5) as publisher:
        for level in LEVELS:
            publisher.publish(f"{topic}/{level}", level.encode(), 1, retain=True)
        for _ in range(3):
            found = subscribing_brings(client, publisher, Subscription(f"{topic}/+", 1, retain_handling=0))
            assert sorted(payloads(found)) == [b"a", b"b", b"c"]


def test_retain_handling_1(address: Address, topic: str) -> None:
    """With 1, only the first SUBSCRIBE to a filter is; after UNSUBSCRIBE the next one is the first."""
    wanted = Subscription(f"{topic}/+", 1, retain_handling=1)
    with connected(address, 5) as client, connected(address, 5) as publisher:
        for level in LEVELS:
            publisher.publish(f"{topic}/{level}", level.encode(), 1, retain=True)
        for _ in range(2):
            assert sorted(payloads(subscribing_brings(client, publisher, wanted))) == [b"a", b"b", b"c"]
            assert subscribing_brings(client, publisher, wanted) == []
            found = subscribing_brings(client, publisher, Subscription(f"{topic}/a", 1, retain_handling=1))
            assert payloads(found) == [b"a"]
            client.unsubscribe(f"{topic}/+", f"{topic}/a")


def test_retain_handling_1_in_a_kept_session(address: Address, topic: str) -> None:
    """With 1, a subscription that the session has kept is not new."""
    wanted = Subscription(topic, 1, retain_handling=1)
    with KeptSession(address, 5) as session, connected(address, 5) as publisher:
        publisher.publish(topic, b"kept", 1, retain=True)
        client = session.connect()
        assert payloads(subscribing_brings(client, publisher, wanted)) == [b"kept"]
        client.disconnect()
        assert subscribing_brings(session.connect(), publisher, wanted) == []


def test_retain_handling_2(address: Address, topic: str) -> None:
    """With 2, no SUBSCRIBE is; messages published later are delivered."""
    wanted = Subscription(topic, 1, retain_handling=2)
    with connected(address, 5) as client, connected(address, 5) as publisher:
        publisher.publish(topic, b"kept", 1, retain=True)
        for _ in range(2):
            assert subscribing_brings(client, publisher, wanted) == []
        publisher.publish(topic, b"news", 1, retain=True)
        assert payloads(messages(client, publisher, 1)) == [b"news"]


def test_retain_handling_of_each_filter(address: Address, topic: str) -> None:
    """Each filter of a SUBSCRIBE has its own Retain Handling."""
    wanted = [Subscription(f"{topic}/{level}", 1, retain_handling=number) for number, level in enumerate(LEVELS)]
    with connected(address, 5) as client, connected(address, 5) as publisher:
        for level in LEVELS:
            publisher.publish(f"{topic}/{level}", level.encode(), 1, retain=True)
        assert sorted(payloads(subscribing_brings(client, publisher, *wanted))) == [b"a", b"b"]
        assert payloads(subscribing_brings(client, publisher, *wanted)) == [b"a"]
