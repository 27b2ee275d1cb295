"""PUBLISH: its flags, its topic and its acknowledgements (section 3.3)."""

import pytest

from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.disconnect import Disconnect
from protocol.publish import Publish, encode_publish
from protocol.subscribe import Subscription
from tests.conformance import by_hand
from tests.conformance.configured import Configured
from tests.conformance.delivery import messages, payloads, subscribe, topics, unique
from tests.support.process import Address
from tests.support.wire import WireClient, connected


def publish(version: int, topic: str | bytes, qos: int, payload: bytes = b"payload", *, flags: int = 0) -> bytes:
    """Return a PUBLISH with packet identifier 1, if its QoS has one; `flags` are added to those of the QoS."""
    packet_id = b"\0\1" if qos else b""
    properties = b"\0" if version == 5 else b""
    return by_hand.packet(0x30 | qos << 1 | flags, by_hand.string(topic) + packet_id + properties + payload)


# -- DUP


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_dup_is_not_passed_on(address: Address, version: int, qos: int, granted: int) -> None:
    """A PUBLISH with DUP is delivered without DUP: the subscriber is sent it for the first time."""
    topic = unique("dup")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic, granted))
        publisher.send(publish(version, topic, qos, flags=0x08))
        if qos == 1:
            publisher.expect(Puback)
        else:
            publisher.expect(Pubrec)
            publisher.send(Pubrel(1))  # a server may wait for this before it delivers
            publisher.expect(Pubcomp)
        message = client.expect(Publish)
        assert message.payload == b"payload"
        assert not message.dup


def test_dup_at_qos_0_goes_no_further(address: Address, version: int) -> None:
    """A QoS 0 PUBLISH with DUP is malformed; if the server accepts it, it is never delivered with DUP."""
    topic = unique("dup")
    with connected(address, version) as client:
        subscribe(client, Subscription(topic, 2))
        with connected(address, version) as publisher, connected(address, version) as other:
            publisher.send(publish(version, topic, 0, flags=0x08))
            try:
                publisher.expect_nothing_more()
            except (AssertionError, ConnectionError):  # it is refused as malformed
                pass
            found = messages(client, other)
        assert [(message.payload, message.dup) for message in found] in ([], [(b"payload", False)])


# -- QoS


@pytest.mark.parametrize("flags", [0x00, 0x01, 0x08])
def test_qos_3(address: Address, version: int, flags: int) -> None:
    """A PUBLISH with both QoS bits closes the connection."""
    with connected(address, version) as client:
        client.send(publish(version, unique("qos"), 3, flags=flags))
        assert not isinstance(client.expect_close(), (Puback, Pubrec))


@pytest.mark.parametrize("packet_id", [1, 255, 256, 65535])
def test_answer_of_each_qos(address: Address, version: int, packet_id: int) -> None:
    """QoS 0 is not answered, QoS 1 with PUBACK, QoS 2 with PUBREC."""
    topic = unique("answer")
    with connected(address, version) as client:
        client.send(Publish(topic.encode(), b"", 0))
        client.expect_nothing_more()
        client.send(Publish(topic.encode(), b"", 1, packet_id=packet_id))
        assert client.expect(Puback).packet_id == packet_id
        client.send(Publish(topic.encode(), b"", 2, packet_id=packet_id))
        assert client.expect(Pubrec).packet_id == packet_id
        client.expect_nothing_more()
        client.send(Pubrel(packet_id))
        assert client.expect(Pubcomp).packet_id == packet_id


@pytest.mark.parametrize("qos", [1, 2])
def test_qos_above_the_maximum(configured: Configured, qos: int) -> None:
    """A PUBLISH with a QoS above the server's Maximum QoS is refused with 0x9B [MQTT5 3.2.2.3.4]."""
    topic = unique("qos")
    address = configured(mqtt={"maximum_qos": qos - 1})
    with connected(address, 5) as client, connected(address, 5) as publisher, connected(address, 5) as other:
        subscribe(client, Subscription(topic, 0))
        publisher.send(publish(5, topic, qos))
        last = publisher.expect_close()
        assert isinstance(last, Disconnect)
        assert last.reason_code == 0x9B
        assert messages(client, other) == []


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_retain_not_available(configured: Configured, qos: int) -> None:
    """A PUBLISH with RETAIN to a server without retained messages is refused with 0x9A [MQTT5 3.2.2.3.5]."""
    topic = unique("retain")
    address = configured(mqtt={"retain_available": False})
    with connected(address, 5) as client, connected(address, 5) as publisher, connected(address, 5) as other:
        subscribe(client, Subscription(topic, 0))
        publisher.send(publish(5, topic, qos, flags=0x01))
        last = publisher.expect_close()
        assert isinstance(last, Disconnect)
        assert last.reason_code == 0x9A
        assert messages(client, other) == []


# -- the topic name


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_topic_comes_first(address: Address, version: int, qos: int) -> None:
    """A delivery begins with the topic name, in UTF-8 and with its length in front, compared byte by byte."""
    topic = unique("Straße/温度/🌡")
    with connected(address, version) as client, connected(address, version) as publisher:
        client.send(by_hand.subscribe(version, 1, [(topic, qos)]))
        assert by_hand.receive(client)[0] == by_hand.SUBACK
        publisher.publish(topic, b"payload", qos)
        first, body = by_hand.receive(client)
        assert first == 0x30 | qos << 1
        assert body.startswith(by_hand.string(topic))
        assert body.endswith(b"payload")
        properties = 1 if version == 5 else 0
        rest = body[len(by_hand.string(topic)) : -len(b"payload")]
        assert len(rest) == (2 if qos else 0) + properties
        if qos:
            assert rest[:2] != b"\0\0"


@pytest.mark.parametrize(
    "topic", [b"a/\xff", b"a/\xc0\xaf", b"a/\xed\xa0\x80", b"a/\xf5\x80\x80\x80", b"\xc3", b"a\0b"]
)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_topic_is_utf8(address: Address, version: int, topic: bytes, qos: int) -> None:
    """A topic name that is not well-formed UTF-8 closes the connection."""
    with connected(address, version) as client:
        client.send(publish(version, topic, qos))
        assert not isinstance(client.expect_close(), (Puback, Pubrec))


@pytest.mark.parametrize(
    ("body", "qos"), [(b"", 0), (b"\0", 0), (b"\0\4abc", 0), (b"\0\1a", 1), (b"\0\1a\0", 2)], ids=repr
)
def test_cut_off(address: Address, version: int, body: bytes, qos: int) -> None:
    """A PUBLISH that ends within its topic name or packet identifier closes the connection."""
    with connected(address, version) as client:
        client.send(by_hand.packet(0x30 | qos << 1, body))
        assert not isinstance(client.expect_close(), (Puback, Pubrec))


@pytest.mark.parametrize("level", ["/+", "/#", "/+/c", "/b/+"])
def test_delivered_topics_match_the_filter(address: Address, version: int, level: str) -> None:
    """The topics of deliveries match the filter, whatever is published."""
    base = unique("match")
    fits = {"/+": ["/b"], "/#": ["", "/b", "/b/c", "/b/d"], "/+/c": ["/b/c"], "/b/+": ["/b/c", "/b/d"]}
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(base + level, 0))
        for rest in ("", "/b", "/b/c", "/b/d", "x", "x/b/c"):
            publisher.publish(base + rest)
        assert topics(messages(client, publisher)) == [base + rest for rest in fits[level]]


# -- what is not permitted


@pytest.mark.parametrize("refused", ["acknowledge", "close"])
@pytest.mark.parametrize("qos", [1, 2])
def test_refused_in_3_1_1(configured: Configured, refused: str, qos: int) -> None:
    """A 3.1.1 PUBLISH that is not permitted is acknowledged or closes the connection; it is not delivered."""
    topic = unique("denied")
    address = configured(authorization={"deny_publish": [topic], "refused_publish": refused})
    with connected(address, 4) as client, connected(address, 4) as publisher:
        subscribe(client, Subscription(topic, 2))
        if refused == "acknowledge":
            publisher.publish(topic, b"denied", qos)
        else:
            publisher.send(publish(4, topic, qos))
            assert publisher.expect_close() is None
        with connected(address, 4) as other:
            assert messages(client, other) == []


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_refused_in_5(configured: Configured, qos: int) -> None:
    """An MQTT 5 PUBLISH that is not permitted is refused with 0x87, QoS 0 without an answer; it is not delivered."""
    topic = unique("denied")
    address = configured(authorization={"deny_publish": [topic]})
    with connected(address, 5) as client, connected(address, 5) as publisher:
        subscribe(client, Subscription(topic, 2))
        publisher.send(publish(5, topic, qos))
        if qos:
            assert publisher.expect(Puback if qos == 1 else Pubrec).reason_code == 0x87
        publisher.expect_nothing_more()
        assert messages(client, publisher) == []


# -- what only a server may send


def test_subscription_identifier_from_a_client(address: Address) -> None:
    """A client's PUBLISH with a Subscription Identifier closes the connection; the identifier reaches nobody."""
    topic = unique("identifier")
    with connected(address, 5) as client, connected(address, 5) as publisher, connected(address, 5) as other:
        subscribe(client, Subscription(topic, 0))
        publisher.send(by_hand.packet(0x30, by_hand.string(topic) + b"\2\x0b\7" + b"payload"))
        assert not isinstance(publisher.expect_close(), Publish)
        assert all(props.SUBSCRIPTION_IDENTIFIER not in (got.properties or {}) for got in messages(client, other))


# -- Receive Maximum


def receive_maximum(client: WireClient) -> int:
    """Return the Receive Maximum of CONNACK, or skip the test if a client cannot exceed it."""
    connack = client.connect()
    told = (connack.properties or {}).get(props.RECEIVE_MAXIMUM, 65535)
    assert isinstance(told, int)
    if told == 65535:
        pytest.skip("there are no more packet identifiers than the server's Receive Maximum")
    return told


@pytest.fixture(params=["as it is", "small"])
def limiting(request: pytest.FixtureRequest) -> Address:
    """A broker with its default Receive Maximum, and one with a small one."""
    if request.param == "as it is":
        address: Address = request.getfixturevalue("address")
        return address
    configured: Configured = request.getfixturevalue("configured")
    return configured(session={"receive_maximum": 7})


@pytest.mark.parametrize("qos", [1, 2])
def test_past_receive_maximum(limiting: Address, qos: int) -> None:
    """One unacknowledged PUBLISH more than Receive Maximum gets DISCONNECT 0x93, at QoS 1 and at QoS 2."""
    address = limiting
    topic = unique("quota").encode()
    with WireClient(address, 5) as client:
        most = receive_maximum(client)
        for packet_id in range(1, most + 1):
            client.send(Publish(topic, b"", 2, packet_id=packet_id))
            assert client.expect(Pubrec).packet_id == packet_id
        client.send(Publish(topic, b"", qos, packet_id=most + 1))
        last = client.expect_close()
        assert isinstance(last, Disconnect)
        assert last.reason_code == 0x93


def test_up_to_receive_maximum(limiting: Address) -> None:
    """Receive Maximum PUBLISHes at once are accepted, at QoS 1 and at QoS 2, and as many again when acknowledged."""
    address = limiting
    topic = unique("quota")
    with WireClient(address, 5) as client, connected(address, 5) as subscriber:
        subscribe(subscriber, Subscription(topic, 0))
        most = receive_maximum(client)
        for _ in range(3):
            sent = [
                encode_publish(topic.encode(), b"%d" % number, 1 + number % 2, False, False, number, None, 5)
                for number in range(1, most + 1)
            ]
            client.send(b"".join(sent))
            waiting = set(range(1, most + 1))
            while waiting:
                packet = client.receive()
                if isinstance(packet, Pubrec):
                    client.send(Pubrel(packet.packet_id))
                else:
                    assert isinstance(packet, (Puback, Pubcomp)), packet
                    waiting.remove(packet.packet_id)
        found = messages(subscriber, client)
        assert sorted(payloads(found)) == sorted([b"%d" % number for number in range(1, most + 1)] * 3)
