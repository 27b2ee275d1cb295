"""CONNECT: the client asks for a session (section 3.1)."""

from __future__ import annotations

from typing import ClassVar, Final, final

from protocol.errors import MalformedPacket, MQTTError, UnsupportedProtocolVersion
from protocol.packet import Packet
from protocol.packet_types import CONNECT, WILL
from protocol.primitives import (
    encode_binary,
    encode_packet,
    encode_string,
    encode_uint16,
    expect_end,
    read_binary,
    read_byte,
    read_string,
    read_uint16,
)
from protocol.properties import (
    MAXIMUM_PACKET_SIZE,
    Properties,
    check_authentication,
    decode_properties,
    encode_properties,
)
from protocol.topics import validate_topic_name

MQTT_3_1: Final = 3
MQTT_3_1_1: Final = 4
MQTT_5: Final = 5
BRIDGE: Final = 0x80
"""Bit 7 of the protocol level, set by Mosquitto's bridges in MQTT 3.1.1 and 3.1 (`try_private`, on by default)."""

_NAME: Final = b"\0\x04MQTT"
_NAME_3_1: Final = b"\0\x06MQIsdp"
_HEAD: Final = 4
"""Bytes of level, flags and keep alive; up to 3.1.1 the client id follows."""

# CONNACKs that refuse a version, in the form that a peer of that version can read.
REFUSED_3_1_1: Final = b"\x20\x02\x00\x01"
_REFUSED_5: Final = b"\x20\x03\x00\x84\x00"


@final
class Will:
    """The message that the server publishes when the connection ends without DISCONNECT."""

    __slots__ = ("payload", "properties", "qos", "retain", "topic")

    def __init__(
        self,
        topic: bytes,
        payload: bytes,
        qos: int = 0,
        retain: bool = False,
        properties: Properties | None = None,
    ) -> None:
        self.topic: bytes = topic
        self.payload: bytes = payload
        self.qos: int = qos
        self.retain: bool = retain
        self.properties: Properties | None = properties


@final
class Connect(Packet):
    """CONNECT. In 3.1.1 `clean_start` is the Clean Session flag; `bridge`: the protocol level has the BRIDGE bit.

    `mqtt31`: it is one of MQTT 3.1, and `version` is 4, since all else is as in 3.1.1.
    """

    __slots__ = (
        "bridge",
        "clean_start",
        "client_id",
        "keep_alive",
        "mqtt31",
        "password",
        "properties",
        "username",
        "version",
        "will",
    )

    packet_type: ClassVar[int] = CONNECT
    fields: ClassVar[tuple[str, ...]] = (
        "client_id",
        "clean_start",
        "keep_alive",
        "username",
        "password",
        "will",
        "properties",
        "version",
        "bridge",
        "mqtt31",
    )

    def __init__(  # noqa: PLR0913, PLR0917 - one for each field of the packet
        self,
        client_id: str,
        clean_start: bool = True,
        keep_alive: int = 0,
        username: str | None = None,
        password: bytes | None = None,
        will: Will | None = None,
        properties: Properties | None = None,
        version: int = MQTT_5,
        bridge: bool = False,
        mqtt31: bool = False,
    ) -> None:
        self.client_id: str = client_id
        self.clean_start: bool = clean_start
        self.keep_alive: int = keep_alive
        self.username: str | None = username
        self.password: bytes | None = password
        self.will: Will | None = will
        self.properties: Properties | None = properties
        self.version: int = version
        self.bridge: bool = bridge
        self.mqtt31: bool = mqtt31

    def encode(self, version: int) -> bytes:
        """Return the packet as bytes; ValueError if it cannot be a CONNECT of that version."""
        flags = 0x02 if self.clean_start else 0
        payload = [encode_string(self.client_id)]
        will = self.will
        if will is not None:
            flags |= 0x04 | will.qos << 3 | (0x20 if will.retain else 0)
            if version == MQTT_5:
                payload.append(encode_properties(will.properties, WILL))
            payload += [encode_binary(will.topic), encode_binary(will.payload)]
        if self.username is not None:
            flags |= 0x80
            payload.append(encode_string(self.username))
        if self.password is not None:
            if version != MQTT_5 and self.username is None:
                raise ValueError("CONNECT: MQTT 3.1.1 has no password without a user name")
            flags |= 0x40
            payload.append(encode_binary(self.password))
        level = MQTT_3_1 if self.mqtt31 else version
        if self.bridge:
            level |= BRIDGE
        head = (_NAME_3_1 if self.mqtt31 else _NAME) + bytes((level, flags)) + encode_uint16(self.keep_alive)
        if version == MQTT_5:
            head += encode_properties(self.properties, CONNECT)
        return encode_packet(CONNECT << 4, head + b"".join(payload))


def read_protocol_level(data: bytes, position: int, end: int) -> int:
    """Read the protocol name and level that every CONNECT begins with.

    Returns 4 or 5, and 4 for a bridge and for MQTT 3.1 too; raises UnsupportedProtocolVersion with the answer for
    anything else.
    """
    name, position = read_binary(data, position, end, "CONNECT protocol name")
    if name != _NAME[2:] and name != _NAME_3_1[2:]:  # [MQTT-3.1.2-1]; other names are not MQTT: send no CONNACK
        raise UnsupportedProtocolVersion(f"CONNECT protocol name: is {repr(name[:32])[1:]}, but must be 'MQTT'", 0, b"")
    level = read_byte(data, position, end, "CONNECT protocol level")
    if name == _NAME_3_1[2:]:
        expected = "3 with the protocol name MQIsdp"
        accepted = level & ~BRIDGE == MQTT_3_1
    else:
        expected = "4 or 5"
        accepted = level & ~BRIDGE == MQTT_3_1_1 or level == MQTT_5
    if not accepted:  # [MQTT-3.1.2-2]
        # Bit 7 may mark a bridge of another version, which falls back on return code 1.
        older = level & ~BRIDGE < MQTT_5 or name == _NAME_3_1[2:]
        answer = REFUSED_3_1_1 if older else _REFUSED_5
        message = f"CONNECT protocol level: is {level}, but must be {expected}"
        error = UnsupportedProtocolVersion(message, level, answer)
        if older:
            error.client_id = _client_id(data, position + _HEAD, end)
        raise error
    return MQTT_5 if level == MQTT_5 else MQTT_3_1_1


def level_at_beginning(data: bytes, position: int) -> int:
    """As `read_protocol_level`, of a CONNECT that ends somewhere; -1 if more bytes are needed, 0 if it is not MQTT."""
    for name in (_NAME, _NAME_3_1):
        end = position + len(name)
        if name.startswith(data[position:end]):
            return read_protocol_level(data, position, len(data)) if len(data) > end else -1
    return 0


def decode_connect(data: bytes, position: int, end: int) -> Connect:
    """Read what follows the fixed header of a CONNECT."""
    version = read_protocol_level(data, position, end)
    mqtt31 = data[position + 1] == _NAME_3_1[1]
    position += (len(_NAME_3_1) if mqtt31 else len(_NAME)) + 1
    bridge = data[position - 1] & BRIDGE != 0
    flags = read_byte(data, position, end, "CONNECT flags")
    keep_alive = read_uint16(data, position + 1, end, "CONNECT keep alive")
    position += 3
    properties: Properties | None = None
    if version == MQTT_5:
        properties, position = decode_properties(data, position, end, CONNECT)
    try:
        _check_flags(flags, version)
        level = MQTT_3_1 if mqtt31 else version
        connect = _decode_payload(data, position, end, flags, level, keep_alive, properties)
    except MQTTError as error:
        limit = properties.get(MAXIMUM_PACKET_SIZE) if properties is not None else None
        if isinstance(limit, int):
            error.maximum_packet_size = limit  # the answer must not exceed it [MQTT-3.1.2-24]
        error.client_id = _client_id(data, position, end)
        raise
    connect.version, connect.bridge, connect.mqtt31 = version, bridge, mqtt31
    return connect


def _decode_payload(
    data: bytes, position: int, end: int, flags: int, version: int, keep_alive: int, properties: Properties | None
) -> Connect:
    """What is behind the properties; `version` is 3 for MQTT 3.1."""
    check_authentication(properties, CONNECT)
    client_id, position = read_string(data, position, end, "CONNECT client identifier")  # [MQTT-3.1.3-4]
    will: Will | None = None
    if flags & 0x04:
        will, position = _decode_will(data, position, end, flags, version)
    username: str | None = None
    if version == MQTT_3_1 and position == end:
        flags &= 0x3F  # MQTT 3.1 allows clients to say that there are a user name and a password, and to send none
    if flags & 0x80:  # [MQTT-3.1.2-17] (3.1.1: [MQTT-3.1.2-19])
        username, position = read_string(data, position, end, "CONNECT user name")  # [MQTT-3.1.3-12]
    password: bytes | None = None
    if flags & 0x40:  # [MQTT-3.1.2-19] (3.1.1: [MQTT-3.1.2-21])
        password, position = read_binary(data, position, end, "CONNECT password")
    expect_end(position, end, CONNECT)
    return Connect(client_id, flags & 0x02 != 0, keep_alive, username, password, will, properties, version)


def _client_id(data: bytes, position: int, end: int) -> str:
    """The client id, first in the payload, of a CONNECT with an error; empty if it cannot be read."""
    try:
        return read_string(data, position, end, "CONNECT client identifier")[0]
    except MQTTError:
        return ""


def _check_flags(flags: int, version: int) -> None:
    if flags & 0x01:  # [MQTT-3.1.2-3]
        raise MalformedPacket(f"CONNECT flags: the reserved bit 0 of 0x{flags:02X} is set")
    if flags & 0x18 == 0x18:  # [MQTT-3.1.2-12] (3.1.1: [MQTT-3.1.2-14])
        raise MalformedPacket("CONNECT flags: Will QoS is 3, but must be 0, 1 or 2")
    if not flags & 0x04:
        if flags & 0x18:  # [MQTT-3.1.2-11] (3.1.1: [MQTT-3.1.2-13])
            raise MalformedPacket("CONNECT flags: Will QoS is set without the Will Flag")
        if flags & 0x20:  # [MQTT-3.1.2-13] (3.1.1: [MQTT-3.1.2-15])
            raise MalformedPacket("CONNECT flags: Will Retain is set without the Will Flag")
    if version == MQTT_3_1_1 and flags & 0xC0 == 0x40:  # 3.1.1: [MQTT-3.1.2-22]
        raise MalformedPacket("CONNECT flags: a password without a user name, which MQTT 3.1.1 does not allow")


def _decode_will(data: bytes, position: int, end: int, flags: int, version: int) -> tuple[Will, int]:
    """Read the will fields, which must be there if the flag is set [MQTT-3.1.2-9]."""
    properties: Properties | None = None
    if version == MQTT_5:
        properties, position = decode_properties(data, position, end, WILL)
    topic, position = read_binary(data, position, end, "CONNECT will topic")
    validate_topic_name(topic, "CONNECT will topic")  # [MQTT-3.1.3-11] (3.1.1: [MQTT-3.1.3-10])
    payload, position = read_binary(data, position, end, "CONNECT will payload")
    return Will(topic, payload, flags >> 3 & 3, flags & 0x20 != 0, properties), position
