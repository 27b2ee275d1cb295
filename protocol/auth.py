"""AUTH: extended authentication, MQTT 5 only (section 3.15)."""

from __future__ import annotations

from typing import ClassVar, final

from protocol.errors import ProtocolError
from protocol.packet import Packet
from protocol.packet_types import AUTH
from protocol.primitives import encode_packet, expect_end, read_reason_code
from protocol.properties import AUTHENTICATION_METHOD, Properties, decode_properties, encode_properties


@final
class Auth(Packet):
    """AUTH: a step of the exchange that the authentication method defines."""

    __slots__ = ("properties", "reason_code")

    packet_type: ClassVar[int] = AUTH
    fields: ClassVar[tuple[str, ...]] = ("reason_code", "properties")

    def __init__(self, reason_code: int = 0, properties: Properties | None = None) -> None:
        self.reason_code: int = reason_code
        self.properties: Properties | None = properties

    def encode(self, version: int) -> bytes:
        """Return the packet as bytes; ValueError for version 4, which has no AUTH."""
        if version != 5:
            raise ValueError("AUTH: MQTT 3.1.1 has no such packet")
        if self.reason_code == 0 and not self.properties:
            return encode_packet(AUTH << 4, b"")
        return encode_packet(AUTH << 4, bytes((self.reason_code,)) + encode_properties(self.properties, AUTH))


def decode_auth(data: bytes, position: int, end: int, version: int) -> Auth:
    """Read what follows the fixed header of an AUTH, which only version 5 has."""
    if position == end:  # Success and no properties (section 3.15.2.1)
        return Auth()
    reason_code = read_reason_code(data, position, end, AUTH)
    properties, position = decode_properties(data, position + 1, end, AUTH)
    if properties is None or AUTHENTICATION_METHOD not in properties:  # section 3.15.2.2.2
        raise ProtocolError("AUTH: has no Authentication Method")
    expect_end(position, end, AUTH)
    return Auth(reason_code, properties)
