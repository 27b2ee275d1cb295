"""PUBLISH as bytes: the general encoder, and the parts of outgoing frames."""

from __future__ import annotations

from typing import Final

from protocol.packet_types import PUBLISH
from protocol.primitives import ONE_BYTE, encode_packet_id, encode_variable_byte_integer
from protocol.properties import (
    MESSAGE_EXPIRY_INTERVAL,
    SUBSCRIPTION_IDENTIFIER,
    TOPIC_ALIAS,
    Properties,
    encode_properties,
    encode_property_list,
)

DUP: Final = 0x08

ALIAS_PROPERTY: Final = bytes((TOPIC_ALIAS,))
"""The property identifier before the two bytes of a Topic Alias, for `Publish.delivery`."""

TWO_BYTES: Final = [value.to_bytes(2, "big") for value in range(65_536)]
"""All two byte integers: a lookup costs a third of creating one."""

# Below this a second copy of the payload is cheaper than the memoryview that avoids it.
_COPY_LIMIT: Final = 2048


def with_dup(frame: bytes) -> bytes:
    """Return a frame of QoS 1 or 2 with DUP set, to resend it [MQTT-3.3.1-1]."""
    return ONE_BYTE[frame[0] | DUP] + frame[1:]


def without_dup(frame: bytes) -> bytes:
    """Return a frame of QoS 1 or 2 with DUP clear: it is never passed on [MQTT-3.3.1-3]."""
    return ONE_BYTE[frame[0] & ~DUP] + frame[1:]


def encode_publish(  # noqa: PLR0913, PLR0917 - one for each field of the packet
    topic: bytes,
    payload: bytes,
    qos: int,
    retain: bool,
    dup: bool,
    packet_id: int,
    properties: Properties | None,
    version: int,
) -> bytes:
    """Return any PUBLISH as bytes; ValueError if it cannot be one."""
    if not 0 <= qos <= 2 or (qos == 0 and dup):
        raise ValueError(f"PUBLISH: QoS is 0, 1 or 2, and DUP not set at QoS 0; not QoS {qos}, DUP {dup}")
    middle = encode_packet_id(packet_id, "PUBLISH") if qos else b""
    if version == 5:
        middle += encode_properties(properties, PUBLISH)
    first = 0x30 | (DUP if dup else 0) | qos << 1 | (1 if retain else 0)
    return whole(first, topic, middle, payload, len(payload))


def head(first: int, topic: bytes, remaining: int) -> bytes:
    """Return the fixed header and the topic name."""
    return b"".join((ONE_BYTE[first], encode_variable_byte_integer(remaining), _length(topic), topic))


def whole(first: int, topic: bytes, middle: bytes, wire: bytes, size: int) -> bytes:
    """Return a whole packet, which ends with the last `size` bytes of wire; `middle` is between topic and payload."""
    remaining = encode_variable_byte_integer(2 + len(topic) + len(middle) + size)
    start = len(wire) - size
    if start == 0:
        return b"".join((ONE_BYTE[first], remaining, _length(topic), topic, middle, wire))
    if size < _COPY_LIMIT:
        return b"".join((ONE_BYTE[first], remaining, _length(topic), topic, middle, wire[start:]))
    return b"".join((ONE_BYTE[first], remaining, _length(topic), topic, middle, memoryview(wire)[start:]))


def _length(topic: bytes) -> bytes:
    if len(topic) > 65_535:
        raise ValueError(f"PUBLISH: a topic name has at most 65535 bytes, not {len(topic)}")
    return TWO_BYTES[len(topic)]


def join(head: bytes, wire: bytes, size: int) -> bytes:
    """Return head and the last `size` bytes of wire, copied only once."""
    start = len(wire) - size
    if start == 0:
        return head + wire
    if size < _COPY_LIMIT:
        return head + wire[start:]
    return b"".join((head, memoryview(wire)[start:]))


def encode_outgoing_properties(properties: Properties | None, more: bytes = b"", expiry: int = -1) -> bytes:
    """Encode what is passed on to subscribers: not aliases and subscription identifiers, which are per connection.

    `more` are encoded properties of one delivery, `expiry` is what is left of the Message Expiry Interval in seconds,
    -1 = as received.
    """
    if properties is None:
        return encode_variable_byte_integer(len(more)) + more if more else b"\0"
    if expiry >= 0 or TOPIC_ALIAS in properties or SUBSCRIPTION_IDENTIFIER in properties:
        properties = dict(properties)
        properties.pop(TOPIC_ALIAS, None)
        properties.pop(SUBSCRIPTION_IDENTIFIER, None)
        if expiry >= 0:
            received = properties.get(MESSAGE_EXPIRY_INTERVAL, expiry)
            assert isinstance(received, int)  # the codec's type for this property
            # The sender's time may be earlier than the message: the interval never grows [MQTT-3.3.2-6].
            properties[MESSAGE_EXPIRY_INTERVAL] = min(expiry, received)
    block = encode_property_list(properties, PUBLISH)
    return encode_variable_byte_integer(len(block) + len(more)) + block + more


def encode_identifiers(identifiers: list[int]) -> bytes:
    """Encode Subscription Identifiers as properties, for `Publish.identified`."""
    return encode_property_list({SUBSCRIPTION_IDENTIFIER: identifiers}, PUBLISH) if identifiers else b""
