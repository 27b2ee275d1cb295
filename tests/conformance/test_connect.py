"""CONNECT: it comes first and once, and what makes it malformed (section 3.1)."""

import pytest

from protocol.disconnect import Disconnect
from protocol.publish import Publish
from tests.conformance import by_hand
from tests.conformance.by_hand import packet, string
from tests.conformance.connecting import (
    CLEAN,
    PASSWORD,
    USER_NAME,
    WILL,
    WILL_RETAIN,
    accepted,
    connect,
    malformed,
    refusal,
    refused,
    will,
)
from tests.conformance.delivery import messages, unique
from tests.support.process import Address
from tests.support.wire import WireClient, connected

WILL_QOS = 0x08


# -- first and once


@pytest.mark.parametrize("name", ["PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE", "PUBACK", "PINGREQ", "DISCONNECT", "CONNACK"])
def test_first_packet(address: Address, version: int, name: str) -> None:
    """A packet before CONNECT closes the connection and has no other effect."""
    topic = unique("first")
    first = {
        "PUBLISH": by_hand.publish(version, topic),
        "SUBSCRIBE": by_hand.subscribe(version, 1, [(topic, 0)]),
        "UNSUBSCRIBE": by_hand.unsubscribe(version, 1, [topic]),
        "PUBACK": b"\x40\x02\0\1",
        "PINGREQ": by_hand.PINGREQ,
        "DISCONNECT": b"\xe0\x00",
        "CONNACK": b"\x20\x02\0\0",
    }
    with connected(address, version) as watcher, connected(address, version) as publisher:
        watcher.subscribe(topic)
        with WireClient(address, version) as client:
            client.send(first[name], connect(version, unique("c")))
            assert client.until_close() == []
        assert messages(watcher, publisher) == []


def test_second_connect(address: Address, version: int) -> None:
    """A second CONNECT is a protocol error: it closes the connection and gets no CONNACK."""
    with WireClient(address, version) as client:
        data = connect(version, unique("c"))
        accepted(client, data)
        client.send(data)
        last = client.until_close()
        assert all(version == 5 and isinstance(each, Disconnect) for each in last), last


# -- protocol name and level


@pytest.mark.parametrize(
    "name", [b"", b"MQT", b"MQTX", b"mqtt", b"MQTTT", b"MQTT ", b"HTTP", b"MQTT\0", b"\xff\xff\xff\xff"]
)
def test_protocol_name(address: Address, version: int, name: bytes) -> None:
    """A CONNECT with another protocol name than MQTT is not accepted, at least not as a client of this version."""
    with WireClient(address, version) as client:
        refused(client, connect(version, unique("c"), name=name))


@pytest.mark.parametrize("level", [0, 1, 2, 6, 7, 127])
def test_protocol_level(address: Address, level: int) -> None:
    """A protocol level that the server does not know closes the connection; MQTT 5 clients may get 0x84 first."""
    with WireClient(address, 5) as client:
        client.send(connect(5, unique("c"), level=level))
        data = b""
        while more := client.socket.recv(100):
            data += more
    assert data in {b"", b"\x20\x02\x00\x01"} or (data[0] == 0x20 and data[2:4] == b"\x00\x84")


@pytest.mark.parametrize("level", [0, 1, 2])
def test_protocol_level_is_refused(address: Address, level: int) -> None:
    """A protocol level below 3.1.1's is refused with return code 1, then the connection closes."""
    with WireClient(address, 4) as client:
        connack = refused(client, connect(4, unique("c"), level=level))
        assert connack is not None
        assert connack.reason_code == 1


# -- flags, and the fields that they announce


def test_reserved_flag(address: Address, version: int) -> None:
    """The reserved bit of the connect flags must be 0."""
    with WireClient(address, version) as client:
        malformed(client, connect(version, unique("c"), flags=CLEAN | 1))


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_will_qos(address: Address, version: int, qos: int) -> None:
    """A will may have QoS 0, 1 or 2, and is published with it."""
    topic = unique("will")
    with connected(address, version) as watcher:
        watcher.subscribe(topic, qos=2)
        with WireClient(address, version) as client:
            fields = will(version, topic, b"gone")
            accepted(client, connect(version, unique("c"), fields, flags=CLEAN | WILL | qos * WILL_QOS))
        message = watcher.receive_message()
        assert (message.payload, message.qos) == (b"gone", qos)


@pytest.mark.parametrize("flags", [WILL, WILL | WILL_RETAIN])
def test_will_qos_3(address: Address, version: int, flags: int) -> None:
    """A will cannot have QoS 3."""
    with WireClient(address, version) as client:
        fields = will(version, unique("will"), b"gone")
        malformed(client, connect(version, unique("c"), fields, flags=CLEAN | flags | 3 * WILL_QOS))


@pytest.mark.parametrize("qos", [1, 2, 3])
def test_will_qos_without_will(address: Address, version: int, qos: int) -> None:
    """Without a will, the will QoS must be 0."""
    with WireClient(address, version) as client:
        malformed(client, connect(version, unique("c"), flags=CLEAN | qos * WILL_QOS))


def test_will_retain_without_will(address: Address, version: int) -> None:
    """Without a will, the will retain flag must be 0."""
    with WireClient(address, version) as client:
        malformed(client, connect(version, unique("c"), flags=CLEAN | WILL_RETAIN))


def test_will_fields_without_will(address: Address, version: int) -> None:
    """Without the will flag, the payload must not have a will."""
    with WireClient(address, version) as client:
        malformed(client, connect(version, unique("c"), will(version, unique("will"), b"gone")))


@pytest.mark.parametrize("left", ["nothing", "topic", "half a message"])
def test_will_without_its_fields(address: Address, version: int, left: str) -> None:
    """With the will flag, the payload must have all fields of a will."""
    fields = will(version, unique("will"), b"gone")
    cut = {"nothing": 0, "topic": len(fields) - 6, "half a message": len(fields) - 2}
    with WireClient(address, version) as client:
        malformed(client, connect(version, unique("c"), fields[: cut[left]], flags=CLEAN | WILL))


def test_user_name_without_flag(address: Address, version: int) -> None:
    """Without the user name flag, the payload must not have a user name."""
    with WireClient(address, version) as client:
        malformed(client, connect(version, unique("c"), string("user")))


def test_user_name_missing(address: Address, version: int) -> None:
    """With the user name flag, the payload must have a user name."""
    with WireClient(address, version) as client:
        malformed(client, connect(version, unique("c"), flags=CLEAN | USER_NAME))


def test_password_without_flag(address: Address, version: int) -> None:
    """Without the password flag, the payload must not have a password."""
    with WireClient(address, version) as client:
        malformed(client, connect(version, unique("c"), string("user") + string("pass"), flags=CLEAN | USER_NAME))


@pytest.mark.parametrize("cut", [0, 1, 3])
def test_password_missing(address: Address, version: int, cut: int) -> None:
    """With the password flag, the payload must have a complete password."""
    payload = string("user") + string("pass")[:cut]
    with WireClient(address, version) as client:
        malformed(client, connect(version, unique("c"), payload, flags=CLEAN | USER_NAME | PASSWORD))


def test_password_without_user_name(address: Address) -> None:
    """3.1.1 does not allow a password without a user name."""
    with WireClient(address, 4) as client:
        malformed(client, connect(4, unique("c"), string("pass"), flags=CLEAN | PASSWORD))


def test_all_fields_in_order(address: Address, version: int) -> None:
    """Client id, will, user name and password are read in this order."""
    topic = unique("will")
    with connected(address, version) as watcher:
        watcher.subscribe(topic)
        with WireClient(address, version) as client:
            fields = will(version, topic, b"gone") + string("user") + string(b"\xff\0pass")
            accepted(client, connect(version, unique("c"), fields, flags=CLEAN | WILL | USER_NAME | PASSWORD))
        assert watcher.receive_message().payload == b"gone"


# -- malformed


BAD_PROPERTIES = {
    "unknown": b"\x7f\0",
    "of another packet": b"\x23\0\1",  # Topic Alias
    "cut off": b"\x11\0\0",
    "twice": b"\x21\0\1" + b"\x21\0\2",  # Receive Maximum
    "Receive Maximum 0": b"\x21\0\0",
    "Maximum Packet Size 0": b"\x27\0\0\0\0",
    "Request Problem Information 2": b"\x17\2",
    "Request Response Information 2": b"\x19\2",
    "Authentication Data alone": b"\x16\0\1x",
}


def bare(version: int, payload: bytes) -> bytes:
    """A CONNECT with this payload, which may lack a client id."""
    head = string("MQTT") + bytes((version, CLEAN, 0, 0)) + (b"\0" if version == 5 else b"")
    return packet(0x10, head + payload)


def test_no_client_id(address: Address, version: int) -> None:
    """The client id field must exist, even if its length is 0."""
    with WireClient(address, version) as client:
        malformed(client, bare(version, b""))


@pytest.mark.parametrize("payload", [b"\0", b"\0\5four", b"\xff\xffx"])
def test_client_id_cut_off(address: Address, version: int, payload: bytes) -> None:
    """A client id that is shorter than its length field says is malformed."""
    with WireClient(address, version) as client:
        malformed(client, bare(version, payload))


def test_bytes_behind_the_end(address: Address, version: int) -> None:
    """Bytes after the last field are malformed."""
    with WireClient(address, version) as client:
        malformed(client, connect(version, unique("c"), b"\0"))


@pytest.mark.parametrize("length", range(10))
def test_too_short(address: Address, version: int, length: int) -> None:
    """A CONNECT that ends before its payload is malformed."""
    whole = connect(version, "")[2:]
    with WireClient(address, version) as client:
        malformed(client, packet(0x10, whole[:length]))


@pytest.mark.parametrize("name", BAD_PROPERTIES)
def test_bad_properties(address: Address, name: str) -> None:
    """Properties that CONNECT must not have, duplicate ones and wrong values are malformed."""
    with WireClient(address, 5) as client:
        malformed(client, connect(5, unique("c"), properties=BAD_PROPERTIES[name]))


@pytest.mark.parametrize("properties", [b"\x02\0\0\0\1" * 2, b"\x01\0" * 2, b"\x23\0\1"])
def test_bad_will_properties(address: Address, properties: bytes) -> None:
    """Properties that a will must not have, duplicate ones and wrong values are malformed."""
    fields = will(5, unique("will"), b"gone", properties)
    with WireClient(address, 5) as client:
        malformed(client, connect(5, unique("c"), fields, flags=CLEAN | WILL))


@pytest.mark.parametrize("topic", ["", "a/#", "+", "a/+/b"])
def test_will_topic_that_is_none(address: Address, version: int, topic: str) -> None:
    """A will topic must be a valid topic name: not empty, without wildcards."""
    with WireClient(address, version) as client:
        refused(client, connect(version, unique("c"), will(version, topic), flags=CLEAN | WILL))


# -- after the checks


def test_accepted(address: Address, version: int) -> None:
    """A valid CONNECT is answered with a CONNACK of success."""
    with WireClient(address, version) as client:
        assert accepted(client, connect(version, unique("c"))).reason_code == 0
        client.expect_nothing_more()


def test_refused(address: Address, version: int) -> None:
    """A client that is refused is disconnected, after a CONNACK that refuses if one is sent."""
    with WireClient(address, version) as client:
        refused(client, refusal(version, unique("c")))


def test_nothing_behind_a_refusal(address: Address, version: int) -> None:
    """Packets after a CONNECT that is refused have no effect, whether the CONNECT is malformed or not permitted."""
    topic = unique("behind")
    not_let_in = connect(4, "", flags=0)  # [MQTT-3.1.3-8]
    with connected(address, version) as watcher, connected(address, version) as publisher:
        watcher.subscribe(topic)
        for data in (refusal(version, unique("c")), not_let_in):
            with WireClient(address, 4 if data == not_let_in else version) as client:
                refused(client, data + by_hand.publish(client.version, topic, b"x"))
        assert messages(watcher, publisher) == []


def test_everything_at_once(address: Address, version: int) -> None:
    """A client need not wait for CONNACK: packets after a CONNECT that is accepted are handled."""
    topic = unique("hasty")
    with connected(address, version) as watcher:
        watcher.subscribe(topic)
        with WireClient(address, version) as client:
            accepted(client, connect(version, unique("c")) + by_hand.publish(version, topic, b"x"))
            assert watcher.expect(Publish).payload == b"x"
