"""UNSUBACK: the server's answer to UNSUBSCRIBE (section 3.11)."""

from __future__ import annotations

from typing import ClassVar, final

from protocol.errors import ProtocolError
from protocol.packet import Packet
from protocol.packet_types import UNSUBACK
from protocol.primitives import encode_packet, encode_packet_id, expect_end, read_packet_id, read_reason_code
from protocol.properties import Properties, decode_properties, encode_properties


@final
class Unsuback(Packet):
    """UNSUBACK: in MQTT 5 one reason code for each topic filter [MQTT-3.11.3-1], in 3.1.1 none."""

    __slots__ = ("packet_id", "properties", "reason_codes")

    packet_type: ClassVar[int] = UNSUBACK
    fields: ClassVar[tuple[str, ...]] = ("packet_id", "reason_codes", "properties")

    def __init__(self, packet_id: int, reason_codes: list[int], properties: Properties | None = None) -> None:
        self.packet_id: int = packet_id
        self.reason_codes: list[int] = reason_codes
        self.properties: Properties | None = properties

    def encode(self, version: int) -> bytes:
        """Return the packet as bytes."""
        body = encode_packet_id(self.packet_id, "UNSUBACK")
        if version == 5:
            body += encode_properties(self.properties, UNSUBACK) + bytes(self.reason_codes)
        return encode_packet(UNSUBACK << 4, body)


def decode_unsuback(data: bytes, position: int, end: int, version: int) -> Unsuback:
    """Read what follows the fixed header of an UNSUBACK."""
    packet_id = read_packet_id(data, position, end, "UNSUBACK packet identifier")
    position += 2
    reason_codes: list[int] = []
    if version != 5:
        expect_end(position, end, UNSUBACK)
        return Unsuback(packet_id, reason_codes)
    properties, position = decode_properties(data, position, end, UNSUBACK)
    if position == end:
        raise ProtocolError("UNSUBACK: has no reason code, but must have one for each topic filter")
    while position < end:
        reason_codes.append(read_reason_code(data, position, end, UNSUBACK))
        position += 1
    return Unsuback(packet_id, reason_codes, properties)
