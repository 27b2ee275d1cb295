"""Refusals: their errors, and CONNACK and DISCONNECT with the reason code and, if it fits, a Reason String."""

# ruff: noqa: N818 - they are named for what happens, like the errors of `protocol`

from typing import Final, final

from protocol import packet_types, reason_codes
from protocol import properties as props
from protocol.connack import Connack, return_code
from protocol.disconnect import Disconnect
from protocol.errors import MQTTError, UnsupportedProtocolVersion
from protocol.properties import Properties

MOST_TEXT: Final = 256
"""Bytes of a Reason String, at most: it may quote what the client has sent, which may be long."""

MOST_TOPIC: Final = 100
"""Bytes of a topic that a message quotes, at most."""


@final
class PublishRefused(MQTTError):
    """A PUBLISH is not routed. Its acknowledgement has the reason code; the connection stays open."""


@final
class Redirected(MQTTError):
    """The client is to use another server (section 4.11)."""

    def __init__(self, reason_code: int, server_reference: str) -> None:
        super().__init__(reason_code, "clients of this server are to use another")
        self.server_reference = server_reference


def shortened(message: str) -> str:
    """The message for a Reason String or a log line, cut to MOST_TEXT bytes."""
    encoded = message.encode()
    return message if len(encoded) <= MOST_TEXT else encoded[:MOST_TEXT].decode(errors="ignore")


def topic_name(topic: bytes) -> str:
    """The topic for a message, cut to MOST_TOPIC bytes: cheap, because each refused message makes one."""
    return topic[:MOST_TOPIC].decode(errors="ignore")


def not_permitted(topic: bytes, why: str = "") -> PublishRefused:
    """The refusal of a PUBLISH that its client may not send; `why`: what more is known, after a colon."""
    return PublishRefused(reason_codes.NOT_AUTHORIZED, f"PUBLISH to {topic_name(topic)!r} is not permitted{why}")


def connack(error: MQTTError, version: int, limit: int) -> bytes:
    """The CONNACK with the error's reason code; `limit` is the client's Maximum Packet Size, 0 = none.

    Empty if the version is unknown or has no reason code for the error, or if the shortest CONNACK is too large.
    """
    if isinstance(error, UnsupportedProtocolVersion):
        return error.answer
    code = error.reason_code
    if version == 4 and return_code(code) > 0:
        return Connack(False, code).encode(4)
    if version != 5:
        return b""
    if not reason_codes.is_allowed(code, packet_types.CONNACK):  # [MQTT-3.2.2-8]
        code = reason_codes.PROTOCOL_ERROR
    needed: Properties = {}
    if isinstance(error, Redirected):
        needed[props.SERVER_REFERENCE] = error.server_reference
    for properties in (_explained(needed, error.message), needed, None):  # [MQTT-3.2.2-19]
        packet = Connack(False, code, properties).encode(5)
        if fits(packet, limit):
            return packet
    return b""


def disconnect(reason_code: int, reason: str, limit: int, server_reference: str = "") -> bytes:
    """The DISCONNECT of MQTT 5; empty if the shortest one is too large for the client [MQTT-3.1.2-24]."""
    needed: Properties = {props.SERVER_REFERENCE: server_reference} if server_reference else {}
    for properties in (_explained(needed, reason), needed, None):  # [MQTT-3.14.2-3]
        packet = Disconnect(reason_code, properties).encode(5)
        if fits(packet, limit):
            return packet
    return b""


def fits(packet: bytes, limit: int) -> bool:
    """Whether a packet is not larger than the client's Maximum Packet Size, 0 = none."""
    return limit == 0 or len(packet) <= limit


def _explained(properties: Properties, reason: str) -> Properties:
    explained = dict(properties)
    if reason:
        explained[props.REASON_STRING] = shortened(reason)
    return explained
