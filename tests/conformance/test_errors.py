"""Handling errors (section 4.13 of 5.0, section 4.8 of 3.1.1)."""

import socket
from dataclasses import dataclass, field

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.disconnect import Disconnect
from protocol.ping import Pingreq, Pingresp
from protocol.publish import Publish
from protocol.subscribe import Subscription
from tests.conformance import by_hand
from tests.conformance.configured import Configured
from tests.conformance.delivery import messages, payloads, subscribe, unique
from tests.support.process import Address
from tests.support.wire import WireClient, connected

MALFORMED_OR_ERROR = frozenset({reason_codes.MALFORMED_PACKET, reason_codes.PROTOCOL_ERROR})
"""Malformed or protocol error: which of the two often depends on how far a server reads before it notices."""


@dataclass(frozen=True)
class Violation:
    """Bytes that no client may send on an open connection."""

    name: str
    v4: bytes = b""
    v5: bytes = b""
    codes: frozenset[int] = field(default=MALFORMED_OR_ERROR)
    """The reason codes that a DISCONNECT of 5.0 may have for it."""

    def bytes_of(self, version: int) -> bytes:
        """The packet in this version; empty if the version does not have it."""
        return self.v5 if version == 5 else self.v4


def both(name: str, packet: bytes) -> Violation:
    """A violation with the same bytes in both versions."""
    return Violation(name, packet, packet)


def published(properties: bytes, first: int = 0x30, packet_id: bytes = b"") -> bytes:
    """A PUBLISH of 5.0 with these properties."""
    length = by_hand.variable_byte_integer(len(properties))
    return by_hand.packet(first, by_hand.string("errors") + packet_id + length + properties + b"x")


_CONNECT = {
    version: by_hand.packet(
        0x10,
        by_hand.string("MQTT")
        + bytes((version, 2, 0, 60))
        + (b"\0" if version == 5 else b"")
        + by_hand.string("second"),
    )
    for version in (4, 5)
}
_TOPIC = by_hand.string("errors")

VIOLATIONS = [
    Violation("a second CONNECT", _CONNECT[4], _CONNECT[5], frozenset({reason_codes.PROTOCOL_ERROR})),
    both("packet type 0", b"\0\0"),
    Violation("packet type 15", v4=b"\xf0\0"),
    both("CONNACK from a client", b"\x20\2\0\0"),
    Violation("SUBACK from a client", b"\x90\3\0\1\0", b"\x90\4\0\1\0\0"),
    Violation("UNSUBACK from a client", b"\xb0\2\0\1", b"\xb0\4\0\1\0\0"),
    both("PINGRESP from a client", b"\xd0\0"),
    both("a remaining length of five bytes", b"\xc0\x80\x80\x80\x80\x01"),
    Violation("PUBLISH with QoS 3", by_hand.packet(0x36, _TOPIC + b"\0\1"), published(b"", 0x36, b"\0\1")),
    Violation(
        "PUBLISH with packet identifier 0", by_hand.packet(0x32, _TOPIC + b"\0\0"), published(b"", 0x32, b"\0\0")
    ),
    both("PUBLISH shorter than its topic", by_hand.packet(0x30, b"\0\x64short")),
    Violation(
        "SUBSCRIBE with packet identifier 0", by_hand.subscribe(4, 0, [("a", 0)]), by_hand.subscribe(5, 0, [("a", 0)])
    ),
    Violation(
        "UNSUBSCRIBE with packet identifier 0", by_hand.unsubscribe(4, 0, ["a"]), by_hand.unsubscribe(5, 0, ["a"])
    ),
    both("PUBACK with flags", b"\x41\2\0\1"),
    both("PUBREL without flags", b"\x60\2\0\1"),
    both("PUBACK without packet identifier", b"\x40\0"),
    both("PINGREQ with flags", b"\xc4\0"),
    both("DISCONNECT with flags", b"\xe1\0"),
    Violation("DISCONNECT with something behind it", v4=b"\xe0\1\0"),
    Violation("an unknown property", v5=published(b"\x7f\0")),
    Violation("a property of another packet", v5=published(b"\x21\0\1")),
    Violation("a property twice", v5=published(b"\3\0\1a\3\0\1b")),
    Violation("a property cut off", v5=by_hand.packet(0x30, _TOPIC + b"\x05\3\0\x63ab")),
    Violation(
        "topic alias 0", v5=published(b"\x23\0\0"), codes=MALFORMED_OR_ERROR | {reason_codes.TOPIC_ALIAS_INVALID}
    ),
    Violation("a subscription identifier from a client", v5=published(b"\x0b\1")),
    Violation("PUBACK with an unknown reason code", v5=b"\x40\4\0\1\x55\0"),
    Violation("AUTH without authentication", v5=b"\xf0\0"),
]


def cases(version: int) -> list[Violation]:
    """The violations of this version."""
    return [violation for violation in VIOLATIONS if violation.bytes_of(version)]


@pytest.mark.parametrize(
    ("version", "violation"),
    [(version, violation) for version in (4, 5) for violation in cases(version)],
    ids=lambda value: value.name if isinstance(value, Violation) else None,
)
def test_violation_closes(address: Address, version: int, violation: Violation) -> None:
    """A packet that breaks the protocol closes its connection."""
    with connected(address, version) as client:
        client.send(violation.bytes_of(version))
        last = client.expect_close()
        assert last is None or (version == 5 and isinstance(last, Disconnect)), last
        assert not isinstance(last, Disconnect) or last.reason_code in violation.codes


def test_violation_is_named(configured: Configured) -> None:
    """MQTT 5 clients get the reason in DISCONNECT before the connection closes."""
    address = configured()
    for violation in cases(5):
        with connected(address, 5) as client:
            client.send(violation.v5)
            last = client.expect_close()
            assert isinstance(last, Disconnect), violation.name
            assert last.reason_code in violation.codes, violation.name


def test_violation_leaves_others_alone(address: Address, version: int) -> None:
    """A violation does not affect the connections of others."""
    topic = unique("others")
    with connected(address, version) as other, connected(address, version) as publisher:
        subscribe(other, Subscription(topic))
        for violation in cases(version):
            with connected(address, version) as client:
                client.send(violation.bytes_of(version))
                client.socket.shutdown(socket.SHUT_WR)  # without a reaction to the violation it closes here
                client.expect_close()
            publisher.publish(topic, violation.name.encode())
        expected = [violation.name.encode() for violation in cases(version)]
        assert payloads(messages(other, publisher)) == expected


@pytest.mark.parametrize(
    ("qos", "wrong"),
    [(1, [Pubrec]), (1, [Pubcomp]), (2, [Puback]), (2, [Pubcomp]), (2, [Pubrec, Puback])],
    ids=["PUBREC for QoS 1", "PUBCOMP for QoS 1", "PUBACK for QoS 2", "PUBCOMP before PUBREC", "PUBACK behind PUBREC"],
)
def test_wrong_acknowledgement(
    address: Address, version: int, qos: int, wrong: list[type[Puback | Pubrec | Pubcomp]]
) -> None:
    """An acknowledgement of the wrong kind for its delivery is a protocol error."""
    topic = unique("wrong")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic, qos))
        publisher.publish(topic, b"x", qos)
        packet_id = client.expect(Publish).packet_id
        client.send(*[acknowledgement(packet_id) for acknowledgement in wrong])
        last = client.expect_close()
        if len(wrong) == 2 and isinstance(last, Pubrel):
            last = None
        assert last is None or (version == 5 and isinstance(last, Disconnect)), last
        assert not isinstance(last, Disconnect) or last.reason_code == reason_codes.PROTOCOL_ERROR


def test_what_came_before_counts(address: Address, version: int) -> None:
    """Packets before the violation are handled, even if they are in the same write."""
    topic = unique("before")
    with connected(address, version) as other, connected(address, version) as publisher:
        subscribe(other, Subscription(topic))
        with connected(address, version) as client:
            client.send(
                by_hand.publish(version, topic, b"before") + b"\0\0" + by_hand.publish(version, topic, b"behind")
            )
            client.expect_close()
        assert payloads(messages(other, publisher)) == [b"before"]


# -- reason codes that end the connection


_UNKNOWN_LEVEL = by_hand.packet(0x10, by_hand.string("MQTT") + b"\x09\2\0\x3c\0" + by_hand.string("level"))
_RESERVED_FLAG = by_hand.packet(0x10, by_hand.string("MQTT") + b"\5\3\0\x3c\0" + by_hand.string("flag"))
_UNKNOWN_METHOD = by_hand.packet(
    0x10, by_hand.string("MQTT") + b"\5\2\0\x3c\x07\x15" + by_hand.string("none") + by_hand.string("method")
)
_WILL_WITH_WILDCARD = by_hand.packet(
    0x10,
    by_hand.string("MQTT")
    + b"\5\6\0\x3c\0"
    + by_hand.string("will")
    + b"\0"
    + by_hand.string("a/#")
    + by_hand.string("x"),
)


@pytest.mark.parametrize(
    "packet",
    [_UNKNOWN_LEVEL, _RESERVED_FLAG, _UNKNOWN_METHOD, _WILL_WITH_WILDCARD],
    ids=["unknown level", "reserved flag", "unknown method", "will with a wildcard"],
)
def test_connack_of_refusal_is_the_last(address: Address, packet: bytes) -> None:
    """A client that is refused gets a CONNACK that refuses, or none, and then the connection closes."""
    with WireClient(address, 5) as client:
        client.send(packet + by_hand.PINGREQ)
        try:
            first, body = by_hand.receive(client)
        except ConnectionError:
            return
        assert first == 0x20
        # A server does not know the CONNACK of an unknown level either: codes of 3.1.1 are allowed.
        assert body[1] >= 0x80 or (packet == _UNKNOWN_LEVEL and body == b"\0\1")
        assert client.expect_close() is None


def test_disconnect_of_refusal_is_the_last(address: Address) -> None:
    """After a DISCONNECT nothing comes and the connection closes: here at a take-over and a second CONNECT."""
    client_id, topic = unique("client"), unique("last")
    with connected(address, 5, client_id=client_id) as older, connected(address, 5) as publisher:
        subscribe(older, Subscription(topic))
        with connected(address, 5, client_id=client_id) as newer:
            publisher.publish(topic, b"x")
            last = older.expect_close()
            assert last is None or (isinstance(last, Disconnect) and last.reason_code == 0x8E)
            newer.send(_CONNECT[5] + by_hand.PINGREQ)
            last = newer.expect_close()
            assert last is None or (isinstance(last, Disconnect) and last.reason_code == 0x82)


@pytest.mark.parametrize("code", [0x80, 0x81, 0x82, 0x93, 0x95])
def test_disconnect_from_the_client(address: Address, code: int) -> None:
    """A DISCONNECT with a reason code for an error makes the server close, too."""
    with connected(address, 5) as client:
        client.send(by_hand.packet(0xE0, bytes((code, 0))))
        assert client.expect_close() is None


# -- errors that concern a packet only


def test_refused_packet_leaves_the_connection_alone(configured: Configured) -> None:
    """A reason code of 0x80 or more in an acknowledgement concerns its packet only [MQTT5 4.13.2]."""
    address = configured(authorization={"deny_publish": ["secret/#"], "deny_subscribe": ["secret/#"]})
    with connected(address, 5) as client:
        assert client.subscribe("secret/a", "free", qos=1).reason_codes == [reason_codes.UNSPECIFIED_ERROR, 1]
        client.publish("free", b"x", 1)
        assert client.receive_message().payload == b"x"
        client.send(Pingreq())
        client.expect(Pingresp)


def test_problem_information_unwanted(configured: Configured) -> None:
    """With Request Problem Information 0, only CONNACK, PUBLISH and DISCONNECT may have a Reason String."""
    address = configured(authorization={"deny_publish": ["secret/#"], "deny_subscribe": ["secret/#"]})
    with connected(address, 5, properties={props.REQUEST_PROBLEM_INFORMATION: 0}) as client:
        answer = client.subscribe("secret/a")
        assert answer.reason_codes == [reason_codes.UNSPECIFIED_ERROR]
        assert not answer.properties
        for qos, kind in ((1, Puback), (2, Pubrec)):
            client.send(Publish(b"secret/a", b"x", qos, packet_id=7))
            refused = client.expect(kind)
            assert refused.reason_code >= 0x80
            assert not refused.properties
