"""The properties of a PUBLISH reach its subscribers unaltered (section 3.3.2.3 of 5.0)."""

from collections.abc import Iterator

import pytest

from protocol import properties as props
from protocol.acknowledgements import Puback
from protocol.disconnect import Disconnect
from protocol.properties import Properties, Value
from protocol.publish import Publish
from protocol.subscribe import Subscription
from tests.conformance import by_hand
from tests.conformance.delivery import messages, payloads, subscribe, unique
from tests.conformance.sessions import PAST, KeptSession, let_pass, take
from tests.support.process import Address
from tests.support.wire import WireClient, connected

PAIRS = [("b", "2"), ("a", "1"), ("b", "2"), ("", ""), ("a", "0"), ("ä", "🌡"), ("A", "1"), ("a", "1" * 300)]
"""User Properties: out of order, repeated, empty, beyond ASCII, long."""

UNALTERED: dict[str, Properties] = {
    "payload format 0": {props.PAYLOAD_FORMAT_INDICATOR: 0},
    "payload format 1": {props.PAYLOAD_FORMAT_INDICATOR: 1},
    "content type": {props.CONTENT_TYPE: "text/plain; charset=ä/🌡"},
    "empty content type": {props.CONTENT_TYPE: ""},
    "response topic": {props.RESPONSE_TOPIC: "answers/ä//🌡"},
    "correlation data": {props.CORRELATION_DATA: bytes(range(256))},
    "empty correlation data": {props.CORRELATION_DATA: b""},
    "user properties": {props.USER_PROPERTY: PAIRS},
    "one user property": {props.USER_PROPERTY: [("key", "value")]},
}
UNALTERED["all"] = {number: value for one in UNALTERED.values() for number, value in one.items()}

EXPIRY = 100
"""Seconds: longer than a test takes."""

each_property = pytest.mark.parametrize("sent", UNALTERED.values(), ids=UNALTERED.keys())


@pytest.fixture
def publisher(address: Address) -> Iterator[WireClient]:
    """An MQTT 5 client that publishes."""
    with connected(address, 5) as client:
        yield client


def check(message: Publish, sent: Properties) -> None:
    """The message has these properties, with these values, and no others."""
    assert (message.properties or {}) == sent


def told_expiry(message: Publish) -> int:
    """Return the Message Expiry Interval, which has to be there."""
    interval = (message.properties or {})[props.MESSAGE_EXPIRY_INTERVAL]
    assert isinstance(interval, int)
    return interval


# -- unaltered


@each_property
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_unaltered(address: Address, publisher: WireClient, sent: Properties, qos: int) -> None:
    """Each subscriber gets them unaltered, whatever QoS was granted."""
    topic = unique("properties")
    with (
        connected(address, 5) as at_0,
        connected(address, 5) as at_1,
        connected(address, 5) as at_2,
        connected(address, 4) as older,
    ):
        clients = (at_0, at_1, at_2)
        for granted, client in enumerate(clients):
            subscribe(client, Subscription(topic, granted))
        subscribe(older, Subscription(topic, 2))
        publisher.publish(topic, b"payload", qos, properties=sent)
        for client in clients:
            found = messages(client, publisher, qos)
            assert payloads(found) == [b"payload"]
            check(found[0], sent)
        assert payloads(messages(older, publisher, qos)) == [b"payload"]


@each_property
def test_unaltered_when_retained(address: Address, publisher: WireClient, sent: Properties) -> None:
    """A retained message has them unaltered for a later subscriber."""
    topic = unique("properties")
    publisher.publish(topic, b"payload", 1, retain=True, properties=sent)
    with connected(address, 5) as client:
        client.send(by_hand.subscribe(5, 1, [(topic, 1)]))
        found = [packet for packet in (client.receive(), client.receive()) if isinstance(packet, Publish)]
        publisher.publish(topic, b"", 1, retain=True)
        assert payloads(found) == [b"payload"]
        check(found[0], sent)


@each_property
@pytest.mark.parametrize("qos", [1, 2])
def test_unaltered_when_it_waited(address: Address, publisher: WireClient, sent: Properties, qos: int) -> None:
    """A message that waited for a client has them unaltered, when it is sent and when it is resent."""
    topic = unique("properties")
    with KeptSession(address, 5) as session:
        client = session.connect()
        subscribe(client, Subscription(topic, qos))
        client.disconnect()
        publisher.publish(topic, b"payload", qos, properties=sent)
        for dup in (False, True):
            client = session.connect()
            message = client.expect(Publish)
            assert (message.payload, message.dup) == (b"payload", dup)
            check(message, sent)
            client.close()


def test_unaltered_byte_by_byte(address: Address, publisher: WireClient) -> None:
    """Decoded without our codec, each property is there, and the User Properties are in order."""
    topic = unique("properties")
    pairs = b"".join(b"\x26" + by_hand.string(name) + by_hand.string(value) for name, value in PAIRS)
    others = [b"\x01\x01", b"\x03" + by_hand.string("type"), b"\x08" + by_hand.string("answers"), b"\x09\0\2\xff\0"]
    block = pairs + b"".join(others)
    with connected(address, 5) as client:
        client.send(by_hand.subscribe(5, 1, [(topic, 0)]))
        assert by_hand.receive(client)[0] == by_hand.SUBACK
        publisher.send(by_hand.packet(0x30, by_hand.string(topic) + by_hand.variable_byte_integer(len(block)) + block))
        first, body = by_hand.receive(client)
    assert first == 0x30
    assert len(body) == len(by_hand.string(topic)) + 2 + len(block)
    assert all(other in body for other in others)
    position = 0
    for name, value in PAIRS:
        pair = b"\x26" + by_hand.string(name) + by_hand.string(value)
        position = body.index(pair, position) + len(pair)


# -- what is wrong


ILL_FORMED = [b"\xff", b"a\xc0\xaf", b"\xed\xa0\x80", b"a\0b"]


@pytest.mark.parametrize("text", ILL_FORMED)
@pytest.mark.parametrize("identifier", [props.CONTENT_TYPE, props.RESPONSE_TOPIC])
def test_strings_are_utf8(address: Address, publisher: WireClient, identifier: int, text: bytes) -> None:
    """A Content Type or Response Topic that is not valid UTF-8 closes the connection, and is not delivered."""
    topic = unique("properties")
    with connected(address, 5) as client, connected(address, 5) as sender:
        subscribe(client, Subscription(topic, 0))
        block = bytes((identifier,)) + by_hand.string(text)
        sender.send(by_hand.packet(0x32, by_hand.string(topic) + b"\0\1" + bytes((len(block),)) + block))
        assert not isinstance(sender.expect_close(), Puback)
        assert messages(client, publisher) == []


@pytest.mark.parametrize("answers", ["#", "+", "a/#", "a/+/b", "a+"])
def test_response_topic_with_a_wildcard(address: Address, publisher: WireClient, answers: str) -> None:
    """A Response Topic with a wildcard closes the connection or is refused, and is not delivered."""
    topic = unique("properties")
    with connected(address, 5) as client, connected(address, 5) as sender:
        subscribe(client, Subscription(topic, 0))
        block = b"\x08" + by_hand.string(answers)
        sender.send(by_hand.packet(0x32, by_hand.string(topic) + b"\0\1" + bytes((len(block),)) + block))
        answer = sender.receive()
        assert isinstance(answer, (Puback, Disconnect))
        assert answer.reason_code >= 0x80
        assert messages(client, publisher) == []


@pytest.mark.parametrize(
    "block",
    [
        b"\x01\x00\x01\x00",
        b"\x02\0\0\0\1\x02\0\0\0\1",
        b"\x03\0\1a\x03\0\1a",
        b"\x08\0\1a\x08\0\1a",
        b"\x09\0\1a\x09\0\1a",
        b"\x23\0\1\x23\0\1",
    ],
    ids=["format twice", "expiry twice", "type twice", "answer twice", "data twice", "alias twice"],
)
def test_not_twice(address: Address, block: bytes) -> None:
    """All properties but User Property may occur only once [MQTT5 3.3.2.3]."""
    with connected(address, 5) as client:
        body = by_hand.string(unique("properties")) + b"\0\1" + bytes((len(block),)) + block
        client.send(by_hand.packet(0x32, body))
        assert not isinstance(client.expect_close(), Puback)


@pytest.mark.parametrize("identifier", [0x11, 0x1F, 0x21, 0x24, 0x00, 0x7F])
def test_properties_of_other_packets(address: Address, identifier: int) -> None:
    """A property that PUBLISH must not have closes the connection [MQTT5 2.2.2.2]."""
    with connected(address, 5) as client:
        body = by_hand.string(unique("properties")) + b"\0\1" + b"\5" + bytes((identifier,)) + b"\0\1\0\1"
        client.send(by_hand.packet(0x32, body))
        assert not isinstance(client.expect_close(), Puback)


# -- Message Expiry Interval


def test_expired_while_away(address: Address, publisher: WireClient) -> None:
    """A message that expires while the client is away is not delivered; one that does not expire is."""
    topic = unique("expiry")
    with KeptSession(address, 5) as session:
        client = session.connect()
        subscribe(client, Subscription(topic, 2))
        client.disconnect()
        for qos in (0, 1, 2):
            publisher.publish(topic, b"short", qos, properties={props.MESSAGE_EXPIRY_INTERVAL: 1})
        publisher.publish(topic, b"long", 1, properties={props.MESSAGE_EXPIRY_INTERVAL: EXPIRY})
        publisher.publish(topic, b"for ever", 1)
        let_pass(PAST)
        assert payloads(messages(session.connect(), publisher, 1)) == [b"long", b"for ever"]


def test_expired_behind_receive_maximum(address: Address, publisher: WireClient) -> None:
    """A message that expires while it waits for Receive Maximum is not delivered."""
    topic = unique("expiry")
    with connected(address, 5, properties={props.RECEIVE_MAXIMUM: 1}) as client:
        subscribe(client, Subscription(topic, 1))
        publisher.publish(topic, b"first", 1)
        (first,) = take(client, 1)
        publisher.publish(topic, b"short", 1, properties={props.MESSAGE_EXPIRY_INTERVAL: 1})
        publisher.publish(topic, b"for ever", 1)
        let_pass(PAST)
        client.send(Puback(first.packet_id))
        assert payloads(messages(client, publisher, 1)) == [b"for ever"]


def test_retained_expires(address: Address, publisher: WireClient) -> None:
    """A retained message that has expired is not sent to new subscribers [MQTT5 3.3.1.3]."""
    topic = unique("expiry")
    publisher.publish(topic, b"short", 1, retain=True, properties={props.MESSAGE_EXPIRY_INTERVAL: 1})
    let_pass(PAST)
    with connected(address, 5) as client:
        client.send(by_hand.subscribe(5, 1, [(topic, 1)]))
        assert by_hand.receive(client)[0] == by_hand.SUBACK
        assert messages(client, publisher, 1) == []


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_expiry_of_a_message_that_has_not_waited(address: Address, publisher: WireClient, qos: int) -> None:
    """A message that did not wait has its whole interval, or one second less."""
    topic = unique("expiry")
    with connected(address, 5) as client:
        subscribe(client, Subscription(topic, qos))
        publisher.publish(topic, b"", qos, properties={props.MESSAGE_EXPIRY_INTERVAL: EXPIRY})
        assert EXPIRY - 2 <= told_expiry(client.expect(Publish)) <= EXPIRY


@pytest.mark.parametrize("value", [1, 0xFFFFFFFF], ids=["least", "greatest"])
def test_bounds_of_expiry(address: Address, publisher: WireClient, value: Value) -> None:
    """The shortest and the longest interval are accepted and counted down."""
    topic = unique("expiry")
    assert isinstance(value, int)
    with connected(address, 5) as client:
        subscribe(client, Subscription(topic, 0))
        publisher.publish(topic, properties={props.MESSAGE_EXPIRY_INTERVAL: value})
        assert value - 2 <= told_expiry(client.expect(Publish)) <= value


@pytest.mark.parametrize("qos", [1, 2])
def test_expiry_is_counted_down(address: Address, publisher: WireClient, qos: int) -> None:
    """The interval of a message that waited for a client, or was retained, is reduced by that time."""
    topic = unique("expiry")
    with KeptSession(address, 5) as session, connected(address, 5) as late:
        client = session.connect()
        subscribe(client, Subscription(topic, qos))
        client.disconnect()
        publisher.publish(topic, b"kept", qos, retain=True, properties={props.MESSAGE_EXPIRY_INTERVAL: EXPIRY})
        let_pass(PAST)
        found = take(session.connect(), 1)
        for granted in (qos, 0):
            late.send(by_hand.subscribe(5, 1, [(topic, granted)]))
            found += [packet for packet in (late.receive(), late.receive()) if isinstance(packet, Publish)]
        publisher.publish(topic, b"", 1, retain=True)
        assert [message.qos for message in found] == [qos, qos, 0]
        for message in found:
            assert EXPIRY - 10 < told_expiry(message) <= EXPIRY - 2


def test_no_expiry_is_none(address: Address, publisher: WireClient) -> None:
    """A message without an interval is delivered without one [MQTT5 3.3.2.3.3]."""
    topic = unique("expiry")
    with connected(address, 5) as client:
        subscribe(client, Subscription(topic, 1))
        publisher.publish(topic, b"", 1)
        assert props.MESSAGE_EXPIRY_INTERVAL not in (client.expect(Publish).properties or {})
