"""The record of a message: how it is encoded and read. All others are in records.py.

```
body      flags (1 byte), length of the topic (2); by the flags: when it expires (8), publisher's client id (text),
          count (4); so many targets, or one; topic; by the flags: properties, as in a PUBLISH of MQTT 5; payload
target    QoS, RETAIN, PULLED, FLOW (1), length of what follows the delivery (3), session (4), delivery (8); with PULLED
          the group (4); with FLOW that of the publisher (4); subscription identifiers
```
It is the record that is written most, so it is made of few pieces and numbers.
"""

import struct
from typing import Final, final

from mypy_extensions import i64

from broker.storage.records import HEAD_SIZE, MESSAGE, TEXT, DamagedError, read_text
from broker.storage.saved_message import SavedMessage, ScannedMessage, Target
from protocol.publish import Publish
from protocol.publish_encoder import encode_outgoing_properties
from session.flows import KEPT
from session.outbox import PACKET_ID as TWO_BYTES

# Flags, beside the QoS in the lowest two bits.
RETAIN: Final = 4
"""RETAIN is set."""
RETAINED: Final = 8
"""It is its topic's retained message."""
EXPIRES: Final = 16
PROPERTIES: Final = 32
SEVERAL: Final = 64
"""It has a count of targets; else there is one."""
PUBLISHER: Final = 128

# Of a target, beside the QoS in the lowest two bits.
_TARGET_RETAIN: Final = 4
_TARGET_PULLED: Final = 8
"""The session has pulled it from a group (FC-13)."""
_TARGET_FLOW: Final = 16
"""A queue is fair between flows (FC-33)."""
_PULLED: Final = _TARGET_PULLED << 24
_FLOW: Final = _TARGET_FLOW << 24

MOST_STARTS: Final = 4096

_HEAD: Final = struct.Struct(">BI")
_FIXED: Final = struct.Struct(">BH")
_FIXED_SIZE: Final[int] = _FIXED.size
_TARGET: Final = struct.Struct(">IIq")
_DELIVERY: Final = struct.Struct(">q")
_PLAIN: Final = struct.Struct(">BIBHIIq")
"""The head of a record, the fixed part of its body, and a target."""
_PLAIN_SIZE: Final[int] = _PLAIN.size
_TIME: Final = struct.Struct(">Q")
_COUNT: Final = struct.Struct(">I")
_NUMBER: Final = struct.Struct(">I")
"""A group, or a flow."""


# -- encoding


def target(session: int, delivery: int, publish: Publish, group: int = 0) -> bytes:
    """One delivery of a message; `group`: the number of the one that the session has pulled it from, 0 = none."""
    qos, retain, identifiers = publish.qos, publish.retain, publish.identifiers
    return _encode_target(session, delivery, qos, retain, identifiers, group, publish.flow & KEPT)


def _encode_target(
    session: int, delivery: int, qos: int, retain: bool, identifiers: bytes, group: int, flow: int
) -> bytes:
    options = qos | (_TARGET_RETAIN if retain else 0)
    more = identifiers
    if flow:
        options |= _TARGET_FLOW
        more = flow.to_bytes(4, "big") + more
    if group:
        options |= _TARGET_PULLED
        more = group.to_bytes(4, "big") + more
    fixed = (options << 56 | len(more) << 32 | session).to_bytes(8, "big") + _DELIVERY.pack(delivery)
    return fixed + more if more else fixed


@final
class Targets:
    """Encodes deliveries of one queue. All but two bytes, and the flow, are mostly those of the delivery before."""

    def __init__(self, session: int) -> None:
        self._session = session
        self._options = -1
        self._high = -1
        self._start = b""
        self._flow: i64 = 0
        self._end = b""

    def encode(self, delivery: int, publish: Publish) -> bytes:
        """The same as `target`."""
        if publish.identifiers:
            return target(self._session, delivery, publish)
        flow = publish.flow & KEPT
        options = publish.qos | (_TARGET_RETAIN if publish.retain else 0) | (_TARGET_FLOW if flow else 0)
        high = delivery >> 16
        if options != self._options or high != self._high:
            self._options = options
            self._high = high
            self._start = target(self._session, delivery, publish)[: _TARGET.size - 2]
        if not flow:
            return self._start + TWO_BYTES[delivery & 0xFFFF]
        if flow != self._flow:
            self._flow = flow
            self._end = _NUMBER.pack(flow)
        return self._start + TWO_BYTES[delivery & 0xFFFF] + self._end


def encode(
    pieces: list[bytes], publish: Publish, expires_at: int, retained: bool, publisher: str, targets: list[bytes]
) -> int:
    """A message with its deliveries, in pieces, so that nothing is copied; returns how many bytes these are.

    `publisher` is empty if nobody will ask for it.
    """
    payload = publish.rest4
    if payload is None:
        payload = publish.payload
    flags = publish.qos | (RETAIN if publish.retain else 0) | (RETAINED if retained else 0)
    properties = b""
    if publish.properties:
        flags |= PROPERTIES
        properties = encode_outgoing_properties(publish.properties)
    return _encode(pieces, flags, expires_at, publisher, targets, publish.topic, properties, payload)


def moved(saved: SavedMessage, retained: bool, targets: list[Target]) -> bytes:
    """A message that is written again, with those of its deliveries that are not done."""
    flags = saved.qos | (RETAIN if saved.retain else 0) | (RETAINED if retained else 0)
    flags |= PROPERTIES if saved.properties else 0
    written = [_encode_target(*each) for each in targets]
    pieces: list[bytes] = []
    _encode(pieces, flags, saved.expires_at, saved.publisher, written, saved.topic, saved.properties, saved.payload)
    return b"".join(pieces)


def _encode(  # noqa: PLR0913, PLR0917 - one for each field of the record
    pieces: list[bytes],
    flags: int,
    expires_at: int,
    publisher: str,
    targets: list[bytes],
    topic: bytes,
    properties: bytes,
    payload: bytes,
) -> int:
    more = b""
    if expires_at:
        flags |= EXPIRES
        more = _TIME.pack(expires_at)
    if publisher:
        flags |= PUBLISHER
        name = publisher.encode()
        more += TEXT.pack(len(name)) + name
    if len(targets) != 1:
        flags |= SEVERAL
        more += _COUNT.pack(len(targets))
    length = _FIXED_SIZE + len(more) + len(topic) + len(properties) + len(payload)
    for each in targets:
        length += len(each)
    pieces.append(_STARTS.encode(length << 24 | flags << 16 | len(topic)))
    if more:
        pieces.append(more)
    for each in targets:
        pieces.append(each)  # compiled, `extend` costs more for one or two
    pieces.append(topic)
    if properties:
        pieces.append(properties)
    pieces.append(payload)
    return HEAD_SIZE + length


@final
class _Starts:
    """Encodes heads of records with the fixed parts of their bodies. Few are different, and many as the one before."""

    def __init__(self) -> None:
        self._known: dict[int, bytes] = {}
        self._last = -1
        self._start = b""

    def encode(self, fixed: int) -> bytes:
        """`fixed`: all of it but the kind, as one number."""
        if fixed != self._last:
            start = self._known.get(fixed)
            if start is None:
                if len(self._known) == MOST_STARTS:
                    self._known.clear()
                start = self._known[fixed] = (MESSAGE << 56 | fixed).to_bytes(8, "big")
            self._last = fixed
            self._start = start
        return self._start


_STARTS: Final = _Starts()


# -- reading


def length_of(head: bytes) -> int:
    """The length of MESSAGE's body, by the HEAD_SIZE bytes before it. Raises DamagedError."""
    if len(head) == HEAD_SIZE:
        kind, length = _HEAD.unpack(head)
        if kind == MESSAGE:
            return int(length)
    raise DamagedError("a message is not where it was written")


def read(body: bytes) -> SavedMessage:
    """The body of MESSAGE. Raises DamagedError."""
    flags, expires_at, publisher, targets, topic_at, payload_at, topic_end = _read(body, 0, len(body))
    return SavedMessage(
        expires_at,
        flags & RETAINED != 0,
        publisher,
        [_target(body, *each) for each in targets],
        flags & 3,
        flags & RETAIN != 0,
        body[topic_at:topic_end],
        body[topic_end:payload_at],
        body[payload_at:],
    )


def pulled_from(body: bytes, session: int, delivery: int) -> int:
    """The group from which the session has pulled this delivery, in the body of MESSAGE; 0 = it has not."""
    for own, number, options, position in _read(body, 0, len(body))[3]:
        if own == session and number == delivery:
            return _group_and_flow(body, options, position)[0]
    return 0


def scan(content: bytes, start: int, end: int) -> ScannedMessage:
    """The same of the body between two positions, without what is not needed of a message that stays on disk."""
    flags, _, _, targets, topic_at, payload_at, topic_end = _read(content, start, end)
    found = [
        (own, delivery, options >> 24 & 3, *_group_and_flow(content, options, position))
        for own, delivery, options, position in targets
    ]
    return ScannedMessage(flags & RETAINED != 0, found, end - payload_at, topic_at, topic_end)


def scan_plain(content: bytes, position: int) -> tuple[int, int, int, int, int]:
    """Scan the record there if it is a MESSAGE with one delivery and nothing optional, as most are.

    Where it ends, session, delivery, QoS, payload bytes. It ends at 0 if it is another one, or damaged.
    """
    if len(content) - position < _PLAIN_SIZE:
        return 0, 0, 0, 0, 0
    kind, length, flags, topic_length, options, own, delivery = _PLAIN.unpack_from(content, position)
    end: int = position + HEAD_SIZE + length
    size: int = end - (position + _PLAIN_SIZE + (options & 0xFFFFFF) + topic_length)
    if kind != MESSAGE or flags >= RETAINED or options & _PULLED or size < 0 or end > len(content):
        return 0, 0, 0, 0, 0
    return end, own, delivery, options >> 24 & 3, size


def _target(body: bytes, own: int, delivery: int, options: int, position: int) -> Target:
    group, flow = _group_and_flow(body, options, position)
    end = position + (options & 0xFFFFFF)
    identifiers = body[position + _NUMBER.size * (bool(group) + bool(flow)) : end]
    return Target(own, delivery, options >> 24 & 3, options & _TARGET_RETAIN << 24 != 0, identifiers, group, flow)


def _group_and_flow(content: bytes, options: int, position: int) -> tuple[int, int]:
    """The group and the flow of a target; 0 = it has none."""
    group = flow = 0
    if options & _PULLED:
        (group,) = _NUMBER.unpack_from(content, position)
        position += _NUMBER.size
    if options & _FLOW:
        (flow,) = _NUMBER.unpack_from(content, position)
    return int(group), int(flow)


def _read(content: bytes, start: int, end: int) -> tuple[int, int, str, list[tuple[int, int, int, int]], int, int, int]:
    """Flags, expiry, publisher, targets; where topic and payload begin, and where the topic ends.

    Targets are session, delivery, options and length of what follows them, and where that is.
    """
    flags, topic_length = _FIXED.unpack_from(content, start)
    position = start + _FIXED_SIZE
    expires_at, publisher, count = 0, b"", 1
    if flags & EXPIRES:
        (expires_at,) = _TIME.unpack_from(content, position)
        position += _TIME.size
    if flags & PUBLISHER:
        publisher, position = read_text(content, position)
    if flags & SEVERAL:
        (count,) = _COUNT.unpack_from(content, position)
        position += _COUNT.size
    targets: list[tuple[int, int, int, int]] = []
    for _ in range(count):
        options, own, delivery = _TARGET.unpack_from(content, position)
        position += _TARGET.size
        targets.append((own, delivery, options, position))
        position += options & 0xFFFFFF
    topic_at, topic_end = position, position + topic_length
    payload_at = _after_properties(content, topic_end) if flags & PROPERTIES else topic_end
    if payload_at > end:
        raise DamagedError("a message is longer than its record")
    return flags, expires_at, publisher.decode(), targets, topic_at, payload_at, topic_end


def _after_properties(content: bytes, position: int) -> int:
    """Where the properties of a PUBLISH end, which begin at `position`."""
    length = shift = 0
    while content[position] & 0x80:
        length |= (content[position] & 0x7F) << shift
        shift += 7
        position += 1
    return position + 1 + (length | content[position] << shift)
