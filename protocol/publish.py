"""PUBLISH: one application message, and its outgoing forms (section 3.3).

This is the hot path. A received message is two or three slices of the bytes read. If its outgoing form is the same,
all subscribers are sent these slices.
"""

from __future__ import annotations

from typing import Any, ClassVar, final

from mypy_extensions import i64, mypyc_attr

from protocol.errors import MalformedPacket, ProtocolError
from protocol.packet import Packet
from protocol.packet_types import PUBLISH
from protocol.primitives import ONE_BYTE, encode_packet_id, read_packet_id
from protocol.properties import SUBSCRIPTION_IDENTIFIER, TOPIC_ALIAS, Properties, decode_properties
from protocol.publish_encoder import (
    DUP,
    encode_outgoing_properties,
    encode_publish,
    head,
    join,
    whole,
    with_dup,
    without_dup,
)
from protocol.topics import validate_topic_name

__all__ = ["Publish", "decode_publish", "encode_publish", "with_dup"]


@mypyc_attr(acyclic=True, free_list_len=1)  # messages that come one at a time use it again
@final
class Publish(Packet):
    """An application message.

    `topic` is UTF-8 as on the wire and `size` is the length of the payload. Before it calls `at`, the broker sets
    `received_at` and `expires_at` (microseconds of a monotonic clock, 0 = unset, never), `holder`, the object that
    counts the places which hold the message's deliveries, and `flow`, a number for who has published it (0 = unset).

    The outgoing forms have this object's QoS and RETAIN, DUP clear, no topic alias and the subscription
    identifiers in `identifiers` (encoded properties, for one subscriber; empty = none). `frame4` and `frame5`
    are, at QoS 0, the whole packet; at QoS 1 and 2 all that comes before the packet identifier, and then
    `rest4` and `rest5` are all that comes after it. None: not built yet. frame5 has the Message Expiry Interval as
    received; `delivery` reduces it.
    """

    __slots__ = (
        "_variant",
        "_wire",
        "dup",
        "expires_at",
        "flow",
        "frame4",
        "frame5",
        "holder",
        "identifiers",
        "packet_id",
        "properties",
        "qos",
        "received_at",
        "rest4",
        "rest5",
        "retain",
        "size",
        "topic",
    )

    packet_type: ClassVar[int] = PUBLISH
    fields: ClassVar[tuple[str, ...]] = (
        "topic",
        "payload",
        "qos",
        "retain",
        "properties",
        "packet_id",
        "dup",
    )

    def __init__(
        self,
        topic: bytes,
        payload: bytes,
        qos: i64 = 0,
        retain: bool = False,
        properties: Properties | None = None,
        packet_id: i64 = 0,
        dup: bool = False,
    ) -> None:
        self.topic: bytes = topic
        self.qos: i64 = qos
        self.retain: bool = retain
        self.dup: bool = dup
        self.packet_id: i64 = packet_id
        self.properties: Properties | None = properties
        self.size: i64 = len(payload)
        self.received_at: i64 = 0
        self.expires_at: i64 = 0
        self.flow: i64 = 0
        self.holder: object | None = None
        self.identifiers: bytes = b""
        self.frame4: bytes | None = None
        self.frame5: bytes | None = None
        self.rest4: bytes | None = None
        self.rest5: bytes | None = None
        self._wire: bytes = payload  # its last `size` bytes are the payload
        self._variant: Publish | None = None  # what `at` has returned, as a linked list

    @property
    def payload(self) -> bytes:
        """The application message itself; sliced at each call unless it is a separate object."""
        wire = self._wire
        start = len(wire) - self.size
        return wire if start == 0 else wire[start:]

    def build4(self) -> bytes:
        """Fill frame4 (and rest4) for MQTT 3.1.1 subscribers; returns frame4."""
        topic = self.topic
        first = 0x30 | self.qos << 1 | (1 if self.retain else 0)
        if self.qos == 0:
            frame = whole(first, topic, b"", self._wire, self.size)
        else:
            if self.rest4 is None:
                self.rest4 = self.payload
            frame = head(first, topic, len(topic) + 4 + self.size)
        self.frame4 = frame
        return frame

    def build5(self) -> bytes:
        """Fill frame5 (and rest5) for MQTT 5 subscribers; returns frame5."""
        topic = self.topic
        first = 0x30 | self.qos << 1 | (1 if self.retain else 0)
        rest = self.rest5
        if self.qos == 0:
            if rest is not None:
                frame = whole(first, topic, b"", rest, len(rest))
            else:
                block = encode_outgoing_properties(self.properties, self.identifiers)
                frame = whole(first, topic, block, self._wire, self.size)
        else:
            if rest is None:
                rest = join(encode_outgoing_properties(self.properties, self.identifiers), self._wire, self.size)
                self.rest5 = rest
            frame = head(first, topic, len(topic) + 4 + len(rest))
        self.frame5 = frame
        return frame

    def at(self, qos: i64, retain: bool) -> Publish:
        """Return the same message for sending with another QoS or RETAIN flag.

        The result is cached, so all subscribers with that QoS and flag share one object, its frames and the
        payload. Its packet identifier is 0 and its DUP clear.
        """
        if qos == self.qos and retain == self.retain:
            return self
        variant = self._variant
        while variant is not None:
            if variant.qos == qos and variant.retain == retain:
                return variant
            variant = variant._variant
        variant = self._derive(qos, retain)
        variant._variant = self._variant
        self._variant = variant
        return variant

    def identified(self, identifiers: bytes) -> Publish:
        """Return the same message for one subscriber, with its subscription identifiers (`encode_identifiers`)."""
        own = Publish(self.topic, self._wire, self.qos, self.retain, self.properties)
        own.size = self.size
        own.received_at = self.received_at
        own.expires_at = self.expires_at
        own.flow = self.flow
        own.holder = self.holder
        own.identifiers = identifiers
        own.frame4 = self.frame4
        own.rest4 = self.rest4
        return own

    def renamed(self, topic: bytes, properties: Properties | None, more: bytes) -> Publish:
        """Return the same message for one subscriber, under another topic and with other properties.

        `more` are encoded properties that this delivery has besides.
        """
        own = self.identified(more)
        own.topic = topic
        own.properties = properties
        own.frame4 = None
        return own

    def copy(self) -> Publish:
        """Return the same delivery as an object of its own, which shares the payload and the frames built so far."""
        if self.rest4 is None:
            self.rest4 = self.payload
        own = self.identified(self.identifiers)
        own.frame5 = self.frame5
        own.rest5 = self.rest5
        return own

    def rename(self, topic: bytes) -> None:
        """Change the topic of a message that was received, before anything is derived from this object."""
        self.topic = topic
        self.frame4 = None
        self.frame5 = None

    def trim(self) -> None:
        """Keep the payload only of the bytes that were read, before anything is derived from this object."""
        if self.rest4 is None:
            self.rest4 = self.payload
        self._wire = self.rest4

    def forget_frames(self) -> None:
        """Keep the payload only, once: it waits, and its frames are built again when it is sent."""
        self.trim()
        self.frame4 = None
        self.frame5 = None
        self.rest5 = None

    def is_copy_of(self, other: Publish) -> bool:
        """Whether both are the same message, whatever their QoS, flags and identifiers."""
        return (
            self._wire is other._wire
            and self.topic == other.topic
            and self.properties is other.properties
            and self.received_at == other.received_at
        )

    def _derive(self, qos: i64, retain: bool) -> Publish:
        variant = Publish(self.topic, self._wire, qos, retain, self.properties)
        variant.size = self.size
        variant.received_at = self.received_at
        variant.expires_at = self.expires_at
        variant.flow = self.flow
        variant.holder = self.holder
        # What follows the packet identifier is the same at every QoS; at QoS 0 build5 begins with it too.
        variant.rest4 = self.rest4
        variant.rest5 = self.rest5
        if (qos == 0) == (self.qos == 0):  # the same layout: only the first byte differs
            first = ONE_BYTE[0x30 | qos << 1 | (1 if retain else 0)]
            if self.frame4 is not None:
                variant.frame4 = join(first, self.frame4, len(self.frame4) - 1)
            if self.frame5 is not None:
                variant.frame5 = join(first, self.frame5, len(self.frame5) - 1)
        return variant

    def encode(self, version: int) -> bytes:
        """Return the packet unchanged: its own packet identifier, DUP, RETAIN and all properties."""
        return encode_publish(
            self.topic,
            self.payload,
            self.qos,
            self.retain,
            self.dup,
            self.packet_id,
            self.properties,
            version,
        )

    def delivery(self, topic: bytes, more: bytes, expiry: int) -> tuple[bytes, bytes, bytes]:
        """Return what comes before the packet identifier and after it, and the payload, for one MQTT 5 subscriber.

        For deliveries that cannot use the shared frames: `topic` is empty if an alias replaces it, `more` are the
        encoded properties of this delivery, `expiry` is what is left of the Message Expiry Interval in seconds, -1 = as
        received [MQTT-3.3.2-6].
        """
        payload = self.rest4
        if payload is None:
            payload = self.rest4 = self.payload  # shared by all such deliveries
        block = encode_outgoing_properties(self.properties, more, expiry)
        first = 0x30 | self.qos << 1 | (1 if self.retain else 0)
        remaining = len(topic) + (4 if self.qos else 2) + len(block) + self.size
        return head(first, topic, remaining), block, payload

    def encode_resent(self, version: int, packet_id: int, expiry: int) -> bytes:
        """Return the whole packet with DUP set, for a subscriber that has been sent it before [MQTT-3.3.1-1]."""
        if version != 5:
            return encode_publish(self.topic, self.payload, self.qos, self.retain, True, packet_id, None, version)
        before, block, payload = self.delivery(self.topic, self.identifiers, expiry)
        return b"".join((with_dup(before), encode_packet_id(packet_id, "PUBLISH"), block, payload))


def decode_publish(
    data: bytes,
    start: i64,
    position: i64,
    end: i64,
    version: i64,
    known_topics: dict[bytes, Any],
    last_topic: bytes,
) -> Publish:
    """Read the PUBLISH at data[start:end], whose variable header begins at `position`.

    `last_topic` and all in `known_topics` are valid topic names and are not checked again.
    """
    first: i64 = data[start]
    qos: i64 = first >> 1 & 3
    if first & 0x0E == 0x08 or qos == 3:
        raise _bad_flags(first)
    before_id: i64 = position + 2 + (data[position] << 8 | data[position + 1] if position + 2 <= end else 0)
    if before_id > end:
        raise _cut_off(position, before_id, end)
    topic = data[position + 2 : before_id]
    position = before_id
    packet_id: i64 = 0
    if qos != 0:
        packet_id = data[position] << 8 | data[position + 1] if position + 2 <= end else 0
        packet_id = packet_id or read_packet_id(data, position, end, "PUBLISH packet identifier")  # raises
        position += 2
    wire_from: i64 = position if qos != 0 else start
    shared = True  # whether the bytes from there on are passed on unchanged
    properties: Properties | None = None
    if version == 5:
        if position < end and data[position] == 0:
            position += 1
        else:
            properties, position = decode_properties(data, position, end, PUBLISH)
            if properties is not None and (TOPIC_ALIAS in properties or SUBSCRIPTION_IDENTIFIER in properties):
                wire_from, shared = position, False
    if topic == last_topic:
        topic = last_topic  # one shared object: its hash is cached, and queues need less memory
    elif topic not in known_topics:
        _check_topic(topic, version, properties)
    # A packet joined from two chunks is a separate object already: no copy needed.
    wire = data if end - wire_from == len(data) else data[wire_from:end]
    publish = Publish(topic, wire, qos, first & 1 == 1, properties, packet_id, first & DUP != 0)
    publish.size = end - position
    if shared:  # the received bytes are the outgoing frames
        frame = wire if qos == 0 else data[start:before_id]
        if publish.dup:
            frame = without_dup(frame)
        rest = None if qos == 0 else wire
        if version == 5:
            publish.frame5, publish.rest5 = frame, rest
        else:
            publish.frame4, publish.rest4 = frame, rest
    return publish


def _check_topic(topic: bytes, version: int, properties: Properties | None) -> None:
    if topic == b"" and version == 5:
        if properties is None or TOPIC_ALIAS not in properties:  # section 3.3.2.1
            raise ProtocolError("PUBLISH topic name: is empty, and no Topic Alias stands for it")
        return  # whether the alias is known is checked later
    validate_topic_name(topic)


def _bad_flags(first: int) -> MalformedPacket:
    if first & 0x06 == 0x06:  # [MQTT-3.3.1-4]
        return MalformedPacket("PUBLISH flags: QoS is 3, but must be 0, 1 or 2")
    return MalformedPacket("PUBLISH flags: DUP is set at QoS 0")  # [MQTT-3.3.1-2]


def _cut_off(position: int, before_id: int, end: int) -> MalformedPacket:
    """The error for a topic name at `position` that would end at `before_id`, after the end of the packet."""
    start = position + 2
    if start > end:
        what, needed, left = "topic name length", 2, end - position
    else:
        what, needed, left = "topic name", before_id - start, end - start
    return MalformedPacket(f"PUBLISH {what}: needs {needed} bytes, but only {left} are left in the packet")
