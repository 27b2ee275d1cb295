"""Maximum Packet Size: larger packets are not sent, and count as sent (section 3.1.2.11.4)."""

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
    """A topic that no other test uses."""
    return unique("topic")


def limited(address: Address, size: int = LIMIT, **properties: int) -> WireClient:
    """A client that accepts packets up to this size."""
    told: Properties = {props.MAXIMUM_PACKET_SIZE: size}
    return connected(address, 5, properties=told | {getattr(props, key): value for key, value in properties.items()})


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_discarded(address: Address, topic: str, qos: int) -> None:
    """A message that makes a packet too large is not delivered; the messages before and after it are."""
    with limited(address) as client, connected(address, 5) as publisher:
        client.subscribe(topic, qos=qos)
        for payload in (b"before", LARGE, b"behind"):
            publisher.publish(topic, payload, qos)
        assert payloads(messages(client, publisher, qos)) == [b"before", b"behind"]


def test_up_to_the_limit(address: Address, topic: str) -> None:
    """A packet of exactly the limit is delivered, one that is one byte larger is not."""
    room = LIMIT - len(packet(0x30, block() + b"..")) - len(topic)
    with limited(address) as client, connected(address, 5) as publisher:
        client.subscribe(topic)
        publisher.publish(topic, b"x" * room)
        publisher.publish(topic, b"y" * (room + 1))
        assert payloads(messages(client, publisher)) == [b"x" * room]


def test_properties_count(address: Address, topic: str) -> None:
    """Properties count."""
    long_property: Properties = {props.CONTENT_TYPE: "x" * LIMIT}
    with limited(address) as client, connected(address, 5) as publisher:
        client.subscribe(topic)
        publisher.publish(topic, b"small", properties=long_property)
        assert messages(client, publisher) == []


def test_others_get_it(address: Address, topic: str) -> None:
    """A message that is too large for one client is delivered to others."""
    with limited(address) as client, connected(address, 5) as other, connected(address, 5) as publisher:
        client.subscribe(topic)
        other.subscribe(topic)
        publisher.publish(topic, LARGE)
        assert messages(client, publisher) == []
        assert payloads(messages(other, publisher)) == [LARGE]


@pytest.mark.parametrize("qos", [1, 2])
def test_takes_no_quota(address: Address, topic: str, qos: int) -> None:
    """A message that is too large counts as sent and acknowledged: the next one does not wait for it."""
    with limited(address, RECEIVE_MAXIMUM=1) as client, connected(address, 5) as publisher:
        client.subscribe(topic, qos=qos)
        for _ in range(5):
            publisher.publish(topic, LARGE, qos)
        publisher.publish(topic, b"behind", qos)
        assert client.receive_message().payload == b"behind"


@pytest.mark.parametrize("qos", [1, 2])
def test_not_sent_later(address: Address, topic: str, qos: int) -> None:
    """It is not sent on a later connection with a higher limit either."""
    with KeptSession(address, 5) as session, connected(address, 5) as publisher:
        client = session.connect({props.MAXIMUM_PACKET_SIZE: LIMIT})
        client.subscribe(topic, qos=qos)
        publisher.publish(topic, LARGE, qos)
        assert messages(client, publisher, qos) == []
        client.disconnect()
        assert messages(session.connect(), publisher, qos) == []


def test_waiting(address: Address, topic: str) -> None:
    """A message that waited for a client is discarded if the client is back with a limit that is too low for it."""
    with KeptSession(address, 5) as session, connected(address, 5) as publisher:
        client = session.connect()
        client.subscribe(topic, qos=1)
        client.disconnect()
        publisher.publish(topic, LARGE, 1)
        publisher.publish(topic, b"small", 1)
        client = session.connect({props.MAXIMUM_PACKET_SIZE: LIMIT})
        assert payloads(messages(client, publisher, 1)) == [b"small"]


def test_retained(address: Address, topic: str) -> None:
    """A retained message that is too large is not sent."""
    with limited(address) as client, connected(address, 5) as publisher:
        publisher.publish(f"{topic}/large", LARGE, retain=True)
        publisher.publish(f"{topic}/small", b"small", retain=True)
        assert messages(client, publisher) == []  # both have been handled
        subscribe(client, Subscription(f"{topic}/+", 0))
        assert payloads(messages(client, publisher)) == [b"small"]
        for name in ("large", "small"):
            publisher.publish(f"{topic}/{name}", b"", retain=True)


@pytest.mark.parametrize("qos", [1, 2])
def test_sent_again(address: Address, topic: str, qos: int) -> None:
    """A message is not resent on a connection whose limit is too low for it."""
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
    """A topic alias does not make a packet too large: the server leaves it out, or has counted it."""
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
    """A SUBACK or UNSUBACK with so many codes that it would be too large is not sent."""
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
    """What comes until a ping is answered, or until the connection closes."""
    try:
        client.send(by_hand.PINGREQ)
        while (found := receive(client))[0] != by_hand.PINGRESP[0]:
            yield found
    except ConnectionError:
        pass


SIZES = (1, 4, 5, 8, 12, 16, 20, 24, 32, 48)
OUTCOMES = ("let in", "client id assigned", "refused", "malformed")


def asks_for(outcome: str, size: int) -> bytes:
    """A CONNECT with a Maximum Packet Size, and the outcome if CONNACK can be sent."""
    client_id = "" if outcome == "client id assigned" else unique("c")
    properties = b"\x27" + size.to_bytes(4, "big") + (NO_SUCH_METHOD if outcome == "refused" else b"")
    if outcome == "malformed":
        return connect(5, client_id, will(5, "a/#", b"x"), flags=CLEAN | WILL, properties=properties)
    return connect(5, client_id, properties=properties)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_connack(address: Address, size: int, outcome: str) -> None:
    """A CONNACK that would be larger than the limit is not sent."""
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
    """CONNACK has no Reason String or User Property that would make it larger than the limit."""
    with WireClient(address, 5) as client:
        client.send(asks_for(outcome, size))
        try:
            connack = client.expect(Connack)
        except ConnectionError:
            return
        told = connack.properties or {}
        words = props.REASON_STRING in told or props.USER_PROPERTY in told
        assert not words or len(connack.encode(5)) <= size
