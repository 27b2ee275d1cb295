"""The data representations of MQTT (section 1.5): bounds-checked readers and their writers.

A reader gets the bytes, the start position, the end of the enclosing packet or property block, and the name of
the field (for the error message). It never reads beyond that end.
"""

from __future__ import annotations

from typing import Final

from protocol.errors import MalformedPacket, ProtocolError
from protocol.packet_types import NAMES
from protocol.reason_codes import is_allowed

MAXIMUM_VARIABLE_BYTE_INTEGER: Final = 268_435_455  # four bytes of seven bits, section 1.5.5
MAXIMUM_UINT16: Final = 65_535
MAXIMUM_UINT32: Final = 4_294_967_295
ONE_BYTE: Final = [bytes((value,)) for value in range(256)]
"""All 256 single bytes: a lookup costs a fifth of creating one."""


def _short(where: str, needed: int, left: int) -> MalformedPacket:
    return MalformedPacket(f"{where}: needs {needed} bytes, but only {max(left, 0)} are left in the packet")


def read_byte(data: bytes, position: int, end: int, where: str) -> int:
    """Read one byte; the caller continues at position + 1."""
    if position >= end:
        raise _short(where, 1, end - position)
    return data[position]


def read_uint16(data: bytes, position: int, end: int, where: str) -> int:
    """Read a two byte integer; the caller continues at position + 2."""
    if position + 2 > end:
        raise _short(where, 2, end - position)
    return data[position] << 8 | data[position + 1]


def read_uint32(data: bytes, position: int, end: int, where: str) -> int:
    """Read a four byte integer; the caller continues at position + 4."""
    if position + 4 > end:
        raise _short(where, 4, end - position)
    return data[position] << 24 | data[position + 1] << 16 | data[position + 2] << 8 | data[position + 3]


def read_variable_byte_integer(data: bytes, position: int, end: int, where: str) -> tuple[int, int]:
    """Read a variable byte integer of MQTT 5; returns the value and the position after it."""
    value = 0
    for shift in (0, 7, 14, 21):
        if position >= end:
            raise _short(where, 1, 0)
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 and shift > 0:  # [MQTT-1.5.5-1]
                raise MalformedPacket(f"{where}: {value} is not encoded in the fewest bytes possible")
            return value, position
    raise MalformedPacket(f"{where}: a variable byte integer has at most four bytes, this one has more")


def read_binary(data: bytes, position: int, end: int, where: str) -> tuple[bytes, int]:
    """Read length-prefixed binary data; returns the bytes and the position after them."""
    length = read_uint16(data, position, end, where)
    position += 2
    if position + length > end:
        raise MalformedPacket(
            f"{where}: its length field says {length} bytes, but only {end - position} are left in the packet"
        )
    return data[position : position + length], position + length


def read_string(data: bytes, position: int, end: int, where: str) -> tuple[str, int]:
    """Read a UTF-8 encoded string; returns the text and the position after it."""
    raw, position = read_binary(data, position, end, where)
    return decode_utf8(raw, where), position


def decode_utf8(raw: bytes, where: str) -> str:
    """Decode UTF-8 as section 1.5.4 requires: well-formed, no surrogates, no U+0000."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:  # [MQTT-1.5.4-1] (3.1.1: [MQTT-1.5.3-1])
        raise MalformedPacket(f"{where}: not well-formed UTF-8 at byte {error.start} ({error.reason})") from None
    if "\0" in text:  # [MQTT-1.5.4-2] (3.1.1: [MQTT-1.5.3-2])
        raise MalformedPacket(f"{where}: holds U+0000, which no MQTT string may")
    return text


def read_packet_id(data: bytes, position: int, end: int, where: str) -> int:
    """Read a packet identifier, which is never 0; the caller continues at position + 2."""
    packet_id = read_uint16(data, position, end, where)
    if packet_id == 0:  # [MQTT-2.2.1-3] (3.1.1: [MQTT-2.3.1-1])
        raise ProtocolError(f"{where}: is 0, but must be 1 to 65535")
    return packet_id


def read_reason_code(data: bytes, position: int, end: int, packet_type: int) -> int:
    """Read a reason code that MQTT 5 allows in this packet; the caller continues at position + 1."""
    code = read_byte(data, position, end, "reason code")
    if not is_allowed(code, packet_type):
        # [MQTT-3.2.2-8] [MQTT-3.4.2-1] [MQTT-3.5.2-1] [MQTT-3.6.2-1] [MQTT-3.7.2-1] [MQTT-3.9.3-2]
        # [MQTT-3.11.3-2] [MQTT-3.14.2-1] [MQTT-3.15.2-1], one for each packet
        raise ProtocolError(f"{NAMES[packet_type]} reason code: 0x{code:02X} is none that this packet may carry")
    return code


def expect_end(position: int, end: int, packet_type: int) -> None:
    """Raise MalformedPacket if bytes are left after a packet has been read."""
    if position != end:
        raise MalformedPacket(f"{NAMES[packet_type]}: {end - position} bytes are left over at the end of the packet")


def encode_uint16(value: int) -> bytes:
    """Encode a two byte integer; ValueError if it does not fit."""
    if not 0 <= value <= MAXIMUM_UINT16:
        raise ValueError(f"a two byte integer is 0 to 65535, not {value}")
    return value.to_bytes(2, "big")


def encode_uint32(value: int) -> bytes:
    """Encode a four byte integer; ValueError if it does not fit."""
    if not 0 <= value <= MAXIMUM_UINT32:
        raise ValueError(f"a four byte integer is 0 to 4294967295, not {value}")
    return value.to_bytes(4, "big")


def encode_variable_byte_integer(value: int) -> bytes:
    """Encode a variable byte integer in the fewest bytes; ValueError if it does not fit."""
    if not 0 <= value <= MAXIMUM_VARIABLE_BYTE_INTEGER:
        raise ValueError(f"a variable byte integer is 0 to 268435455, not {value}")
    if value < 128:
        return ONE_BYTE[value]
    if value < 16_384:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 2_097_152:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80, value >> 21))


def encode_binary(value: bytes) -> bytes:
    """Encode length-prefixed binary data; ValueError above 65,535 bytes."""
    if len(value) > MAXIMUM_UINT16:
        raise ValueError(f"length-prefixed data has at most 65535 bytes, not {len(value)}")
    return len(value).to_bytes(2, "big") + value


def encode_string(text: str) -> bytes:
    """Encode a UTF-8 string; ValueError if it is too long, has surrogates or U+0000."""
    if "\0" in text:
        raise ValueError("an MQTT string must not hold U+0000")
    return encode_binary(text.encode("utf-8"))


def encode_packet(first_byte: int, body: bytes) -> bytes:
    """Prepend the fixed header to the rest of a packet."""
    return ONE_BYTE[first_byte] + encode_variable_byte_integer(len(body)) + body


def encode_packet_id(packet_id: int, where: str) -> bytes:
    """Encode a packet identifier; ValueError unless it is 1 to 65535."""
    if not 1 <= packet_id <= MAXIMUM_UINT16:
        raise ValueError(f"{where} packet identifier is 1 to 65535, not {packet_id}")
    return packet_id.to_bytes(2, "big")
