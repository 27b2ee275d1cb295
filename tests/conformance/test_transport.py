"""The network connection, and a client that uses no optional features (section 7 of 3.1.1)."""

from tests.conformance import by_hand
from tests.conformance.delivery import unique
from tests.support.process import Address
from tests.support.wire import WireClient

_CONNECT_FLAGS = b"\x02"  # Clean Session, Clean Start
_KEEP_ALIVE = b"\0\x3c"


def connect(version: int) -> bytes:
    """A CONNECT with only the required fields."""
    properties = b"\0" if version == 5 else b""
    head = by_hand.string("MQTT") + bytes((version,)) + _CONNECT_FLAGS + _KEEP_ALIVE
    return by_hand.packet(0x10, head + properties + by_hand.string(unique("bare").replace("-", "")[:23]))


def test_bare_client(address: Address, version: int) -> None:
    """A client that uses nothing optional connects, subscribes, publishes, receives and disconnects."""
    topic = unique("bare")
    with WireClient(address, version) as client:
        client.send(connect(version))
        first, body = by_hand.receive(client)
        assert (first, body[:2]) == (0x20, b"\0\0")
        client.send(by_hand.subscribe(version, 1, [(topic, 0)]))
        assert by_hand.receive(client)[0] == by_hand.SUBACK
        client.send(by_hand.publish(version, topic, b"payload"))
        first, body = by_hand.receive(client)
        assert first == 0x30
        assert body.startswith(by_hand.string(topic))
        assert body.endswith(b"payload")
        client.send(by_hand.packet(0xE0, b""))
        assert client.expect_close() is None


def test_stream_of_bytes(address: Address, version: int) -> None:
    """Packets are independent of writes: all in one write and byte by byte have the same effect."""
    topic = unique("stream")
    expected = [b"%d" % number + bytes(number) for number in range(20)]
    stream = connect(version) + by_hand.subscribe(version, 1, [(topic, 0)])
    stream += b"".join(by_hand.publish(version, topic, payload) for payload in expected)
    for size in (len(stream), 1, 7):
        with WireClient(address, version) as client:
            for start in range(0, len(stream), size):
                client.send(stream[start : start + size])
            assert by_hand.receive(client)[0] == 0x20
            skip = len(by_hand.string(topic)) + (version == 5)
            packets = [by_hand.receive(client) for _ in range(1 + len(expected))]
            assert [first for first, _ in packets].count(by_hand.SUBACK) == 1  # messages may come before it
            assert [body[skip:] for first, body in packets if first != by_hand.SUBACK] == expected
