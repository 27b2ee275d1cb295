"""MQTT 5 properties: identifiers, types, the packets that allow them, and their codec.

`Properties` maps a property identifier to its value. USER_PROPERTY holds the list of pairs in the order
sent; SUBSCRIPTION_IDENTIFIER holds a list in PUBLISH and one number in SUBSCRIBE.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, cast

from paho.mqtt import packettypes
from paho.mqtt import properties as paho_properties

from protocol.errors import MalformedPacket, ProtocolError, TopicAliasInvalid
from protocol.packet_types import NAMES, PUBLISH, from_paho
from protocol.primitives import (
    encode_binary,
    encode_string,
    encode_uint16,
    encode_uint32,
    encode_variable_byte_integer,
    read_binary,
    read_byte,
    read_string,
    read_uint16,
    read_uint32,
    read_variable_byte_integer,
)

Value: TypeAlias = int | str | bytes | list[tuple[str, str]] | list[int]
Properties: TypeAlias = dict[int, Value]

PAYLOAD_FORMAT_INDICATOR: Final = 1
MESSAGE_EXPIRY_INTERVAL: Final = 2
CONTENT_TYPE: Final = 3
RESPONSE_TOPIC: Final = 8
CORRELATION_DATA: Final = 9
SUBSCRIPTION_IDENTIFIER: Final = 11
SESSION_EXPIRY_INTERVAL: Final = 17
ASSIGNED_CLIENT_IDENTIFIER: Final = 18
SERVER_KEEP_ALIVE: Final = 19
AUTHENTICATION_METHOD: Final = 21
AUTHENTICATION_DATA: Final = 22
REQUEST_PROBLEM_INFORMATION: Final = 23
WILL_DELAY_INTERVAL: Final = 24
REQUEST_RESPONSE_INFORMATION: Final = 25
RESPONSE_INFORMATION: Final = 26
SERVER_REFERENCE: Final = 28
REASON_STRING: Final = 31
RECEIVE_MAXIMUM: Final = 33
TOPIC_ALIAS_MAXIMUM: Final = 34
TOPIC_ALIAS: Final = 35
MAXIMUM_QOS: Final = 36
RETAIN_AVAILABLE: Final = 37
USER_PROPERTY: Final = 38
MAXIMUM_PACKET_SIZE: Final = 39
WILDCARD_SUBSCRIPTION_AVAILABLE: Final = 40
SUBSCRIPTION_IDENTIFIER_AVAILABLE: Final = 41
SHARED_SUBSCRIPTION_AVAILABLE: Final = 42

# Types, as entries of TYPES; 0 = no such property.
BYTE: Final = 1
TWO_BYTE_INTEGER: Final = 2
FOUR_BYTE_INTEGER: Final = 3
VARIABLE_BYTE_INTEGER: Final = 4
BINARY_DATA: Final = 5
UTF8_STRING: Final = 6
UTF8_STRING_PAIR: Final = 7

_TYPE_NUMBERS: Final[dict[str, int]] = {
    "Byte": BYTE,
    "Two Byte Integer": TWO_BYTE_INTEGER,
    "Four Byte Integer": FOUR_BYTE_INTEGER,
    "Variable Byte Integer": VARIABLE_BYTE_INTEGER,
    "Binary Data": BINARY_DATA,
    "UTF-8 Encoded String": UTF8_STRING,
    "UTF-8 String Pair": UTF8_STRING_PAIR,
}


def _read_paho() -> tuple[list[int], list[int], dict[int, str]]:
    """Turn paho's tables into: identifier -> type, -> bit set of packet types, -> name."""
    types = [0] * 256
    masks = [0] * 256
    factory: Any = paho_properties.Properties
    packet_types: Any = packettypes.PacketTypes
    source: Any = factory(packet_types.PUBLISH)
    for identifier, (kind, packets) in source.properties.items():
        types[int(identifier)] = _TYPE_NUMBERS[str(source.types[kind])]
        for packet in packets:
            masks[int(identifier)] |= 1 << from_paho(int(packet))
    return types, masks, {int(number): str(text) for text, number in source.names.items()}


_TABLES: Final = _read_paho()
TYPES: Final[list[int]] = _TABLES[0]
_MASKS: Final[list[int]] = _TABLES[1]
_NAMES: Final[dict[int, str]] = _TABLES[2]

# "PUBLISH Topic Alias" and the like for messages, at packet type * 256 + identifier.
_WHERE: Final[list[str]] = [f"{packet} {_NAMES.get(identifier, '')}" for packet in NAMES for identifier in range(256)]

# Properties whose value is 0 or 1 and nothing else.
_FLAGS: Final = frozenset(
    (
        PAYLOAD_FORMAT_INDICATOR,
        REQUEST_PROBLEM_INFORMATION,
        REQUEST_RESPONSE_INFORMATION,
        MAXIMUM_QOS,
        RETAIN_AVAILABLE,
        WILDCARD_SUBSCRIPTION_AVAILABLE,
        SUBSCRIPTION_IDENTIFIER_AVAILABLE,
        SHARED_SUBSCRIPTION_AVAILABLE,
    )
)
_NEVER_ZERO: Final = frozenset((SUBSCRIPTION_IDENTIFIER, RECEIVE_MAXIMUM, MAXIMUM_PACKET_SIZE))


def is_allowed(identifier: int, packet_type: int) -> bool:
    """Tell whether a packet of this type (or WILL) may have this property."""
    return 0 <= identifier <= 255 and _MASKS[identifier] >> packet_type & 1 == 1


def name(identifier: int) -> str:
    """Return the standard's name of a property, or its number where there is none."""
    return _NAMES.get(identifier, f"property {identifier}")


def integer(properties: Properties | None, identifier: int) -> int:
    """The value of a numeric property; 0 if the packet does not have it."""
    value = properties.get(identifier, 0) if properties is not None else 0
    assert isinstance(value, int)  # the codec's type for it
    return value


def decode_properties(data: bytes, position: int, end: int, packet_type: int) -> tuple[Properties | None, int]:
    """Read a property block with its length field.

    Returns the properties (None if there are none) and the position after them.
    """
    length, position = read_variable_byte_integer(data, position, end, "property length")
    if length == 0:
        return None, position
    stop = position + length
    if stop > end:
        raise MalformedPacket(
            f"{NAMES[packet_type]} property length: says {length} bytes, but only {end - position} are left"
        )
    properties: Properties = {}
    while position < stop:
        identifier = data[position]
        if not is_allowed(identifier, packet_type):  # section 2.2.2.2
            raise MalformedPacket(f"{NAMES[packet_type]}: {name(identifier)} is no property of this packet")
        position = _decode_property(properties, data, position + 1, stop, identifier, packet_type)
    return properties, stop


def _decode_property(
    properties: Properties, data: bytes, position: int, stop: int, identifier: int, packet_type: int
) -> int:
    """Read one value into the properties; returns the position after it."""
    where = _WHERE[packet_type << 8 | identifier]
    kind = TYPES[identifier]
    if kind == UTF8_STRING_PAIR:
        key, position = read_string(data, position, stop, where)  # [MQTT-1.5.7-1]
        text, position = read_string(data, position, stop, where)
        if identifier not in properties:
            properties[identifier] = cast(list[tuple[str, str]], [])
        cast(list[tuple[str, str]], properties[identifier]).append((key, text))
        return position
    if kind == VARIABLE_BYTE_INTEGER and packet_type == PUBLISH:  # the only other property that may be repeated
        number, position = read_variable_byte_integer(data, position, stop, where)
        _check_number(identifier, number, where)
        if identifier not in properties:
            properties[identifier] = cast(list[int], [])
        cast(list[int], properties[identifier]).append(number)
        return position
    if identifier in properties:  # section 2.2.2.2 and each property's own text
        raise ProtocolError(f"{where}: is there twice, but may be there once only")
    if kind == UTF8_STRING:
        text, position = read_string(data, position, stop, where)
        if identifier == RESPONSE_TOPIC and (text == "" or "+" in text or "#" in text):  # [MQTT-3.3.2-14]
            raise ProtocolError(f"{where}: must be a topic name, not empty and without wildcards")
        properties[identifier] = text
        return position
    if kind == BINARY_DATA:
        properties[identifier], position = read_binary(data, position, stop, where)
        return position
    return _decode_number(properties, data, position, stop, identifier, where)


def _decode_number(properties: Properties, data: bytes, position: int, stop: int, identifier: int, where: str) -> int:
    kind = TYPES[identifier]
    if kind == BYTE:
        number = read_byte(data, position, stop, where)
        position += 1
    elif kind == TWO_BYTE_INTEGER:
        number = read_uint16(data, position, stop, where)
        position += 2
    elif kind == FOUR_BYTE_INTEGER:
        number = read_uint32(data, position, stop, where)
        position += 4
    else:
        number, position = read_variable_byte_integer(data, position, stop, where)
    _check_number(identifier, number, where)
    properties[identifier] = number
    return position


def _check_number(identifier: int, number: int, where: str) -> None:
    """Raise an error for numbers that fit their type but that the property's own section forbids."""
    if number > 1 and identifier in _FLAGS:
        raise ProtocolError(f"{where}: must be 0 or 1, not {number}")
    if number == 0:
        if identifier in _NEVER_ZERO:
            raise ProtocolError(f"{where}: must not be 0")
        if identifier == TOPIC_ALIAS:  # [MQTT-3.3.2-8]
            raise TopicAliasInvalid(f"{where}: must not be 0")


def check_authentication(properties: Properties | None, packet_type: int) -> None:
    """Raise an error for authentication data without a method (sections 3.1.2.11.10 and 3.15.2.2.3)."""
    if properties is not None and AUTHENTICATION_DATA in properties and AUTHENTICATION_METHOD not in properties:
        raise ProtocolError(f"{NAMES[packet_type]}: has Authentication Data but no Authentication Method")


def encode_properties(properties: Properties | None, packet_type: int) -> bytes:
    """Encode a property block with its length field; ValueError for what the packet does not allow."""
    if not properties:
        return b"\0"  # [MQTT-2.2.2-1]
    block = encode_property_list(properties, packet_type)
    return encode_variable_byte_integer(len(block)) + block


def encode_property_list(properties: Properties, packet_type: int) -> bytes:
    """Encode properties one after the other, without the length; ValueError for what the packet does not allow."""
    parts: list[bytes] = []
    for identifier, value in properties.items():
        if not is_allowed(identifier, packet_type):
            raise ValueError(f"{NAMES[packet_type]}: {name(identifier)} is no property of this packet")
        _encode_property(parts, identifier, value)
    return b"".join(parts)


def _encode_property(parts: list[bytes], identifier: int, value: Value) -> None:
    prefix = bytes((identifier,))
    kind = TYPES[identifier]
    if isinstance(value, list):
        for item in value:
            if isinstance(item, tuple):
                parts.append(prefix + encode_string(item[0]) + encode_string(item[1]))
            else:
                parts.append(prefix + encode_variable_byte_integer(item))
    elif isinstance(value, str) and kind == UTF8_STRING:
        parts.append(prefix + encode_string(value))
    elif isinstance(value, bytes) and kind == BINARY_DATA:
        parts.append(prefix + encode_binary(value))
    elif isinstance(value, int) and kind <= VARIABLE_BYTE_INTEGER:
        parts.append(prefix + _encode_number(kind, value))
    else:
        raise ValueError(f"{name(identifier)}: {type(value).__name__} is not the type of this property")


def _encode_number(kind: int, value: int) -> bytes:
    if kind == BYTE:
        return bytes((value,))
    if kind == TWO_BYTE_INTEGER:
        return encode_uint16(value)
    if kind == FOUR_BYTE_INTEGER:
        return encode_uint32(value)
    return encode_variable_byte_integer(value)
