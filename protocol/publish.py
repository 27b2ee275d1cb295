"""PUBLISH: one application message, and its outgoing forms (section 3.3).

This is the hot path. A received message is two or three slices of what was read, and where it goes out as it
came in, those slices are what is sent: to every subscriber the same objects.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, final

from protocol.errors import MalformedPacket, ProtocolError
from protocol.packet import Packet
from protocol.packet_types import PUBLISH
from protocol.primitives import encode_packet_id, encode_variable_byte_integer
from protocol.properties import (
    MESSAGE_EXPIRY_INTERVAL,
    SUBSCRIPTION_IDENTIFIER,
    TOPIC_ALIAS,
    Properties,
    decode_properties,
    encode_properties,
)
from protocol.topics import validate_topic_name

_DUP: Final = 0x08

# Below this a second copy of the payload is cheaper than the memoryview that avoids it.
_COPY_LIMIT: Final = 2048


@final
class Publish(Packet):
    """An application message.

    `topic` is UTF-8 as on the wire and `size` is the length of the payload. `received_at` and `expires_at`
    (microseconds of a monotonic clock, 0 = unset, never) and `publisher` are for the broker to set; it does
    so before it calls `at`.

    The outgoing forms have this object's QoS and RETAIN, DUP clear, no topic alias and no subscription
    identifier. `frame4` and `frame5` are, at QoS 0, the whole packet; at QoS 1 and 2 all that comes before
    the packet identifier, and then `rest4` and `rest5` are all that comes after it. None: not built yet. A
    Message Expiry Interval is in frame5 as it was received: who sends later than that uses `encode_delivery`.
    """

    __slots__ = (
        "_variant",
        "_wire",
        "dup",
        "expires_at",
        "frame4",
        "frame5",
        "packet_id",
        "properties",
        "publisher",
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
        qos: int = 0,
        retain: bool = False,
        properties: Properties | None = None,
        packet_id: int = 0,
        dup: bool = False,
    ) -> None:
        self.topic: bytes = topic
        self.qos: int = qos
        self.retain: bool = retain
        self.dup: bool = dup
        self.packet_id: int = packet_id
        self.properties: Properties | None = properties
        self.size: int = len(payload)
        self.received_at: int = 0
        self.expires_at: int = 0
        self.publisher: object | None = None
        self.frame4: bytes | None = None
        self.frame5: bytes | None = None
        self.rest4: bytes | None = None
        self.rest5: bytes | None = None
        self._wire: bytes = payload  # its last `size` bytes are the payload
        self._variant: Publish | None = None  # what `at` has made, as a chain

    @property
    def payload(self) -> bytes:
        """The application message itself; sliced at each call unless it is an object of its own."""
        wire = self._wire
        start = len(wire) - self.size
        return wire if start == 0 else wire[start:]

    def build4(self) -> bytes:
        """Fill frame4 (and rest4) for MQTT 3.1.1 subscribers; returns frame4."""
        topic = self.topic
        first = 0x30 | self.qos << 1 | (1 if self.retain else 0)
        if self.qos == 0:
            frame = _join(_head(first, topic, len(topic) + 2 + self.size), self._wire, self.size)
        else:
            if self.rest4 is None:
                self.rest4 = self.payload
            frame = _head(first, topic, len(topic) + 4 + self.size)
        self.frame4 = frame
        return frame

    def build5(self) -> bytes:
        """Fill frame5 (and rest5) for MQTT 5 subscribers; returns frame5."""
        topic = self.topic
        first = 0x30 | self.qos << 1 | (1 if self.retain else 0)
        rest = self.rest5
        if self.qos == 0:
            if rest is not None:
                frame = _head(first, topic, len(topic) + 2 + len(rest)) + rest
            else:
                block = _outgoing_properties(self.properties)
                head = _head(first, topic, len(topic) + 2 + len(block) + self.size)
                frame = _join(head + block, self._wire, self.size)
        else:
            if rest is None:
                rest = _join(_outgoing_properties(self.properties), self._wire, self.size)
                self.rest5 = rest
            frame = _head(first, topic, len(topic) + 4 + len(rest))
        self.frame5 = frame
        return frame

    def at(self, qos: int, retain: bool) -> Publish:
        """Return the same message as it goes out at another QoS or RETAIN flag.

        What was made once is kept, so all subscribers at that level share one object, its frames and the
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

    def _derive(self, qos: int, retain: bool) -> Publish:
        variant = Publish(self.topic, self._wire, qos, retain, self.properties)
        variant.size = self.size
        variant.received_at = self.received_at
        variant.expires_at = self.expires_at
        variant.publisher = self.publisher
        # What follows the packet identifier is the same at every QoS; at QoS 0 build5 begins with it too.
        variant.rest4 = self.rest4
        variant.rest5 = self.rest5
        if (qos == 0) == (self.qos == 0):  # the same shape: only the first byte differs
            first = bytes((0x30 | qos << 1 | (1 if retain else 0),))
            if self.frame4 is not None:
                variant.frame4 = _join(first, self.frame4, len(self.frame4) - 1)
            if self.frame5 is not None:
                variant.frame5 = _join(first, self.frame5, len(self.frame5) - 1)
        return variant

    def encode(self, version: int) -> bytes:
        """Return the packet as it stands: its own packet identifier, DUP, RETAIN and all properties."""
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

    def encode_delivery(
        self,
        version: int,
        packet_id: int,
        dup: bool,
        expiry: int = -1,
        subscription_identifiers: list[int] | None = None,
        topic_alias: int = 0,
        with_topic: bool = True,
    ) -> bytes:
        """Return the whole packet for one subscriber where the shared frames do not serve.

        `expiry` is what is left of the Message Expiry Interval in seconds, -1 = as it was received
        [MQTT-3.3.2-6]. Without the topic, `topic_alias` stands for it. All but the packet identifier and DUP
        is for version 5 only.
        """
        if version != 5:
            return encode_publish(
                self.topic, self.payload, self.qos, self.retain, dup, packet_id, None, version
            )
        properties: Properties = {}
        if self.properties is not None:
            properties.update(self.properties)
            properties.pop(TOPIC_ALIAS, None)
            properties.pop(SUBSCRIPTION_IDENTIFIER, None)
        if expiry >= 0:
            properties[MESSAGE_EXPIRY_INTERVAL] = expiry
        if subscription_identifiers:
            properties[SUBSCRIPTION_IDENTIFIER] = subscription_identifiers
        if topic_alias:
            properties[TOPIC_ALIAS] = topic_alias
        topic = self.topic if with_topic else b""
        return encode_publish(topic, self.payload, self.qos, self.retain, dup, packet_id, properties, version)


def with_dup(frame: bytes) -> bytes:
    """Return a frame of QoS 1 or 2 with DUP set, for sending again [MQTT-3.3.1-1]."""
    return bytes((frame[0] | _DUP,)) + frame[1:]


def encode_publish(
    topic: bytes,
    payload: bytes,
    qos: int,
    retain: bool,
    dup: bool,
    packet_id: int,
    properties: Properties | None,
    version: int,
) -> bytes:
    """Return any PUBLISH as bytes; ValueError if it cannot be one."""
    if not 0 <= qos <= 2 or (qos == 0 and dup):
        raise ValueError(f"PUBLISH: QoS is 0, 1 or 2, and DUP not set at QoS 0; not QoS {qos}, DUP {dup}")
    middle = encode_packet_id(packet_id, "PUBLISH") if qos else b""
    if version == 5:
        middle += encode_properties(properties, PUBLISH)
    first = 0x30 | (_DUP if dup else 0) | qos << 1 | (1 if retain else 0)
    return b"".join((_head(first, topic, 2 + len(topic) + len(middle) + len(payload)), middle, payload))


def _head(first: int, topic: bytes, remaining: int) -> bytes:
    """Return the fixed header and the topic name."""
    if len(topic) > 65_535:
        raise ValueError(f"PUBLISH: a topic name has at most 65535 bytes, not {len(topic)}")
    return bytes((first,)) + encode_variable_byte_integer(remaining) + len(topic).to_bytes(2, "big") + topic


def _join(head: bytes, wire: bytes, size: int) -> bytes:
    """Return head and the last `size` bytes of wire, copying them once only."""
    start = len(wire) - size
    if start == 0:
        return head + wire
    if size < _COPY_LIMIT:
        return head + wire[start:]
    return b"".join((head, memoryview(wire)[start:]))


def _outgoing_properties(properties: Properties | None) -> bytes:
    """Encode what goes on to subscribers: aliases and subscription identifiers belong to one connection."""
    if properties is None:
        return b"\0"
    if TOPIC_ALIAS in properties or SUBSCRIPTION_IDENTIFIER in properties:
        properties = dict(properties)
        properties.pop(TOPIC_ALIAS, None)
        properties.pop(SUBSCRIPTION_IDENTIFIER, None)
    return encode_properties(properties, PUBLISH)


def decode_publish(
    data: bytes, start: int, position: int, end: int, version: int, known_topics: dict[bytes, Any]
) -> Publish:
    """Read the PUBLISH at data[start:end], whose variable header begins at `position`.

    A topic in `known_topics` is valid already and not looked at again.
    """
    first = data[start]
    qos = first >> 1 & 3
    if first & 0x0E == 0x08 or qos == 3:
        raise _bad_flags(first)
    topic_start = position + 2
    if topic_start > end:
        raise _cut_off("topic name length", 2, end - position)
    before_id = topic_start + (data[position] << 8 | data[position + 1])
    if before_id > end:
        raise _cut_off("topic name", before_id - topic_start, end - topic_start)
    topic = data[topic_start:before_id]
    packet_id = 0
    position = before_id
    if qos != 0:
        position += 2
        if position > end:
            raise _cut_off("packet identifier", 2, end - before_id)
        packet_id = data[before_id] << 8 | data[before_id + 1]
        if packet_id == 0:  # [MQTT-2.2.1-3] (3.1.1: [MQTT-2.3.1-1])
            raise ProtocolError("PUBLISH packet identifier: is 0, but must be 1 to 65535")
    after_id = position
    properties: Properties | None = None
    as_is = True
    if version == 5:
        if position < end and data[position] == 0:
            position += 1
        else:
            properties, position = decode_properties(data, position, end, PUBLISH)
            as_is = properties is None or not (
                TOPIC_ALIAS in properties or SUBSCRIPTION_IDENTIFIER in properties
            )
    if topic not in known_topics:
        _check_topic(topic, version, properties)
    if not as_is:
        after_id = position
    elif qos == 0:
        after_id = start
    # A packet that was put together from two chunks is one object already: no need to copy it.
    wire = data if end - after_id == len(data) else data[after_id:end]
    publish = Publish(topic, wire, qos, first & 1 == 1, properties, packet_id, first & _DUP != 0)
    publish.size = end - position
    if as_is:
        if qos == 0:
            if version == 5:
                publish.frame5 = wire
            else:
                publish.frame4 = wire
        else:
            frame = data[start:before_id] if first & _DUP == 0 else _without_dup(data[start:before_id])
            if version == 5:
                publish.frame5 = frame
                publish.rest5 = wire
            else:
                publish.frame4 = frame
                publish.rest4 = wire
    return publish


def _check_topic(topic: bytes, version: int, properties: Properties | None) -> None:
    if topic == b"" and version == 5:
        if properties is None or TOPIC_ALIAS not in properties:  # section 3.3.2.1
            raise ProtocolError("PUBLISH topic name: is empty, and no Topic Alias stands for it")
        return  # whether the alias is known is for the session to say
    validate_topic_name(topic)


def _without_dup(frame: bytes) -> bytes:
    return bytes((frame[0] & ~_DUP,)) + frame[1:]


def _bad_flags(first: int) -> MalformedPacket:
    if first & 0x06 == 0x06:  # [MQTT-3.3.1-4]
        return MalformedPacket("PUBLISH flags: QoS is 3, but must be 0, 1 or 2")
    return MalformedPacket("PUBLISH flags: DUP is set at QoS 0")  # [MQTT-3.3.1-2]


def _cut_off(what: str, needed: int, left: int) -> MalformedPacket:
    return MalformedPacket(f"PUBLISH {what}: needs {needed} bytes, but only {left} are left in the packet")
