"""Splits what a client sends, or is sent, at the ends of packets; decodes each for people."""

from typing import Final

from protocol.decoder import Decoder
from protocol.errors import MQTTError
from protocol.packet import Packet
from protocol.packet_types import CONNECT, NAMES, PUBLISH
from protocol.publish import Publish

KEPT: Final = 70_000
"""Bytes of one packet that are kept to show it: the longest topic is among them."""


class Framing:
    """One direction of one connection, at any position in its stream."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._left = -1
        """Bytes that the packet still lacks; -1 = its length is not known yet."""

    def split(self, data: bytes) -> list[tuple[bytes, bytes | None]]:
        """Split data behind each packet that it completes: each part, and that packet, of which KEPT bytes are kept.

        The last part may complete none, and has None.
        """
        parts: list[tuple[bytes, bytes | None]] = []
        start = position = 0
        while position < len(data):
            if self._left < 0:
                self._kept.append(data[position])
                position += 1
                self._left = _left(self._kept)
            else:
                end = min(position + self._left, len(data))
                self._kept += data[position : min(end, position + KEPT - len(self._kept))]
                self._left -= end - position
                position = end
            if self._left == 0:
                parts.append((data[start:position], bytes(self._kept)))
                start, self._left = position, -1
                self._kept.clear()
        if start < len(data):
            parts.append((data[start:], None))
        return parts


def _left(head: bytearray) -> int:
    """Bytes that follow a fixed header; -1 if it is not complete. A wrong one has no length: the decoder refuses it."""
    length = 0
    for number, byte in enumerate(head[1:5]):
        length |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return length
    return 0 if len(head) > 4 else -1


def decode(packet: bytes, version: int) -> Packet | str:
    """The packet, or what is wrong with it. `version`: 4 or 5, for CONNECT any."""
    kind = packet[0] >> 4
    decoder = Decoder(version=0 if kind == CONNECT else version)
    decoder.feed(packet)
    try:
        found = decoder.next_packet()
    except (MQTTError, KeyError) as error:
        return f"{NAMES[kind]}: {error}"
    if found is not None:
        return found
    return _of_large(packet) if kind == PUBLISH else f"{NAMES[kind]} of more than {KEPT} bytes"


def topic_of(packet: bytes) -> bytes | None:
    """The topic of a PUBLISH, without decoding the rest; None if it may have an alias, or is cut off."""
    at = 2
    while at <= 5 and packet[at - 1] >= 0x80:
        at += 1
    end = at + 2 + int.from_bytes(packet[at : at + 2])
    properties = end + (2 if packet[0] & 6 else 0)
    # Of MQTT 3.1.1 this byte is the payload's first: if it is not 0 the packet is decoded, which is right too.
    return packet[at + 2 : end] if packet[properties : properties + 1] == b"\0" else None


def packet_id_of(packet: bytes) -> int | None:
    """The packet id of an acknowledgement, without decoding the rest; None if it is not at its usual place."""
    return int.from_bytes(packet[2:4]) if len(packet) >= 4 and packet[1] < 0x80 else None


def _of_large(packet: bytes) -> Packet | str:
    """A PUBLISH of which the end is missing: topic and packet id are at its beginning."""
    length = at = 0
    for number, byte in enumerate(packet[1:5]):
        length |= (byte & 0x7F) << 7 * number
        at = number + 2
        if byte < 0x80:
            break
    begin = at + 2
    end = begin + int.from_bytes(packet[at:begin])
    qos = packet[0] >> 1 & 3
    packet_id = int.from_bytes(packet[end : end + 2]) if qos else 0
    found = Publish(packet[begin:end], b"", qos, bool(packet[0] & 1), packet_id=packet_id, dup=bool(packet[0] & 8))
    found.size = length - (end - at) - (2 if qos else 0)  # properties count as well
    return found
