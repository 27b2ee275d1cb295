"""Errors in what a peer sent. Each carries the reason code to answer with.

    MQTTError
    +-- MalformedPacket              0x81  the bytes cannot be read as the standard says
    +-- ProtocolError                0x82  readable, but not allowed here
    +-- UnsupportedProtocolVersion   0x84  CONNECT of another version; carries the answer to send
    +-- TopicNameInvalid             0x90  well-formed, but not accepted here
    +-- TopicAliasInvalid            0x94
    +-- PacketTooLarge               0x95

"Need more bytes" is no error: the decoder returns None. Our own error, a packet that cannot be encoded, is a
ValueError.
"""

# ruff: noqa: N818 - named after the standard's terms

from __future__ import annotations

from protocol.reason_codes import (
    MALFORMED_PACKET,
    PACKET_TOO_LARGE,
    PROTOCOL_ERROR,
    TOPIC_ALIAS_INVALID,
    TOPIC_NAME_INVALID,
    UNSUPPORTED_PROTOCOL_VERSION,
)


class MQTTError(Exception):
    """The peer broke the protocol: `reason_code` is for the answer, the message is for people."""

    def __init__(self, reason_code: int, message: str) -> None:
        super().__init__(message)
        self.reason_code = reason_code
        self.message = message
        self.maximum_packet_size = 0
        """The peer's limit for the answer, if a CONNECT with an error states one; 0 = none."""
        self.client_id = ""
        """The client id in a CONNECT with an error; empty if it could not be read."""

    def rename(self, message: str) -> None:
        """Replace the message, unless the new one is empty."""
        if message:
            self.message = message
            self.args = (message,)


class MalformedPacket(MQTTError):
    """The packet cannot be parsed according to the standard (0x81)."""

    def __init__(self, message: str) -> None:
        super().__init__(MALFORMED_PACKET, message)


class ProtocolError(MQTTError):
    """The packet can be parsed but holds what the standard does not allow there (0x82)."""

    def __init__(self, message: str) -> None:
        super().__init__(PROTOCOL_ERROR, message)


class UnsupportedProtocolVersion(MQTTError):
    """A CONNECT that is neither MQTT 3.1.1 nor 5.0 (0x84).

    `level` is the protocol level that was asked for (0: not MQTT at all). `answer` is the CONNACK to send
    before closing, in the form that the peer can read; it is empty where nothing should be sent.
    """

    def __init__(self, message: str, level: int, answer: bytes) -> None:
        super().__init__(UNSUPPORTED_PROTOCOL_VERSION, message)
        self.level = level
        self.answer = answer


class TopicNameInvalid(MQTTError):
    """A topic name is well-formed, but this server does not accept it (0x90)."""

    def __init__(self, message: str) -> None:
        super().__init__(TOPIC_NAME_INVALID, message)


class TopicAliasInvalid(MQTTError):
    """A topic alias is 0 or above the maximum that was agreed (0x94)."""

    def __init__(self, message: str) -> None:
        super().__init__(TOPIC_ALIAS_INVALID, message)


class PacketTooLarge(MQTTError):
    """A packet is larger than the Maximum Packet Size (0x95). `size` and `limit`: bytes, of a received packet."""

    def __init__(self, message: str, size: int = 0, limit: int = 0) -> None:
        super().__init__(PACKET_TOO_LARGE, message)
        self.size = size
        self.limit = limit
