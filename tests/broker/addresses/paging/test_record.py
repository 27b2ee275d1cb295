"""A paged message as bytes: it comes back as it was, or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.addresses.paging.record import DamagedError, Draft, Record, count_messages, decode, is_whole, size_at
from protocol import properties as props
from protocol.decoder import Decoder
from protocol.packet_types import PUBLISH
from protocol.publish import Publish
from tests.support.broker.paging import with_packet
from tests.support.protocol import strategies

pytestmark = pytest.mark.once


def message(payload: bytes = b"payload", qos: int = 1) -> Publish:
    """A message with all that a record has to keep."""
    publish = Publish(b"a/topic", payload, qos, True, {props.USER_PROPERTY: [("name", "value")]}, 17 if qos else 0)
    publish.received_at = 123_456_789
    publish.expires_at = 987_654_321
    return publish


def encode(publish: Publish, client_id: str) -> bytes:
    """The message as a record."""
    draft = Draft(publish, client_id)
    record = draft.record()
    assert len(record) == draft.size
    return record


def read(data: bytes) -> Record:
    """The record that `data` is, with an MQTT 5 decoder of its own."""
    return decode(data, 0, size_at(data, 0), Decoder(version=5))


def essence(publish: Publish) -> tuple[object, ...]:
    """What subscribers see of a message, and what the broker has to know of it."""
    return (
        publish.topic,
        publish.payload,
        publish.qos,
        publish.retain,
        publish.properties,
        publish.received_at,
        publish.expires_at,
    )


def without_own(properties: props.Properties | None) -> props.Properties | None:
    """Properties without those that belong to one connection, which no message keeps."""
    own = (props.TOPIC_ALIAS, props.SUBSCRIPTION_IDENTIFIER)
    return {key: value for key, value in (properties or {}).items() if key not in own} or None


@given(
    strategies.topic_bytes,
    strategies.payloads,
    strategies.qos_levels,
    st.booleans(),
    st.one_of(st.none(), strategies.property_sets(PUBLISH)).map(without_own),
    strategies.texts,
    st.integers(0, 2**62),
)
def test_round_trip(
    topic: bytes,
    payload: bytes,
    qos: int,
    retain: bool,
    properties: props.Properties | None,
    client_id: str,
    time: int,
) -> None:
    """FC-26: a message comes back with its topic, payload, QoS, RETAIN, properties, times and publisher."""
    publish = Publish(topic, payload, qos, retain, properties, 0, qos > 0)
    publish.received_at = time
    publish.expires_at = time // 2
    data = encode(publish, client_id)
    record = read(data)
    assert essence(record.publish) == essence(publish)
    assert (record.publish.packet_id, record.publish.dup) == (0, False)
    assert (record.client_id, record.size) == (client_id, len(data))


def test_outgoing_forms() -> None:
    """What subscribers of either version are sent is what they would have been sent without the detour."""
    for qos in range(3):
        publish = message(qos=qos)
        record = read(encode(publish, "c"))
        assert (record.publish.build4(), record.publish.build5()) == (publish.build4(), publish.build5())
        if qos:
            assert (record.publish.rest4, record.publish.rest5) == (publish.rest4, publish.rest5)


@pytest.mark.parametrize("size", [0, 50, 5000])
def test_truncated_at_every_byte(size: int) -> None:
    """FC-26: a record that ends too early is never read, wherever it ends."""
    data = encode(message(bytes(size)), "publisher")
    for end in range(len(data)):
        cut = data[:end]
        assert not is_whole(cut, 0, size_at(data, 0))
        assert count_messages(cut) == 0
        with pytest.raises(DamagedError):
            decode(cut, 0, size_at(data, 0), Decoder(version=5))


def test_every_bit() -> None:
    """FC-26: one bit that is not as it was written, anywhere in a record, is enough for it not to be read."""
    data = encode(message(), "publisher")
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedError):
            read(bytes(flipped))


@given(st.binary(max_size=300))
def test_anything(data: bytes) -> None:
    """Bytes that nobody has written as a record are none, zeros included."""
    for bytes_read in (data, bytes(len(data))):
        assert count_messages(bytes_read) == 0
        with pytest.raises(DamagedError):
            read(bytes_read)


def test_one_topic_object() -> None:
    """Messages of one address do not each bring a topic name of their own."""
    decoder = Decoder(version=5)
    records = [decode(data, 0, len(data), decoder) for data in (encode(message(), "c"), encode(message(b"2"), "d"))]
    assert records[0].publish.topic is records[1].publish.topic


def test_what_is_no_publish() -> None:
    """A checksum that holds over what this program does not write is no reason to trust it."""
    for packet in (b"", b"\xc0\0", b"\x30\x03\0\x01a", b"\x30\x05\0\x01a\0x\xc0\0", b"\x36\x05\0\x01a\0x"):
        with pytest.raises(DamagedError):
            read(with_packet(packet))
    assert read(with_packet(b"\x30\x05\0\x01a\0x")).publish.payload == b"x"
