"""Parts of packets: flags, lengths, packet identifiers, properties (section 2, and 1.5.5)."""

import struct

import pytest

from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.disconnect import Disconnect
from protocol.publish import Publish, encode_publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from protocol.unsuback import Unsuback
from protocol.unsubscribe import Unsubscribe
from tests.conformance import by_hand
from tests.conformance.by_hand import packet, receive, string, variable_byte_integer
from tests.conformance.connecting import connect, malformed
from tests.conformance.delivery import unique
from tests.conformance.sessions import KeptSession, take
from tests.support.process import Address
from tests.support.wire import WireClient, connected

FIXED_FLAGS = {
    "PUBACK": 0x40,
    "PUBREC": 0x50,
    "PUBREL": 0x62,
    "PUBCOMP": 0x70,
    "PINGREQ": 0xC0,
    "DISCONNECT": 0xE0,
}
"""The first bytes of packets that a client sends without a payload; SUBSCRIBE and UNSUBSCRIBE have tests elsewhere."""


def exchange(address: Address, version: int) -> dict[int, int]:
    """Make the server send each packet that it can send; returns the flags by packet type."""
    topic = unique("exchange")
    flags: dict[int, int] = {}
    with WireClient(address, version) as client:

        def expect(packet_type: int) -> None:
            first, _ = receive(client)
            assert first >> 4 == packet_type
            flags[packet_type] = first & 0x0F

        client.send(connect(version, unique("c")))
        expect(2)
        client.send(by_hand.subscribe(version, 1, [(topic, 2)]))
        expect(9)
        client.send(Publish(topic.encode(), b"x", 1, packet_id=2))
        seen = {first >> 4: (first, body) for first, body in (receive(client), receive(client))}
        flags[4] = seen[4][0] & 0x0F
        client.send(Puback(_packet_id(seen[3][1], topic)))
        client.send(by_hand.unsubscribe(version, 3, [topic]))
        expect(11)
        client.send(Publish(topic.encode(), b"x", 2, packet_id=4))
        expect(5)
        client.send(Pubrel(4))
        expect(7)
        client.send(by_hand.subscribe(version, 5, [(topic, 2)]))
        expect(9)
        with connected(address, version) as publisher:
            publisher.publish(topic, b"x", 2)
        client.send(Pubrec(_packet_id(receive(client)[1], topic)))
        expect(6)
        client.send(by_hand.PINGREQ)
        expect(13)
    return flags


def _packet_id(body: bytes, topic: str) -> int:
    start = 2 + len(topic.encode())
    return int.from_bytes(body[start : start + 2], "big")


# -- flags


def test_flags_of_the_servers_packets(address: Address, version: int) -> None:
    """The server's packets have the flags of the standard's table: 0010 for PUBREL, else 0000."""
    assert exchange(address, version) == {2: 0, 4: 0, 5: 0, 6: 2, 7: 0, 9: 0, 11: 0, 13: 0}


@pytest.mark.parametrize("flag", [1, 2, 4, 8])
@pytest.mark.parametrize("name", FIXED_FLAGS)
def test_wrong_flags(address: Address, version: int, name: str, flag: int) -> None:
    """A packet with one wrong flag closes the connection."""
    body = struct.pack("!H", 1) if name.startswith("PUB") else b""
    with connected(address, version) as client:
        client.send(packet(FIXED_FLAGS[name] ^ flag, body))
        client.expect_close()


@pytest.mark.parametrize("flag", [1, 2, 4, 8])
def test_wrong_flags_of_connect(address: Address, version: int, flag: int) -> None:
    """A CONNECT with any flag in its fixed header closes the connection."""
    with WireClient(address, version) as client:
        malformed(client, connect(version, unique("c"), first=0x10 | flag))


# -- lengths


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384])
def test_shortest_lengths(address: Address, size: int) -> None:
    """Remaining Length and property length are encoded in as few bytes as possible, around each limit.

    A server may pass a message on as it came, but what it has retained it has to put together itself.
    """
    topic = unique("length")
    pair = b"\x26" + string("key") + string(b"v" * max(0, size - 8))
    for rest in (b"\0".ljust(max(2, size - len(string(topic))), b"x"), variable_byte_integer(len(pair)) + pair + b"x"):
        topic = unique("length")  # as long as before
        with connected(address, 5) as client:
            client.send(by_hand.subscribe(5, 1, [(topic, 0)]))
            assert receive(client)[0] == by_hand.SUBACK
            with connected(address, 5) as publisher:
                publisher.send(packet(0x33, string(topic) + b"\0\1" + rest))
                assert publisher.expect(Puback).packet_id == 1
                _expect_bytes(client, packet(0x30, string(topic) + rest))
                client.send(by_hand.subscribe(5, 2, [(topic, 0)]))
                assert receive(client)[0] == by_hand.SUBACK
                _expect_bytes(client, packet(0x31, string(topic) + rest))
                publisher.publish(topic, b"", 1, retain=True)


def _expect_bytes(client: WireClient, expected: bytes) -> None:
    data = b""
    while len(data) < len(expected) and (more := client.socket.recv(len(expected) - len(data))):
        data += more
    assert data == expected


@pytest.mark.parametrize("where", ["SUBSCRIBE", "PUBLISH", "PUBLISH properties", "SUBSCRIBE properties", "identifier"])
def test_lengths_longer_than_needed(address: Address, where: str) -> None:
    """A number encoded in more bytes than needed is malformed: it closes the connection."""
    topic = unique("padded")
    filters = string(topic) + b"\0"
    data = {
        "SUBSCRIBE": _padded(by_hand.subscribe(5, 1, [(topic, 0)])),
        "PUBLISH": _padded(by_hand.publish(5, topic, b"x")),
        "PUBLISH properties": packet(0x30, string(topic) + b"\x80\0" + b"x"),
        "SUBSCRIBE properties": packet(by_hand.SUBSCRIBE, b"\0\1" + b"\x80\0" + filters),
        "identifier": packet(by_hand.SUBSCRIBE, b"\0\1" + b"\x03\x0b\x81\0" + filters),
    }
    with connected(address, 5) as client:
        client.send(data[where])
        last = client.until_close()
        assert all(isinstance(each, Disconnect) and each.reason_code == 0x81 for each in last), last


def _padded(data: bytes) -> bytes:
    """A short packet whose Remaining Length has one byte more than needed."""
    assert data[1] < 128
    return bytes((data[0], data[1] | 0x80, 0)) + data[2:]


# -- packet identifiers


@pytest.mark.parametrize("name", ["SUBSCRIBE", "UNSUBSCRIBE", "PUBLISH 1", "PUBLISH 2"])
def test_packet_identifier_zero(address: Address, version: int, name: str) -> None:
    """A packet identifier of 0 where one is required closes the connection."""
    topic = unique("zero")
    tail = b"\0" if version == 5 else b""
    data = {
        "SUBSCRIBE": by_hand.subscribe(version, 0, [(topic, 0)]),
        "UNSUBSCRIBE": by_hand.unsubscribe(version, 0, [topic]),
        "PUBLISH 1": packet(0x32, string(topic) + b"\0\0" + tail),
        "PUBLISH 2": packet(0x34, string(topic) + b"\0\0" + tail),
    }
    with connected(address, version) as client:
        client.send(data[name])
        assert client.expect_close() is None or version == 5


@pytest.mark.parametrize("qos", [1, 2])
def test_unused_packet_identifiers(address: Address, version: int, qos: int) -> None:
    """Unacknowledged deliveries have different packet identifiers, none of them 0."""
    topic = unique("unused")
    with connected(address, version) as client, connected(address, version) as publisher:
        client.subscribe(topic, qos=qos)
        for _ in range(10):
            publisher.publish(topic, b"x", qos)
        found = {message.packet_id for message in take(client, 10)}
    assert len(found) == 10
    assert 0 not in found


@pytest.mark.timeout(120)
def test_packet_identifier_in_use_is_passed_over(address: Address, version: int) -> None:
    """The packet identifier of an unacknowledged delivery is not used again when all others have been used."""
    topic = unique("round")
    with connected(address, version) as client, connected(address, 4) as publisher:  # 3.1.1 has no Receive Maximum
        client.subscribe(topic, qos=1)
        publisher.publish(topic, b"x", 1)
        (first,) = take(client, 1)
        batch = b"".join(encode_publish(topic.encode(), b"", 1, False, False, i, None, 4) for i in range(1, 501))
        for _ in range(132):  # 66,000: more than there are identifiers
            publisher.send(batch)
            for _ in range(500):
                packet_id = client.expect(Publish).packet_id
                assert packet_id not in (0, first.packet_id)
                client.send(Puback(packet_id))
            for _ in range(500):
                publisher.expect(Puback)


@pytest.mark.parametrize("qos", [1, 2])
def test_resent_with_its_packet_identifier(address: Address, version: int, qos: int) -> None:
    """A resent packet has its old packet identifier, a new one has another."""
    topic = unique("again")
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        client = session.connect()
        client.subscribe(topic, qos=qos)
        publisher.publish(topic, b"old", qos)
        (old,) = take(client, 1)
        client.close()
        client = session.connect()
        (again,) = take(client, 1)
        publisher.publish(topic, b"new", qos)
        (new,) = take(client, 1)
    assert (again.payload, again.packet_id) == (b"old", old.packet_id)
    assert new.payload == b"new"
    assert new.packet_id not in (0, old.packet_id)


def test_no_packet_identifier_at_qos_0(address: Address, version: int) -> None:
    """A QoS 0 delivery has no packet identifier: the payload follows the topic, or the properties."""
    topic = unique("none")
    with connected(address, version) as client, connected(address, version) as publisher:
        client.subscribe(topic, qos=1)
        for _ in range(2):  # further ones may follow the first
            publisher.publish(topic, b"payload")
            assert receive(client) == (0x30, string(topic) + (b"\0" if version == 5 else b"") + b"payload")


@pytest.mark.parametrize("packet_id", [1, 255, 256, 65535])
def test_acknowledgements(address: Address, version: int, packet_id: int) -> None:
    """PUBACK, PUBREC and PUBCOMP have the packet identifier of the PUBLISH."""
    topic = unique("acknowledged").encode()
    with connected(address, version) as client:
        client.send(encode_publish(topic, b"x", 1, False, False, packet_id, None, version))
        assert client.expect(Puback).packet_id == packet_id
        client.send(encode_publish(topic, b"x", 2, False, False, packet_id, None, version))
        assert client.expect(Pubrec).packet_id == packet_id
        client.send(Pubrel(packet_id))
        assert client.expect(Pubcomp).packet_id == packet_id


def test_pubrel(address: Address, version: int) -> None:
    """PUBREL has the packet identifier of its delivery."""
    topic = unique("released")
    with connected(address, version) as client, connected(address, version) as publisher:
        client.subscribe(topic, qos=2)
        publisher.publish(topic, b"x", 2)
        (message,) = take(client, 1)
        client.send(Pubrec(message.packet_id))
        assert client.expect(Pubrel).packet_id == message.packet_id


@pytest.mark.parametrize("packet_id", [1, 255, 256, 65535])
def test_suback_and_unsuback(address: Address, version: int, packet_id: int) -> None:
    """SUBACK and UNSUBACK have the packet identifier of the packet that they answer."""
    topic = unique("answered")
    with connected(address, version) as client:
        client.send(Subscribe(packet_id, [Subscription(topic, 0)]))
        assert client.expect(Suback).packet_id == packet_id
        client.send(Unsubscribe(packet_id, [topic]))
        assert client.expect(Unsuback).packet_id == packet_id


# -- properties


def test_no_properties(address: Address) -> None:
    """A packet without properties has a property length of 0."""
    topic = unique("bare")
    with connected(address, 5) as client:
        client.send(by_hand.subscribe(5, 1, [(topic, 0)]))
        assert by_hand.codes(5, receive(client)[1], 1) == [0]
        client.send(by_hand.publish(5, topic, b"payload"))
        assert receive(client) == (0x30, string(topic) + b"\0" + b"payload")
        client.send(by_hand.unsubscribe(5, 2, [topic]))
        assert by_hand.codes(5, receive(client)[1], 2) == [0]


def test_no_property_length(address: Address) -> None:
    """A CONNECT of MQTT 5 that has no property length is malformed."""
    with WireClient(address, 5) as client:
        malformed(client, connect(4, unique("c"), level=5))
