"""PUBACK, PUBREC, PUBREL and PUBCOMP: the acknowledgements of QoS 1 and 2 (sections 3.4 to 3.7)."""

from __future__ import annotations

from typing import ClassVar, final

from mypy_extensions import i64, mypyc_attr

from protocol.packet import Packet
from protocol.packet_types import FLAGS, NAMES, PUBACK, PUBCOMP, PUBREC, PUBREL
from protocol.primitives import encode_packet, encode_packet_id, expect_end, read_packet_id, read_reason_code
from protocol.properties import Properties, decode_properties, encode_properties


@mypyc_attr(acyclic=True)
class Acknowledgement(Packet):
    """What the four have in common: a packet identifier, in MQTT 5 also a reason code and properties."""

    __slots__ = ("packet_id", "properties", "reason_code")

    fields: ClassVar[tuple[str, ...]] = ("packet_id", "reason_code", "properties")

    def __init__(self, packet_id: int, reason_code: int = 0, properties: Properties | None = None) -> None:
        self.packet_id: int = packet_id
        self.reason_code: int = reason_code
        self.properties: Properties | None = properties


@mypyc_attr(acyclic=True, free_list_len=1)  # read and freed one at a time
@final
class Puback(Acknowledgement):
    """Acknowledges a QoS 1 PUBLISH."""

    __slots__ = ()

    packet_type: ClassVar[int] = PUBACK

    def encode(self, version: int) -> bytes:
        """Return the packet as bytes."""
        return _encode(PUBACK, self, version)


@mypyc_attr(acyclic=True, free_list_len=1)  # read and freed one at a time
@final
class Pubrec(Acknowledgement):
    """First acknowledgement of a QoS 2 PUBLISH."""

    __slots__ = ()

    packet_type: ClassVar[int] = PUBREC

    def encode(self, version: int) -> bytes:
        """Return the packet as bytes."""
        return _encode(PUBREC, self, version)


@mypyc_attr(acyclic=True, free_list_len=1)  # read and freed one at a time
@final
class Pubrel(Acknowledgement):
    """Follows PUBREC: the sender no longer keeps the message."""

    __slots__ = ()

    packet_type: ClassVar[int] = PUBREL

    def encode(self, version: int) -> bytes:
        """Return the packet as bytes."""
        return _encode(PUBREL, self, version)


@mypyc_attr(acyclic=True, free_list_len=1)  # read and freed one at a time
@final
class Pubcomp(Acknowledgement):
    """Follows PUBREL: the last packet of QoS 2."""

    __slots__ = ()

    packet_type: ClassVar[int] = PUBCOMP

    def encode(self, version: int) -> bytes:
        """Return the packet as bytes."""
        return _encode(PUBCOMP, self, version)


def _encode(packet_type: int, packet: Acknowledgement, version: int) -> bytes:
    body = encode_packet_id(packet.packet_id, NAMES[packet_type])
    if version == 5 and (packet.reason_code or packet.properties):
        body += bytes((packet.reason_code,))
        if packet.properties:  # without properties the property length is omitted too (section 3.4.2.2.1)
            body += encode_properties(packet.properties, packet_type)
    return encode_packet(packet_type << 4 | FLAGS[packet_type], body)


def decode_acknowledgement(packet_type: i64, data: bytes, position: i64, end: i64, version: i64) -> Acknowledgement:
    """Read what follows the fixed header of any of the four."""
    packet_id: i64 = 0
    reason_code = 0
    properties: Properties | None = None
    if end - position == 2:  # by far the most frequent form, and the only one of 3.1.1
        packet_id = data[position]
        packet_id = packet_id << 8 | data[position + 1]
    if packet_id == 0:
        packet_id, reason_code, properties = _read_long(packet_type, data, position, end, version)
    if packet_type == PUBACK:
        return Puback(packet_id, reason_code, properties)
    if packet_type == PUBREC:
        return Pubrec(packet_id, reason_code, properties)
    if packet_type == PUBREL:
        return Pubrel(packet_id, reason_code, properties)
    return Pubcomp(packet_id, reason_code, properties)


def _read_long(
    packet_type: int, data: bytes, position: int, end: int, version: int
) -> tuple[int, int, Properties | None]:
    """Read the form with a reason code, or raise the error of one that is too short or has packet identifier 0."""
    packet_id = read_packet_id(data, position, end, f"{NAMES[packet_type]} packet identifier")
    position += 2
    reason_code = 0
    properties: Properties | None = None
    if version == 5 and position < end:
        reason_code = read_reason_code(data, position, end, packet_type)
        position += 1
        if position < end:
            properties, position = decode_properties(data, position, end, packet_type)
    expect_end(position, end, packet_type)
    return packet_id, reason_code, properties
