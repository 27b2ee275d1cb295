"""CONNACK: the server's answer to CONNECT (section 3.2)."""

from __future__ import annotations

from typing import ClassVar, Final, final

from protocol import reason_codes
from protocol.errors import MalformedPacket, ProtocolError
from protocol.packet import Packet
from protocol.packet_types import CONNACK
from protocol.primitives import ONE_BYTE, encode_packet, expect_end, read_byte, read_reason_code
from protocol.properties import Properties, check_authentication, decode_properties, encode_properties

# Return codes of MQTT 3.1.1.
ACCEPTED: Final = 0
REFUSED_PROTOCOL_VERSION: Final = 1
REFUSED_IDENTIFIER_REJECTED: Final = 2
REFUSED_SERVER_UNAVAILABLE: Final = 3
REFUSED_BAD_USER_NAME_OR_PASSWORD: Final = 4
REFUSED_NOT_AUTHORIZED: Final = 5

_RETURN_CODES: Final[dict[int, int]] = {
    reason_codes.UNSUPPORTED_PROTOCOL_VERSION: REFUSED_PROTOCOL_VERSION,
    reason_codes.CLIENT_IDENTIFIER_NOT_VALID: REFUSED_IDENTIFIER_REJECTED,
    reason_codes.SERVER_UNAVAILABLE: REFUSED_SERVER_UNAVAILABLE,
    reason_codes.SERVER_BUSY: REFUSED_SERVER_UNAVAILABLE,
    reason_codes.QUOTA_EXCEEDED: REFUSED_SERVER_UNAVAILABLE,
    reason_codes.USE_ANOTHER_SERVER: REFUSED_SERVER_UNAVAILABLE,
    reason_codes.SERVER_MOVED: REFUSED_SERVER_UNAVAILABLE,
    reason_codes.CONNECTION_RATE_EXCEEDED: REFUSED_SERVER_UNAVAILABLE,
    reason_codes.BAD_USER_NAME_OR_PASSWORD: REFUSED_BAD_USER_NAME_OR_PASSWORD,
    reason_codes.NOT_AUTHORIZED: REFUSED_NOT_AUTHORIZED,
    reason_codes.BANNED: REFUSED_NOT_AUTHORIZED,
}


def return_code(reason_code: int) -> int:
    """Translate a reason code into a return code of 3.1.1; 0 to 5 stay as they are.

    Returns -1 if none fits: the server then closes without a CONNACK (3.1.1: [MQTT-3.2.2-6]).
    """
    if ACCEPTED <= reason_code <= REFUSED_NOT_AUTHORIZED:
        return reason_code
    return _RETURN_CODES.get(reason_code, -1)


@final
class Connack(Packet):
    """CONNACK. For version 4 `reason_code` is a return code, 0 to 5."""

    __slots__ = ("properties", "reason_code", "session_present")

    packet_type: ClassVar[int] = CONNACK
    fields: ClassVar[tuple[str, ...]] = ("session_present", "reason_code", "properties")

    def __init__(
        self, session_present: bool = False, reason_code: int = 0, properties: Properties | None = None
    ) -> None:
        self.session_present: bool = session_present
        self.reason_code: int = reason_code
        self.properties: Properties | None = properties

    def encode(self, version: int) -> bytes:
        """Return the packet as bytes; version 4 translates reason codes (see `return_code`)."""
        code = self.reason_code
        if version != 5:
            code = return_code(code)
            if code < 0:
                raise ValueError(f"CONNACK: no return code of MQTT 3.1.1 says 0x{self.reason_code:02X}")
        if code != 0 and self.session_present:
            raise ValueError("CONNACK: Session Present must be 0 when the connection is refused")
        body = ONE_BYTE[1 if self.session_present else 0] + ONE_BYTE[code]
        if version == 5:
            body += encode_properties(self.properties, CONNACK)
        return encode_packet(CONNACK << 4, body)


def decode_connack(data: bytes, position: int, end: int, version: int) -> Connack:
    """Read what follows the fixed header of a CONNACK."""
    flags = read_byte(data, position, end, "CONNACK flags")
    if flags > 1:  # [MQTT-3.2.2-1]
        raise MalformedPacket(f"CONNACK flags: bits 7 to 1 must be 0, but the byte is 0x{flags:02X}")
    position += 1
    properties: Properties | None = None
    if version == 5:
        code = read_reason_code(data, position, end, CONNACK)
        properties, position = decode_properties(data, position + 1, end, CONNACK)
        check_authentication(properties, CONNACK)
    else:
        code = read_byte(data, position, end, "CONNACK return code")
        if code > REFUSED_NOT_AUTHORIZED:
            raise ProtocolError(f"CONNACK return code: is {code}, but must be 0 to 5")
        position += 1
    if code != 0 and flags == 1:  # [MQTT-3.2.2-6] (3.1.1: [MQTT-3.2.2-4])
        raise ProtocolError("CONNACK: Session Present is set although the connection is refused")
    expect_end(position, end, CONNACK)
    return Connack(flags == 1, code, properties)
