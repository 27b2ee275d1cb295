"""DISCONNECT: the last packet of a connection (section 3.14)."""

from __future__ import annotations

from typing import ClassVar, final

from protocol.packet import Packet
from protocol.packet_types import DISCONNECT
from protocol.primitives import encode_packet, expect_end, read_reason_code
from protocol.properties import Properties, decode_properties, encode_properties


@final
class Disconnect(Packet):
    """DISCONNECT. 3.1.1 has no reason code, and only clients send it."""

    __slots__ = ("properties", "reason_code")

    packet_type: ClassVar[int] = DISCONNECT
    fields: ClassVar[tuple[str, ...]] = ("reason_code", "properties")

    def __init__(self, reason_code: int = 0, properties: Properties | None = None) -> None:
        self.reason_code: int = reason_code
        self.properties: Properties | None = properties

    def encode(self, version: int) -> bytes:
        """Return the packet as bytes, in its shortest form."""
        body = b""
        if version == 5 and (self.reason_code or self.properties):
            body = bytes((self.reason_code,))
            if self.properties:
                body += encode_properties(self.properties, DISCONNECT)
        return encode_packet(DISCONNECT << 4, body)


def decode_disconnect(data: bytes, position: int, end: int, version: int) -> Disconnect:
    """Read what follows the fixed header of a DISCONNECT."""
    reason_code = 0
    properties: Properties | None = None
    if version == 5 and position < end:  # properties, or both parts, may be omitted (section 3.14.2)
        reason_code = read_reason_code(data, position, end, DISCONNECT)
        position += 1
        if position < end:
            properties, position = decode_properties(data, position, end, DISCONNECT)
    expect_end(position, end, DISCONNECT)
    return Disconnect(reason_code, properties)
