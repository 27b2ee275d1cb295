"""MQTT 5 reason codes: numbers, names, and which packet may carry which."""

from __future__ import annotations

from typing import Any, Final

from paho.mqtt import reasoncodes

from protocol.packet_types import CONNACK, from_paho

SUCCESS: Final = 0x00
NORMAL_DISCONNECTION: Final = 0x00
GRANTED_QOS_0: Final = 0x00
GRANTED_QOS_1: Final = 0x01
GRANTED_QOS_2: Final = 0x02
DISCONNECT_WITH_WILL_MESSAGE: Final = 0x04
NO_MATCHING_SUBSCRIBERS: Final = 0x10
NO_SUBSCRIPTION_EXISTED: Final = 0x11
CONTINUE_AUTHENTICATION: Final = 0x18
RE_AUTHENTICATE: Final = 0x19
UNSPECIFIED_ERROR: Final = 0x80
MALFORMED_PACKET: Final = 0x81
PROTOCOL_ERROR: Final = 0x82
IMPLEMENTATION_SPECIFIC_ERROR: Final = 0x83
UNSUPPORTED_PROTOCOL_VERSION: Final = 0x84
CLIENT_IDENTIFIER_NOT_VALID: Final = 0x85
BAD_USER_NAME_OR_PASSWORD: Final = 0x86
NOT_AUTHORIZED: Final = 0x87
SERVER_UNAVAILABLE: Final = 0x88
SERVER_BUSY: Final = 0x89
BANNED: Final = 0x8A
SERVER_SHUTTING_DOWN: Final = 0x8B
BAD_AUTHENTICATION_METHOD: Final = 0x8C
KEEP_ALIVE_TIMEOUT: Final = 0x8D
SESSION_TAKEN_OVER: Final = 0x8E
TOPIC_FILTER_INVALID: Final = 0x8F
TOPIC_NAME_INVALID: Final = 0x90
PACKET_IDENTIFIER_IN_USE: Final = 0x91
PACKET_IDENTIFIER_NOT_FOUND: Final = 0x92
RECEIVE_MAXIMUM_EXCEEDED: Final = 0x93
TOPIC_ALIAS_INVALID: Final = 0x94
PACKET_TOO_LARGE: Final = 0x95
MESSAGE_RATE_TOO_HIGH: Final = 0x96
QUOTA_EXCEEDED: Final = 0x97
ADMINISTRATIVE_ACTION: Final = 0x98
PAYLOAD_FORMAT_INVALID: Final = 0x99
RETAIN_NOT_SUPPORTED: Final = 0x9A
QOS_NOT_SUPPORTED: Final = 0x9B
USE_ANOTHER_SERVER: Final = 0x9C
SERVER_MOVED: Final = 0x9D
SHARED_SUBSCRIPTIONS_NOT_SUPPORTED: Final = 0x9E
CONNECTION_RATE_EXCEEDED: Final = 0x9F
MAXIMUM_CONNECT_TIME: Final = 0xA0
SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED: Final = 0xA1
WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED: Final = 0xA2


def _read_paho() -> tuple[list[int], dict[int, str], dict[tuple[int, int], str]]:
    """Turn paho's table into: code -> bit set of packet types, code -> name, (code, packet) -> name."""
    masks = [0] * 256
    names: dict[int, str] = {}
    names_in_packet: dict[tuple[int, int], str] = {}
    source: Any = reasoncodes
    for code, entries in source.ReasonCode.names.items():
        for text, packets in entries.items():
            names.setdefault(int(code), str(text))
            for packet in packets:
                number = from_paho(int(packet))
                masks[int(code)] |= 1 << number
                names_in_packet[(int(code), number)] = str(text)
    # Section 3.2.2.2 lists 0x99 for a will payload that does not match its format indicator; paho's table
    # has it for PUBACK, PUBREC and DISCONNECT only.
    masks[PAYLOAD_FORMAT_INVALID] |= 1 << CONNACK
    return masks, names, names_in_packet


_TABLES: Final = _read_paho()
_MASKS: Final[list[int]] = _TABLES[0]
_NAMES: Final[dict[int, str]] = _TABLES[1]
_NAMES_IN_PACKET: Final[dict[tuple[int, int], str]] = _TABLES[2]


def is_allowed(code: int, packet_type: int) -> bool:
    """Tell whether MQTT 5 lets a packet of this type carry this reason code."""
    return 0 <= code <= 255 and _MASKS[code] >> packet_type & 1 == 1


def name(code: int, packet_type: int = 0) -> str:
    """Return the standard's name of a reason code, for a packet type where 0x00 has several; else its hex."""
    if packet_type:
        specific = _NAMES_IN_PACKET.get((code, packet_type))
        if specific is not None:
            return specific
    return _NAMES.get(code, f"0x{code:02X}")
