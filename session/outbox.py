"""The outbox: packets as the pieces of bytes that the connection joins and writes once per pass."""

from typing import Final, final

from mypy_extensions import i64, mypyc_attr, u8

from protocol import reason_codes
from protocol.publish import Publish
from protocol.publish_encoder import ALIAS_PROPERTY, TWO_BYTES
from session.aliases import Aliases

PACKET_ID: Final = TWO_BYTES
"""Every packet identifier as its two bytes: a lookup is cheaper than encoding one per packet."""

PUBACK_HEAD: Final = b"\x40\x02"
PUBREC_HEAD: Final = b"\x50\x02"
PUBREL_HEAD: Final = b"\x62\x02"
PUBCOMP_HEAD: Final = b"\x70\x02"

_NOTHING: Final[list[bytes]] = []
"""The pieces of every empty outbox, to which nothing is added. An empty list of its own would take memory, and
would have left the processor's caches when the next packet goes out."""
_SECOND: Final = 1_000_000
_ALIAS_ROOM: Final = 5
"""Bytes that an alias adds at most: three for the property, and one for each of two length fields."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Rewriter:
    """Gives each PUBLISH another topic or other properties on its way out: they differ at the other end of a bridge."""

    adds: i64 = 0
    """Bytes by which it makes a PUBLISH longer, at most."""
    form: i64 = 0
    """The version in which PUBLISHes go out; 0 = that of the outbox."""

    def rewritten(self, publish: Publish) -> Publish:
        """The PUBLISH as it goes out; the same object if nothing differs."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def next(self, publish: Publish, outbox: "Outbox") -> Publish:
        """The PUBLISH as it goes out now, into this outbox; what has to come before it is added first."""
        return self.rewritten(publish)


@mypyc_attr(acyclic=True)  # neither pieces, aliases nor a rewriter refer to it: 16 bytes less
@final
class Outbox:
    """Pieces of packets in the order in which they go out, for a client of one protocol version."""

    def __init__(self) -> None:
        self.maximum_packet_size: i64 = 0
        """The client's, in bytes; 0 = none stated."""
        self.version: u8 = 4  # beside the next one: both share eight bytes
        self.maximum_qos: u8 = 2
        """What has a higher QoS is sent with this one: a server may not take it [MQTT-3.2.2-11]."""
        self.aliases: Aliases | None = None
        """None = the client accepts no topic aliases."""
        self.rewriter: Rewriter | None = None
        """None = each PUBLISH goes out as it is."""
        self.pieces = _NOTHING
        self.commit: i64 = 0
        """FC-27: the commit that has to be on disk before these pieces may be written; 0 = none."""
        self.delivery_bytes: i64 = 0
        """Bytes of deliveries among the pieces. Control packets are not counted: no limit touches them (FC-15)."""

    def take(self) -> list[bytes]:
        """Everything to write now; the outbox is empty afterwards."""
        pieces = self.pieces
        if pieces:
            self.pieces = _NOTHING
            self.delivery_bytes = 0
            self.commit = 0
        return pieces

    def wait_for(self, commit: int) -> None:
        """FC-27: what is in the outbox may not be written before this commit; 0 = it may."""
        if commit:
            self.commit = commit

    def fits(self, packet: bytes) -> bool:
        """Whether a packet is not too large for the client [MQTT-3.1.2-24]."""
        return self.maximum_packet_size == 0 or len(packet) <= self.maximum_packet_size

    def add_packet(self, packet: bytes) -> None:
        """A whole packet."""
        if self.pieces:
            self.pieces.append(packet)
        else:
            self.pieces = [packet]

    def add_acknowledgement(self, head: bytes, packet_id: int) -> None:
        """A PUBACK, PUBREC, PUBREL or PUBCOMP of success, in the short form that both versions share."""
        pieces = self.pieces
        if pieces:
            pieces.append(head)
            pieces.append(PACKET_ID[packet_id])
        else:
            self.pieces = [head, PACKET_ID[packet_id]]

    def add_unknown(self, head: bytes, packet_id: int) -> None:
        """FC-21: a PUBREL or PUBCOMP for a packet id that is not known, in MQTT 5 with 0x92."""
        if self.version == 5:
            self.add_code(head, packet_id, reason_codes.PACKET_IDENTIFIER_NOT_FOUND)
        else:
            self.add_acknowledgement(head, packet_id)

    def add_code(self, head: bytes, packet_id: int, reason_code: int) -> None:
        """An MQTT 5 acknowledgement with a reason code other than success, in five bytes."""
        self.add_packet(bytes([head[0], 3, packet_id >> 8, packet_id & 255, reason_code]))

    def add_publish(self, publish: Publish, packet_id: int, now: int) -> None:
        """A first transmission; packet id 0 at QoS 0. Frames are built once per message and shared by all receivers."""
        version = i64(self.version)
        if self.rewriter is not None:
            publish = self.rewriter.next(publish, self)
            version = self.rewriter.form or version
        if version == 4:
            head = publish.frame4
            if head is None:
                head = publish.build4()
            rest = publish.rest4
        elif publish.expires_at or self.aliases is not None:
            self._add_own(publish, packet_id, now)
            return
        else:
            head = publish.frame5
            if head is None:
                head = publish.build5()
            rest = publish.rest5
        pieces = self.pieces
        if pieces:
            pieces.append(head)
        else:
            pieces = self.pieces = [head]
        self.delivery_bytes += len(head)
        if packet_id:
            pieces.append(PACKET_ID[packet_id])
            if rest is not None and len(rest) != 0:
                pieces.append(rest)
                self.delivery_bytes += len(rest)

    def add_resent_publish(self, publish: Publish, packet_id: int, now: int) -> None:
        """A resent PUBLISH, with DUP set (FC-8) [MQTT-3.3.1-1]."""
        version = i64(self.version)
        if self.rewriter is not None:
            publish = self.rewriter.next(publish, self)
            version = self.rewriter.form or version
        packet = publish.encode_resent(version, packet_id, _expiry_left(publish, now))
        self.add_packet(packet)
        self.delivery_bytes += len(packet)

    def too_large(self, publish: Publish) -> bool:
        """Whether a PUBLISH exceeds the client's Maximum Packet Size [MQTT-3.1.2-24]."""
        most = self.maximum_packet_size
        if self.rewriter is None:
            return 0 < most < self._size(publish)
        return 0 < most < self._size(publish) + self.rewriter.adds and most < self.packet_size(publish)

    def packet_size(self, publish: Publish) -> int:
        """Length of the PUBLISH packet in bytes, as this client would get it."""
        return self._size(publish if self.rewriter is None else self.rewriter.rewritten(publish))

    def _size(self, publish: Publish) -> int:
        if self.version == 4:
            head = publish.frame4 or publish.build4()
            rest = publish.rest4
        else:
            head = publish.frame5 or publish.build5()
            rest = publish.rest5
        return len(head) + (2 + len(rest or b"") if publish.qos else 0)

    def _add_own(self, publish: Publish, packet_id: int, now: int) -> None:
        """Add a PUBLISH encoded for this client only: with the rest of its expiry, or an alias."""
        topic = publish.topic
        more = publish.identifiers
        aliases = self.aliases
        if aliases is not None:
            alias = aliases.known(topic)
            if alias:
                topic = b""
            elif self._has_room_for_alias(publish):
                alias = aliases.assign(topic)
            if alias:
                more += ALIAS_PROPERTY + PACKET_ID[alias]
        head, block, payload = publish.delivery(topic, more, _expiry_left(publish, now))
        parts = [head, PACKET_ID[packet_id], block, payload] if packet_id else [head, block, payload]
        if self.pieces:
            self.pieces.extend(parts)
        else:
            self.pieces = parts
        self.delivery_bytes += len(head) + len(block) + len(payload)

    def _has_room_for_alias(self, publish: Publish) -> bool:
        """Whether the packet with both topic and alias is not too large for the client [MQTT-3.1.2-24]."""
        return not self.maximum_packet_size or self._size(publish) + _ALIAS_ROOM <= self.maximum_packet_size


def _expiry_left(publish: Publish, now: int) -> int:
    """Seconds left of the Message Expiry Interval, after the time in the broker [MQTT-3.3.2-6]; -1 = none."""
    if not publish.expires_at:
        return -1
    return max(publish.expires_at - now + _SECOND - 1, 0) // _SECOND
