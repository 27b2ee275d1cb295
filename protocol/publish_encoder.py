"""PUBLISH as bytes: the general encoder, and the pieces that outgoing frames are put together from."""

from __future__ import annotations

from typing import Final

from protocol.packet_types import PUBLISH
from protocol.primitives import encode_packet_id, encode_variable_byte_integer
from protocol.properties import SUBSCRIPTION_IDENTIFIER, TOPIC_ALIAS, Properties, encode_properties

DUP: Final = 0x08

# Below this a second copy of the payload is cheaper than the memoryview that avoids it.
_COPY_LIMIT: Final = 2048


def with_dup(frame: bytes) -> bytes:
    """Return a frame of QoS 1 or 2 with DUP set, for sending again [MQTT-3.3.1-1]."""
    return bytes((frame[0] | DUP,)) + frame[1:]


def without_dup(frame: bytes) -> bytes:
    """Return a frame of QoS 1 or 2 with DUP clear: it is never passed on [MQTT-3.3.1-3]."""
    return bytes((frame[0] & ~DUP,)) + frame[1:]


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
    return b"".join((head(first, topic, 2 + len(topic) + len(middle) + len(payload)), middle, payload))


def head(first: int, topic: bytes, remaining: int) -> bytes:
    """Return the fixed header and the topic name."""
    if len(topic) > 65_535:
        raise ValueError(f"PUBLISH: a topic name has at most 65535 bytes, not {len(topic)}")
    return bytes((first,)) + encode_variable_byte_integer(remaining) + len(topic).to_bytes(2, "big") + topic


def join(head: bytes, wire: bytes, size: int) -> bytes:
    """Return head and the last `size` bytes of wire, copying them once only."""
    start = len(wire) - size
    if start == 0:
        return head + wire
    if size < _COPY_LIMIT:
        return head + wire[start:]
    return b"".join((head, memoryview(wire)[start:]))


def encode_outgoing_properties(properties: Properties | None) -> bytes:
    """Encode what goes on to subscribers: aliases and subscription identifiers belong to one connection."""
    if properties is None:
        return b"\0"
    if TOPIC_ALIAS in properties or SUBSCRIPTION_IDENTIFIER in properties:
        properties = dict(properties)
        properties.pop(TOPIC_ALIAS, None)
        properties.pop(SUBSCRIPTION_IDENTIFIER, None)
    return encode_properties(properties, PUBLISH)
