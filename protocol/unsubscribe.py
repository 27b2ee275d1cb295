"""UNSUBSCRIBE: the client ends subscriptions (section 3.10)."""

from __future__ import annotations

from typing import ClassVar, final

from protocol.errors import ProtocolError
from protocol.packet import Packet
from protocol.packet_types import UNSUBSCRIBE
from protocol.primitives import encode_packet, encode_packet_id, encode_string, read_packet_id, read_string
from protocol.properties import Properties, decode_properties, encode_properties
from protocol.topics import validate_topic_filter


@final
class Unsubscribe(Packet):
    """UNSUBSCRIBE."""

    __slots__ = ("packet_id", "properties", "topic_filters")

    packet_type: ClassVar[int] = UNSUBSCRIBE
    fields: ClassVar[tuple[str, ...]] = ("packet_id", "topic_filters", "properties")

    def __init__(self, packet_id: int, topic_filters: list[str], properties: Properties | None = None) -> None:
        self.packet_id: int = packet_id
        self.topic_filters: list[str] = topic_filters
        self.properties: Properties | None = properties

    def encode(self, version: int) -> bytes:
        """Return the packet as bytes; ValueError if there is no topic filter in it."""
        if not self.topic_filters:
            raise ValueError("UNSUBSCRIBE: must have at least one topic filter")
        parts = [encode_packet_id(self.packet_id, "UNSUBSCRIBE")]
        if version == 5:
            parts.append(encode_properties(self.properties, UNSUBSCRIBE))
        parts += [encode_string(topic_filter) for topic_filter in self.topic_filters]
        return encode_packet(UNSUBSCRIBE << 4 | 2, b"".join(parts))


def decode_unsubscribe(data: bytes, position: int, end: int, version: int) -> Unsubscribe:
    """Read what follows the fixed header of an UNSUBSCRIBE."""
    packet_id = read_packet_id(data, position, end, "UNSUBSCRIBE packet identifier")
    position += 2
    properties: Properties | None = None
    if version == 5:
        properties, position = decode_properties(data, position, end, UNSUBSCRIBE)
    if position == end:  # [MQTT-3.10.3-2]
        raise ProtocolError("UNSUBSCRIBE: has no topic filter, but must have at least one")
    topic_filters: list[str] = []
    while position < end:  # [MQTT-3.10.3-1]
        topic_filter, position = read_string(data, position, end, "UNSUBSCRIBE topic filter")
        validate_topic_filter(topic_filter, "UNSUBSCRIBE topic filter")
        topic_filters.append(topic_filter)
    return Unsubscribe(packet_id, topic_filters, properties)
