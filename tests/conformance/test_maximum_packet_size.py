"""Maximum Packet Size: nothing larger comes, and what would be is as good as sent (section 3.1.2.11.4)."""

from collections.abc import Iterator

import pytest

from protocol import properties as props
from protocol.connack import Connack
from protocol.properties import Properties
from protocol.subscribe import Subscription
from tests.conformance import by_hand
from tests.conformance.by_hand import packet, receive
from tests.conformance.connecting import CLEAN, NO_SUCH_METHOD, WILL, block, connect, will
from tests.conformance.delivery import messages, payloads, subscribe, unique
from tests.conformance.sessions import KeptSession, take
from tests.support.process import Address
from tests.support.wire import WireClient, connected

LIMIT = 120
LARGE = b"x" * LIMIT


@pytest.fixture
def topic() -> str:
    """A topic of the test's own."""
    return unique("topic")


def limited(address: Address, size: int = LIMIT, **properties: int) -> WireClient:
    """A client that takes packets up to this size."""
    told: Properties = {props.MAXIMUM_PACKET_SIZE: size}
    return connected(address, 5, properties=told | {getattr(props, key): value for key, value in properties.items()})


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_discarded(address: Address, topic: str, qos: int) -> None:
    """A message that would make a packet too large does not come; what is before and behind it does."""
    with limited(address) as client, connected(address, 5) as publisher:
        client.subscribe(topic, qos=qos)
        for payload in (b"before", LARGE, b"behind"):
            publisher.publish(topic, payload, qos)
        assert payloads(messages(client, publisher, qos)) == [b"before", b"behind"]


def test_up_to_the_limit(address: Address, topic: str) -> None:
    """A packet of just the size is not too large, one byte more is."""
    room = LIMIT - len(packet(0x30, block() + b"..")) - len(topic)
    with limited(address) as client, connected(address, 5) as publisher:
        client.subscribe(topic)
        publisher.publish(topic, b"x" * room)
        publisher.publish(topic, b"y" * (room + 1))
        assert payloads(messages(client, publisher)) == [b"x" * room]


def test_properties_count(address: Address, topic: str) -> None:
    """Properties are part of the packet."""
    long_property: Properties = {props.CONTENT_TYPE: "x" * LIMIT}
    with limited(address) as client, connected(address, 5) as publisher:
        client.subscribe(topic)
        publisher.publish(topic, b"small", properties=long_property)
        assert messages(client, publisher) == []


def test_others_get_it(address: Address, topic: str) -> None:
    """What is too large for one client is not for another."""
    with limited(address) as client, connected(address, 5) as other, connected(address, 5) as publisher:
        client.subscribe(topic)
        other.subscribe(topic)
        publisher.publish(topic, LARGE)
        assert messages(client, publisher) == []
        assert payloads(messages(other, publisher)) == [LARGE]


@pytest.mark.parametrize("qos", [1, 2])
def test_takes_no_quota(address: Address, topic: str, qos: int) -> None:
    """It is as if it had been sent and acknowledged: the next message does not wait for it."""
    with limited(address, RECEIVE_MAXIMUM=1) as client, connected(address, 5) as publisher:
        client.subscribe(topic, qos=qos)
        for _ in range(5):
            publisher.publish(topic, LARGE, qos)
        publisher.publish(topic, b"behind", qos)
        assert client.receive_message().payload == b"behind"


@pytest.mark.parametrize("qos", [1, 2])
def test_not_sent_later(address: Address, topic: str, qos: int) -> None:
    """Nor is it sent on a connection that would take it."""
    with KeptSession(address, 5) as session, connected(address, 5) as publisher:
        client = session.connect({props.MAXIMUM_PACKET_SIZE: LIMIT})
        client.subscribe(topic, qos=qos)
        publisher.publish(topic, LARGE, qos)
        assert messages(client, publisher, qos) == []
        client.disconnect()
        assert messages(session.connect(), publisher, qos) == []


def test_waiting(address: Address, topic: str) -> None:
    """What has waited for a client is discarded if it comes back with a limit that it exceeds."""
    with KeptSession(address, 5) as session, connected(address, 5) as publisher:
        client = session.connect()
        client.subscribe(topic, qos=1)
        client.disconnect()
        publisher.publish(topic, LARGE, 1)
        publisher.publish(topic, b"small", 1)
        client = session.connect({props.MAXIMUM_PACKET_SIZE: LIMIT})
        assert payloads(messages(client, publisher, 1)) == [b"small"]


def test_retained(address: Address, topic: str) -> None:
    """A retained message is not sent either if it is too large."""
    with limited(address) as client, connected(address, 5) as publisher:
        publisher.publish(f"{topic}/large", LARGE, retain=True)
        publisher.publish(f"{topic}/small", b"small", retain=True)
        subscribe(client, Subscription(f"{topic}/+", 0))
        assert payloads(messages(client, publisher)) == [b"small"]
        for name in ("large", "small"):
            publisher.publish(f"{topic}/{name}", b"", retain=True)


@pytest.mark.parametrize("qos", [1, 2])
def test_sent_again(address: Address, topic: str, qos: int) -> None:
    """Nor is what has been sent on a connection that took it sent again on one that does not."""
    with KeptSession(address, 5) as session, connected(address, 5) as publisher:
        client = session.connect()
        client.subscribe(topic, qos=qos)
        publisher.publish(topic, LARGE, qos)
        publisher.publish(topic, b"small", qos)
        take(client, 2)
        client.close()
        client = session.connect({props.MAXIMUM_PACKET_SIZE: LIMIT})
        assert payloads(messages(client, publisher, qos)) == [b"small"]


def test_topic_aliases_count(address: Address, topic: str) -> None:
    """A server that gives a topic an alias finds room for it, or does without."""
    room = LIMIT - len(packet(0x30, block() + b"....")) - len(topic)
    with limited(address, TOPIC_ALIAS_MAXIMUM=100) as client, connected(address, 5) as publisher:
        client.send(by_hand.subscribe(5, 1, [(f"{topic}/#", 0)]))
        assert receive(client)[0] == by_hand.SUBACK
        for size in range(room - 10, room + 2):
            publisher.publish(f"{topic}/{size:03}", b"x" * size)
        publisher.publish(f"{topic}/end")
        sizes: list[int] = []
        while sizes[-1:] != [0]:
            first, body = receive(client)
            assert len(packet(first, body)) <= LIMIT
            sizes.append(body.count(b"x"))
    assert sizes == [*range(room - 10, room - 1), 0]


@pytest.mark.parametrize("answer", ["SUBACK", "UNSUBACK"])
def test_answers(address: Address, topic: str, answer: str) -> None:
    """SUBACK and UNSUBACK for so many filters that they would be too large do not come."""
    filters = [f"{topic}/{number}" for number in range(LIMIT)]
    request = by_hand.subscribe(5, 1, [(each, 0) for each in filters])
    if answer == "UNSUBACK":
        request = by_hand.unsubscribe(5, 1, filters)
    with limited(address) as client:
        client.send(request)
        for first, body in _until_pong(client):
            assert len(packet(first, body)) <= LIMIT
            assert first not in (by_hand.SUBACK, by_hand.UNSUBACK)


def _until_pong(client: WireClient) -> Iterator[tuple[int, bytes]]:
    """What comes until a ping is answered, or the connection closes."""
    try:
        client.send(by_hand.PINGREQ)
        while (found := receive(client))[0] != by_hand.PINGRESP[0]:
            yield found
    except ConnectionError:
        pass


SIZES = (1, 4, 5, 8, 12, 16, 20, 24, 32, 48)
OUTCOMES = ("let in", "client id assigned", "refused", "malformed")


def asks_for(outcome: str, size: int) -> bytes:
    """A CONNECT of a client that takes packets of this size, with this outcome if CONNACK can be sent."""
    client_id = "" if outcome == "client id assigned" else unique("c")
    properties = b"\x27" + size.to_bytes(4, "big") + (NO_SUCH_METHOD if outcome == "refused" else b"")
    if outcome == "malformed":
        return connect(5, client_id, will(5, "a/#", b"x"), flags=CLEAN | WILL, properties=properties)
    return connect(5, client_id, properties=properties)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_connack(address: Address, size: int, outcome: str) -> None:
    """A CONNACK that would be larger than the limit does not come."""
    with WireClient(address, 5) as client:
        client.send(asks_for(outcome, size))
        try:
            first, body = receive(client)
        except ConnectionError:
            return
        assert first == 0x20
        assert len(packet(first, body)) <= size


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_words_of_connack(address: Address, size: int, outcome: str) -> None:
    """Nor does a Reason String or a User Property that takes it past the limit."""
    with WireClient(address, 5) as client:
        client.send(asks_for(outcome, size))
        try:
            connack = client.expect(Connack)
        except ConnectionError:
            return
        told = connack.properties or {}
        words = props.REASON_STRING in told or props.USER_PROPERTY in told
        assert not words or len(connack.encode(5)) <= size
