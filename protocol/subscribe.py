"""SUBSCRIBE: the client asks for topics (section 3.8)."""

from __future__ import annotations

from typing import ClassVar, final

from mypy_extensions import mypyc_attr

from protocol.errors import MalformedPacket, ProtocolError
from protocol.packet import Packet
from protocol.packet_types import SUBSCRIBE
from protocol.primitives import (
    encode_packet,
    encode_packet_id,
    encode_string,
    read_byte,
    read_packet_id,
    read_string,
)
from protocol.properties import Properties, decode_properties, encode_properties
from protocol.topics import parse_share, validate_topic_filter


@mypyc_attr(acyclic=True)  # it refers to its filter only, and there are millions: 16 bytes less
@final
class Subscription:
    """One topic filter with its options. 3.1.1 has only the QoS.

    The broker sets `identifiers`: the Subscription Identifier, encoded as in PUBLISH; empty = none.
    """

    __slots__ = ("identifiers", "no_local", "qos", "retain_as_published", "retain_handling", "topic_filter")

    def __init__(
        self,
        topic_filter: str,
        qos: int = 0,
        no_local: bool = False,
        retain_as_published: bool = False,
        retain_handling: int = 0,
    ) -> None:
        self.topic_filter: str = topic_filter
        self.qos: int = qos
        self.no_local: bool = no_local
        self.retain_as_published: bool = retain_as_published
        self.retain_handling: int = retain_handling
        self.identifiers: bytes = b""

    def showing_retained(self) -> Subscription:
        """The same with Retain As Published."""
        other = Subscription(self.topic_filter, self.qos, self.no_local, True, self.retain_handling)
        other.identifiers = self.identifiers
        return other

    def options(self, version: int) -> int:
        """Return the options byte."""
        if version != 5:
            return self.qos
        return (
            self.qos
            | (0x04 if self.no_local else 0)
            | (0x08 if self.retain_as_published else 0)
            | self.retain_handling << 4
        )


@final
class Subscribe(Packet):
    """SUBSCRIBE."""

    __slots__ = ("packet_id", "properties", "subscriptions")

    packet_type: ClassVar[int] = SUBSCRIBE
    fields: ClassVar[tuple[str, ...]] = ("packet_id", "subscriptions", "properties")

    def __init__(self, packet_id: int, subscriptions: list[Subscription], properties: Properties | None = None) -> None:
        self.packet_id: int = packet_id
        self.subscriptions: list[Subscription] = subscriptions
        self.properties: Properties | None = properties

    def encode(self, version: int) -> bytes:
        """Return the packet as bytes; ValueError if there is no subscription in it."""
        if not self.subscriptions:
            raise ValueError("SUBSCRIBE: must have at least one topic filter")
        parts = [encode_packet_id(self.packet_id, "SUBSCRIBE")]
        if version == 5:
            parts.append(encode_properties(self.properties, SUBSCRIBE))
        for subscription in self.subscriptions:
            parts.append(encode_string(subscription.topic_filter))
            parts.append(bytes((subscription.options(version),)))
        return encode_packet(SUBSCRIBE << 4 | 2, b"".join(parts))


def decode_subscribe(data: bytes, position: int, end: int, version: int) -> Subscribe:
    """Read what follows the fixed header of a SUBSCRIBE."""
    packet_id = read_packet_id(data, position, end, "SUBSCRIBE packet identifier")
    position += 2
    properties: Properties | None = None
    if version == 5:
        properties, position = decode_properties(data, position, end, SUBSCRIBE)
    if position == end:  # [MQTT-3.8.3-2] (3.1.1: [MQTT-3.8.3-3])
        raise ProtocolError("SUBSCRIBE: has no topic filter, but must have at least one")
    subscriptions: list[Subscription] = []
    while position < end:  # [MQTT-3.8.3-1]
        topic_filter, position = read_string(data, position, end, "SUBSCRIBE topic filter")
        validate_topic_filter(topic_filter, "SUBSCRIBE topic filter")
        options = read_byte(data, position, end, "SUBSCRIBE options")
        position += 1
        _check_options(options, topic_filter, version)
        subscriptions.append(
            Subscription(topic_filter, options & 3, options & 0x04 != 0, options & 0x08 != 0, options >> 4 & 3)
        )
    return Subscribe(packet_id, subscriptions, properties)


def _check_options(options: int, topic_filter: str, version: int) -> None:
    reserved = 0xC0 if version == 5 else 0xFC
    if options & reserved:  # [MQTT-3.8.3-5] (3.1.1: [MQTT-3.8.3-4])
        raise MalformedPacket(f"SUBSCRIBE options: reserved bits of 0x{options:02X} are set")
    if options & 3 == 3:  # section 3.8.3.1 (3.1.1: [MQTT-3.8.3-4], which calls it malformed)
        if version != 5:
            raise MalformedPacket("SUBSCRIBE options: QoS is 3, but must be 0, 1 or 2")
        raise ProtocolError("SUBSCRIBE options: Maximum QoS is 3, but must be 0, 1 or 2")
    if options & 0x30 == 0x30:  # section 3.8.3.1
        raise ProtocolError("SUBSCRIBE options: Retain Handling is 3, but must be 0, 1 or 2")
    if version == 5 and parse_share(topic_filter) is not None and options & 0x04:  # [MQTT-3.8.3-4]
        raise ProtocolError(f"SUBSCRIBE options: No Local is set on the shared subscription {topic_filter!r:.100}")
