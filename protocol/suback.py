"""SUBACK: the server's answer to SUBSCRIBE (section 3.9)."""

from __future__ import annotations

from typing import ClassVar, final

from protocol.errors import ProtocolError
from protocol.packet import Packet
from protocol.packet_types import SUBACK
from protocol.primitives import encode_packet, encode_packet_id, read_packet_id, read_reason_code
from protocol.properties import Properties, decode_properties, encode_properties


@final
class Suback(Packet):
    """SUBACK: one reason code for each subscription, in their order [MQTT-3.9.3-1].

    For version 4 a code of 0x80 or above is sent as 0x80, the only failure code of 3.1.1.
    """

    __slots__ = ("packet_id", "properties", "reason_codes")

    packet_type: ClassVar[int] = SUBACK
    fields: ClassVar[tuple[str, ...]] = ("packet_id", "reason_codes", "properties")

    def __init__(self, packet_id: int, reason_codes: list[int], properties: Properties | None = None) -> None:
        self.packet_id: int = packet_id
        self.reason_codes: list[int] = reason_codes
        self.properties: Properties | None = properties

    def encode(self, version: int) -> bytes:
        """Return the packet as bytes."""
        body = encode_packet_id(self.packet_id, "SUBACK")
        if version == 5:
            return encode_packet(
                SUBACK << 4, body + encode_properties(self.properties, SUBACK) + bytes(self.reason_codes)
            )
        return encode_packet(SUBACK << 4, body + bytes([min(code, 0x80) for code in self.reason_codes]))


def decode_suback(data: bytes, position: int, end: int, version: int) -> Suback:
    """Read what follows the fixed header of a SUBACK."""
    packet_id = read_packet_id(data, position, end, "SUBACK packet identifier")
    position += 2
    properties: Properties | None = None
    if version == 5:
        properties, position = decode_properties(data, position, end, SUBACK)
    if position == end:
        raise ProtocolError("SUBACK: has no reason code, but must have one for each topic filter")
    reason_codes: list[int] = []
    while position < end:
        if version != 5 and data[position] not in (0, 1, 2, 0x80):  # 3.1.1: [MQTT-3.9.3-2]
            raise ProtocolError(f"SUBACK return code: is 0x{data[position]:02X}, but must be 0, 1, 2 or 0x80")
        reason_codes.append(read_reason_code(data, position, end, SUBACK))
        position += 1
    return Suback(packet_id, reason_codes, properties)
