"""The record of a message: how it is encoded and read. All others are in records.py.

```
body      flags (1 byte), length of the topic (2); by the flags: when it expires (8), publisher's client id (text),
          count (4); so many targets, or one; topic; by the flags: properties, as in a PUBLISH of MQTT 5; payload
target    QoS and RETAIN (1), length of the identifiers (3), session (4), delivery (8), subscription identifiers
```
It is the record that is written most, so it is made of few pieces and numbers.
"""

import struct
from typing import Final

from broker.storage.records import HEAD_SIZE, MESSAGE, TEXT, DamagedError, read_text
from broker.storage.saved_message import SavedMessage, ScannedMessage, Target
from protocol.publish import Publish
from protocol.publish_encoder import encode_outgoing_properties

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

_HEAD: Final = struct.Struct(">BI")
_FIXED: Final = struct.Struct(">BH")
_FIXED_SIZE: Final[int] = _FIXED.size
_TARGET: Final = struct.Struct(">IIQ")
_TIME: Final = struct.Struct(">Q")
_COUNT: Final = struct.Struct(">I")


# -- encoding


def target(session: int, delivery: int, publish: Publish) -> bytes:
    """One delivery of a message."""
    identifiers = publish.identifiers
    options = publish.qos | (4 if publish.retain else 0)
    fixed = (options << 56 | len(identifiers) << 32 | session).to_bytes(8, "big") + delivery.to_bytes(8, "big")
    return fixed + identifiers if identifiers else fixed


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
    written = [
        _TARGET.pack((each.qos | (4 if each.retain else 0)) << 24 | len(each.identifiers), each.session, each.delivery)
        + each.identifiers
        for each in targets
    ]
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
    # The head of the record and the fixed part of its body are one number: that is the cheapest way to write them.
    pieces.append((MESSAGE << 56 | length << 24 | flags << 16 | len(topic)).to_bytes(8, "big"))
    if more:
        pieces.append(more)
    pieces.extend(targets)
    pieces.append(topic)
    if properties:
        pieces.append(properties)
    pieces.append(payload)
    return HEAD_SIZE + length


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


def scan(content: bytes, start: int, end: int) -> ScannedMessage:
    """The same of the body between two positions, without what is not needed of a message that stays on disk."""
    flags, _, _, targets, topic_at, payload_at, topic_end = _read(content, start, end)
    found = [(own, delivery, options >> 24 & 3) for own, delivery, options, _ in targets]
    return ScannedMessage(flags & RETAINED != 0, found, end - payload_at, topic_at, topic_end)


def _target(body: bytes, own: int, delivery: int, options: int, position: int) -> Target:
    identifiers = body[position : position + (options & 0xFFFFFF)]
    return Target(own, delivery, options >> 24 & 3, options & 4 << 24 != 0, identifiers)


def _read(content: bytes, start: int, end: int) -> tuple[int, int, str, list[tuple[int, int, int, int]], int, int, int]:
    """Flags, expiry, publisher, targets; where topic and payload begin, and where the topic ends.

    Targets are session, delivery, options and length of the identifiers, and where these are.
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
