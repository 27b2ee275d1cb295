"""The decoder: turns received bytes into packets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

from mypy_extensions import i64, u8

from protocol.acknowledgements import decode_acknowledgement
from protocol.auth import decode_auth
from protocol.connack import decode_connack
from protocol.connect import Connect, decode_connect, level_at_beginning, read_protocol_level
from protocol.disconnect import decode_disconnect
from protocol.errors import MalformedPacket, MQTTError, PacketTooLarge, ProtocolError
from protocol.foreign import may_become, recognise
from protocol.packet import Packet
from protocol.packet_types import (
    AUTH,
    CONNACK,
    CONNECT,
    DISCONNECT,
    FLAGS,
    NAMES,
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
)
from protocol.ping import decode_pingreq, decode_pingresp
from protocol.primitives import encode_variable_byte_integer
from protocol.publish import decode_publish
from protocol.suback import decode_suback
from protocol.subscribe import decode_subscribe
from protocol.unsuback import decode_unsuback
from protocol.unsubscribe import decode_unsubscribe

# Packet type -> decoder function; the types that are not here are handled before this table.
_DECODERS: Final[dict[int, Callable[[bytes, int, int, int], Packet]]] = {
    CONNACK: decode_connack,
    SUBSCRIBE: decode_subscribe,
    SUBACK: decode_suback,
    UNSUBSCRIBE: decode_unsubscribe,
    UNSUBACK: decode_unsuback,
    PINGREQ: decode_pingreq,
    PINGRESP: decode_pingresp,
    DISCONNECT: decode_disconnect,
    AUTH: decode_auth,
}

_ACKNOWLEDGEMENTS: Final = bytes(
    kind if kind in {PUBACK, PUBREC, PUBREL, PUBCOMP} and FLAGS[kind] == first & 0x0F else 0
    for first, kind in ((first, first >> 4) for first in range(256))
)
"""First byte -> packet type of an acknowledgement; 0 = another packet, or wrong flags."""

# Pieces of an incomplete packet are joined up to this size, so that a peer which sends byte by byte does not
# cost an object per byte.
_PIECE: Final = 4096

# Longer topic names are not kept from one PUBLISH to the next: an idle connection should need little memory.
_REMEMBERED: Final = 256

DUP: Final = 0x08
"""Bit of the first byte: the packet may have been sent before."""

SMALLEST_CONNACK: Final = 5
"""Bytes of the CONNACK of MQTT 5 without properties."""


@final  # not acyclic: the error that it keeps refers to it by its traceback
class Decoder:
    """Turns a stream of bytes, split at any position, into packets.

    `version` is 0 until a CONNECT sets it to 4 (3.1.1) or 5; a client calls `use`. `maximum_packet_size` counts
    the whole packet and is checked as soon as its length is known (0 = none); `known_topics` holds topic
    names known to be valid. All three may be changed between packets. `at_end` says that `next_packet` has returned
    all that is complete. After an error the decoder holds nothing, and `next_packet` raises the same error again.
    """

    __slots__ = (
        "_chunk",
        "_connected",
        "_error",
        "_last_topic",
        "_missing",
        "_mqtt31",
        "_next",
        "_next_position",
        "_pieces",
        "_position",
        "_size",
        "at_end",
        "known_topics",
        "maximum_packet_size",
        "publish_version",
        "version",
    )

    def __init__(
        self, maximum_packet_size: int = 0, known_topics: dict[bytes, Any] | None = None, version: int = 0
    ) -> None:
        self.version: i64 = version
        self.maximum_packet_size: i64 = maximum_packet_size
        self.known_topics: dict[bytes, Any] = known_topics if known_topics is not None else {}
        # The chunk that is being read, and the position in it.
        self._chunk: bytes = b""
        self._position: i64 = 0
        # The beginning of one incomplete packet, how many bytes it will have, and how many it still lacks.
        self._pieces: list[bytes] | None = None
        self._size: i64 = 0
        self._missing: i64 = 0
        # The chunk whose beginning has completed it (then _chunk is that packet), and the position after that.
        self._next: bytes | None = None
        self._next_position: i64 = 0
        # The topic of the last PUBLISH; the next one often has the same: not checked again. At first any valid topic.
        self._last_topic: bytes = b"/"
        self.at_end: bool = True  # this and the next three share eight bytes
        self.publish_version: u8 = version
        """That of PUBLISHes. Where it is not `version`, each end tells the other."""
        self._connected: bool = False
        self._mqtt31: bool = False
        self._error: MQTTError | None = None

    def use(self, version: int) -> None:
        """From now on all packets have this version."""
        self.version = version
        self.publish_version = version

    @property
    def buffered(self) -> int:
        """How many bytes are held; after `next_packet` has returned None, those of one incomplete packet."""
        count = len(self._chunk) - self._position
        if self._next is not None:
            count += len(self._next) - self._next_position
        return count + self.incomplete

    @property
    def incomplete(self) -> int:
        """How many bytes are held of one incomplete packet, if its length is known."""
        return 0 if self._pieces is None else self._size - self._missing

    def held(self) -> bytes:
        """The bytes that are not decoded yet."""
        rest = b"".join(self._pieces) if self._pieces is not None else b""
        rest += self._chunk[self._position :]
        return rest if self._next is None else rest + self._next[self._next_position :]

    def discard(self) -> None:
        """Hold nothing of what has come any more, but its version."""
        self._error = None
        self._chunk = b""
        self._position = 0
        self._pieces = None
        self._next = None

    def feed(self, data: bytes) -> None:
        """Add bytes received from the peer. Best called when `next_packet` has returned None."""
        if self._error is not None:
            return
        self.at_end = False
        if self._pieces is not None:
            self._complete(data)
        elif self._position >= len(self._chunk) and self._next is None:
            self._chunk = data
            self._position = 0
        else:
            rest = self._chunk[self._position :]
            if self._next is not None:
                rest += self._next[self._next_position :]
                self._next = None
            self._chunk = rest + data
            self._position = 0

    def next_packet(self) -> Packet | None:
        """Return the next packet, or None if more bytes are needed; raises MQTTError for an invalid packet."""
        data = self._chunk
        start = self._position
        available: i64 = len(data) - start
        if available < 2:
            return self._advance()
        first: i64 = data[start]
        remaining: i64 = data[start + 1]
        position: i64 = start + 2
        packet: Packet
        try:
            if remaining >= 0x80:
                remaining, position = _long_length(data, position, remaining & 0x7F)
                if remaining < 0:
                    return self._advance()
            end: i64 = position + remaining
            if end - start > available or end - start > self.maximum_packet_size > 0:
                return self._wait_for(first, position, end - start, available)
            if position > start + 2 and data[position - 1] == 0:
                packet = self._decode_padded(data, start, position, end)
            elif first & 0xF0 == 0x30 and self.version != 0:
                topic = self._last_topic
                version = i64(self.publish_version)
                publish = decode_publish(data, start, position, end, version, self.known_topics, topic)
                if publish.topic is not topic:
                    self._remember(publish.topic)
                packet = publish
            elif _ACKNOWLEDGEMENTS[first] and self.version != 0:
                packet = decode_acknowledgement(first >> 4, data, position, end, self.version)
            else:
                self._check_first_byte(first)
                packet = self._decode(first >> 4, data, position, end)
        except MQTTError as error:
            if self.version == 0 and may_become(data[start:]):
                return self._advance()  # not MQTT; with more bytes the error can name the protocol
            self._fail(error, data[start:])
            raise
        self._position = end
        if end - start == available and self._next is None:
            self._chunk = b""
            self._position = 0
            self.at_end = True
        return packet

    def _advance(self) -> Packet | None:
        """Continue at the end of the chunk (an incomplete fixed header may be left)."""
        if self._error is not None:
            raise self._error
        following = self._next
        if following is not None:
            self._chunk = following
            self._position = self._next_position
            self._next = None
            return self.next_packet()
        self._chunk = self._chunk[self._position :]
        self._position = 0
        self.at_end = True
        return None

    def _wait_for(self, first: int, position: int, size: int, available: int) -> Packet | None:
        """Keep the beginning of an incomplete packet of `size` bytes, and nothing else; raises if it is too large.

        `position` is that behind its fixed header.
        """
        self._check_first_byte(first)  # an invalid first byte is the first error
        if size > self.maximum_packet_size > 0:  # [MQTT-3.2.2-15], for clients [MQTT-3.1.2-24]
            error = _too_large(first, size, self.maximum_packet_size)
            if self.version == 0:  # a CONNECT: how it is answered depends on the version that it begins with
                version = level_at_beginning(self._chunk, position)
                if version < 0:
                    return self._advance()
                self.use(version)
                error.maximum_packet_size = SMALLEST_CONNACK  # what it accepts has not been read
            raise error
        self._pieces = [self._chunk[self._position :] if self._position else self._chunk]
        self._size = size
        self._missing = size - available
        self._chunk = b""
        self._position = 0
        self.at_end = True
        return None

    def _complete(self, data: bytes) -> None:
        """Add to the incomplete packet only what belongs to it; the rest of the chunk stays where it is."""
        pieces = self._pieces
        assert pieces is not None
        missing = self._missing
        if len(data) < missing:
            self._missing = missing - len(data)
            if len(pieces[-1]) < _PIECE:
                pieces[-1] += data
            else:
                pieces.append(data)
            return
        pieces.append(data[:missing] if len(data) > missing else data)
        self._chunk = b"".join(pieces)
        self._position = 0
        self._pieces = None
        if len(data) > missing:
            self._next = data
            self._next_position = missing

    def _fail(self, error: MQTTError, rest: bytes) -> None:
        """Release all bytes: the `rest`, from the packet of the error on, cannot be decoded."""
        if self.version == 0:
            error.rename(recognise(rest))
        self.discard()
        self._error = error

    def _check_first_byte(self, first: int) -> None:
        """Check the first byte before the packet is complete, and before any of it is kept.

        In MQTT 3.1 a PUBREL, SUBSCRIBE or UNSUBSCRIBE that is sent again has DUP.
        """
        packet_type = first >> 4
        flags = FLAGS[packet_type]
        if flags >= 0 and first & 0x0F != flags and not (self._mqtt31 and flags and first & 0x0F == flags | DUP):
            # [MQTT-2.1.3-1] [MQTT-3.6.1-1] [MQTT-3.8.1-1] [MQTT-3.10.1-1] [MQTT-3.14.1-1] [MQTT-3.15.1-1]
            # (3.1.1: [MQTT-2.2.2-2])
            raise MalformedPacket(
                f"{NAMES[packet_type]} fixed header: flags are 0x{first & 0x0F:X}, but must be 0x{flags:X}"
            )
        if packet_type == 0 or (packet_type == AUTH and self.version == 4):  # section 2.1.2 (3.1.1: 2.2.1)
            raise MalformedPacket(f"fixed header: packet type {packet_type} is reserved")
        if self.version == 0 and packet_type != CONNECT:  # [MQTT-3.1.0-1]
            raise ProtocolError(f"{NAMES[packet_type]}: the first packet must be CONNECT")
        if self._connected and packet_type == CONNECT:  # [MQTT-3.1.0-2]
            raise ProtocolError("CONNECT: came a second time on the same connection")

    def _decode_padded(self, data: bytes, start: int, position: int, end: int) -> Packet:
        """Read a packet whose Remaining Length has more bytes than needed: MQTT 5 forbids it, 3.1.1 does not."""
        first = data[start]
        self._check_first_byte(first)
        if first & 0xF0 == 0x30 and self.version == 4:
            # Rebuilt, because subscribers will get these bytes.
            head = bytes((first,)) + encode_variable_byte_integer(end - position)
            packet = head + data[position:end]
            return decode_publish(packet, 0, len(head), len(packet), 4, self.known_topics, self._last_topic)
        decoded = self._decode(first >> 4, data, position, end) if self.version != 5 else None
        if decoded is None or self.version == 5:  # [MQTT-1.5.5-1]; the version of a CONNECT is known only now
            raise MalformedPacket(f"fixed header: Remaining Length {end - position} is not encoded in the fewest bytes")
        return decoded

    def _remember(self, topic: bytes) -> None:
        if 0 < len(topic) <= _REMEMBERED:
            self._last_topic = topic

    def _decode(self, packet_type: int, data: bytes, position: int, end: int) -> Packet:
        """Read any packet but PUBLISH."""
        version = self.version
        if PUBACK <= packet_type <= PUBCOMP:
            return decode_acknowledgement(packet_type, data, position, end, version)
        if packet_type == CONNECT:
            # Set before the rest is read, so that an error there is answered in the right version.
            self.use(read_protocol_level(data, position, end))
            connect: Connect = decode_connect(data, position, end)
            self._connected = True
            self._mqtt31 = connect.mqtt31
            return connect
        return _DECODERS[packet_type](data, position, end, version)


def _long_length(data: bytes, position: int, value: int) -> tuple[int, int]:
    """Read a Remaining Length from its second byte on; -1 if it is incomplete (section 2.1.4)."""
    stop = len(data)
    if position < stop and 0 < data[position] < 0x80:
        return value | data[position] << 7, position + 1
    for shift in (7, 14, 21):
        if position >= stop:
            return -1, position
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise MalformedPacket("fixed header: Remaining Length has at most four bytes, this one has more")


def _too_large(first: int, size: int, limit: int) -> PacketTooLarge:
    message = f"{NAMES[first >> 4]}: the packet has {size} bytes, but at most {limit} are allowed"
    return PacketTooLarge(message, size, limit)
