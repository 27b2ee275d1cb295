"""DISCONNECT, from either side (section 3.14); test_will.py has its effect on a will."""

import pytest

from protocol import properties as props
from protocol.connack import Connack
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.properties import Properties
from protocol.publish import Publish
from tests.conformance import by_hand
from tests.conformance.by_hand import packet, string
from tests.conformance.connecting import NO_SUCH_METHOD, connect, will
from tests.conformance.delivery import messages, unique
from tests.conformance.keep_alive import PATIENCE
from tests.support.process import Address
from tests.support.wire import WireClient, connected

SERVERS_CODES = {0x00, *range(0x80, 0x84), 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3)}
"""The reason codes of DISCONNECT that a server may send."""

VIOLATIONS = {
    "second CONNECT": connect(5, "second"),
    "wrong flags": by_hand.subscribe(5, 1, [("t", 0)], first=0x80),
    "reserved packet type": b"\0\0",
    "QoS 3": packet(0x36, string("t") + b"\0\1\0"),
    "wildcard in topic": by_hand.publish(5, "a/#"),
    "topic not UTF-8": by_hand.publish(5, b"\xff"),
    "no filter": by_hand.subscribe(5, 1, []),
    "AUTH": b"\xf0\0",
    "Topic Alias 0": packet(0x30, string("t") + b"\x03\x23\0\0"),
    "unknown property": packet(0x30, string("t") + b"\x02\x7f\0"),
    "length too long": b"\x30\xff\xff\xff\xff\x7f",
    "keepalive": b"",
}
"""Ways in which an MQTT 5 client makes the server close its connection."""


def provoked(address: Address, violation: str, properties: Properties | None = None) -> list[Packet]:
    """Everything that the server sends from the violation to the close."""
    with connected(address, 5, keep_alive=1, properties=properties) as client:
        client.timeout = PATIENCE
        client.send(VIOLATIONS[violation])
        return client.until_close()


@pytest.mark.parametrize("violation", VIOLATIONS)
def test_reason_code(address: Address, violation: str) -> None:
    """A DISCONNECT from the server has a reason code of the server's table, and no Session Expiry Interval."""
    for last in provoked(address, violation):
        assert isinstance(last, Disconnect)
        assert last.reason_code in SERVERS_CODES
        assert props.SESSION_EXPIRY_INTERVAL not in (last.properties or {})


def test_reason_code_of_take_over(address: Address) -> None:
    """The DISCONNECT of a take-over has such a reason code too."""
    name = unique("c")
    with connected(address, 5, client_id=name) as client, connected(address, 5, client_id=name):
        for last in client.until_close():
            assert isinstance(last, Disconnect)
            assert last.reason_code in SERVERS_CODES
            assert props.SESSION_EXPIRY_INTERVAL not in (last.properties or {})


@pytest.mark.parametrize("size", [24, 32, 64])
@pytest.mark.parametrize("violation", [name for name in VIOLATIONS if name != "keepalive"])
def test_size(address: Address, violation: str, size: int) -> None:
    """A DISCONNECT that would exceed the client's Maximum Packet Size has no Reason String or User Property."""
    with WireClient(address, 5) as client:
        connack = None
        try:
            connack = client.connect(unique("c"), properties={props.MAXIMUM_PACKET_SIZE: size})
        except ConnectionError:
            pass
        if connack is None or connack.reason_code:
            pytest.skip(f"no connection with packets of {size} bytes")
        client.send(VIOLATIONS[violation])
        data = b""
        while more := client.socket.recv(1000):
            data += more
    assert len(data) <= size


@pytest.mark.parametrize("first", ["PUBLISH", "PINGREQ", "AUTH", "flags", "no CONNECT at all", "method", "will"])
def test_not_before_connack(address: Address, first: str) -> None:
    """A client that is not accepted yet gets no DISCONNECT, whatever rule it breaks."""
    bad = {
        "PUBLISH": by_hand.publish(5, "t"),
        "PINGREQ": by_hand.PINGREQ,
        "AUTH": b"\xf0\0",
        "flags": connect(5, unique("c"), flags=3),
        "no CONNECT at all": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "method": connect(5, unique("c"), properties=NO_SUCH_METHOD),
        "will": connect(5, unique("c"), will(5, "#"), flags=6),
    }
    with WireClient(address, 5) as client:
        client.send(bad[first])
        assert all(isinstance(each, Connack) and each.reason_code for each in client.until_close())


def test_nothing_behind_it(address: Address) -> None:
    """After a DISCONNECT the server sends nothing more, however many messages wait."""
    topic = unique("flood")
    with connected(address, 5) as client, connected(address, 5) as publisher:
        client.subscribe(topic)
        flood = b"".join(by_hand.publish(5, topic, b"x" * 100) for _ in range(500))
        publisher.send(flood)
        client.expect(Publish)
        client.send(VIOLATIONS["wrong flags"])
        publisher.send(flood)
        packets = client.until_close()
        kinds = [isinstance(each, Disconnect) for each in packets]
        assert True not in kinds[:-1]


def test_no_answer_behind_it(address: Address) -> None:
    """After a DISCONNECT the server sends no answer to packets that came before the violation in the same write."""
    topic = unique("answered")
    asked = (
        by_hand.subscribe(5, 1, [(topic, 0)]),
        packet(0x32, string(topic) + b"\0\2\0x"),
        by_hand.unsubscribe(5, 3, [topic]),
        by_hand.PINGREQ,
    )
    with connected(address, 5) as client:
        client.send(b"".join(asked) + VIOLATIONS["wrong flags"])
        kinds = [isinstance(each, Disconnect) for each in client.until_close()]
        assert True not in kinds[:-1]


@pytest.mark.parametrize("flag", [1, 2, 4, 8])
def test_reserved_bits(address: Address, version: int, flag: int) -> None:
    """A DISCONNECT with a flag is malformed: the client is disconnected, and its will is published."""
    topic = unique("will")
    with connected(address, version) as watcher:
        watcher.subscribe(topic)
        with WireClient(address, version) as client:
            client.send(connect(version, unique("c"), will(version, topic, b"gone"), flags=6))
            assert client.expect(Connack).reason_code == 0
            client.send(bytes([0xE0 | flag, 0]))
            last = client.expect_close()
            assert last is None or (isinstance(last, Disconnect) and last.reason_code == 0x81)
        assert watcher.expect(Publish).payload == b"gone"


def test_nothing_is_taken_behind_it(address: Address, version: int) -> None:
    """The server closes when it has read DISCONNECT, and handles nothing after it."""
    topic = unique("behind")
    with connected(address, version) as watcher, connected(address, version) as publisher:
        watcher.subscribe(topic)
        with connected(address, version) as client:
            client.send(b"\xe0\0" + by_hand.publish(version, topic))
            assert client.until_close() == []
        assert messages(watcher, publisher) == []
