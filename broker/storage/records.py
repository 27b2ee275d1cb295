"""The records of the journal: how each is encoded and read.

```
record    kind (1 byte), length of the body (4), body
MESSAGE   message (8), expires at (8), flags (1), publisher's client id (text),
          count (4) and so many targets, then the PUBLISH of MQTT 5 with a placeholder as packet id
target    session (4), delivery (8), QoS and RETAIN (1), subscription identifiers (text)
text      length (4), bytes
```
All numbers are big-endian. Times are microseconds since 1970 UTC: a monotonic clock does not outlive the machine. A
session numbers its deliveries from 0, in their order.
"""

import struct
from collections.abc import Iterator
from typing import Final

from broker.storage.saved_message import SavedMessage, ScannedMessage, Target
from protocol.publish import Publish
from protocol.subscribe import Subscription

MESSAGE: Final = 1
SESSION: Final = 2
"""A session begins, or its whole state except its deliveries is written again."""
CONNECTED: Final = 3
DETACHED: Final = 4
ENDED: Final = 5
SUBSCRIBED: Final = 6
UNSUBSCRIBED: Final = 7
SENT: Final = 8
"""A delivery has got a packet id."""
RECEIVED: Final = 9
"""PUBREC has come for a delivery."""
DONE: Final = 10
"""Deliveries that are acknowledged, handed on or dropped, as ranges."""
REMEMBERED: Final = 11
"""A QoS 2 packet id of the client waits for PUBREL."""
FORGOTTEN: Final = 12
CLEARED: Final = 13
"""A topic has no retained message any more."""
GROUP: Final = 14
"""The queue of a shared subscription begins, or its state is written again."""
WILL: Final = 15
"""A session's will, which is published unless DETACHED says otherwise."""

RETAINED: Final = 1
"""Flag of MESSAGE: it is its topic's retained message."""

_HEAD: Final = struct.Struct(">BI")
_MESSAGE: Final = struct.Struct(">QQB")
_TARGET: Final = struct.Struct(">IQB")
_TEXT: Final = struct.Struct(">I")
_COUNT: Final = struct.Struct(">I")
_SESSION: Final = struct.Struct(">IBIQ")
_CONNECTED: Final = struct.Struct(">IBI")
_DETACHED: Final = struct.Struct(">IQI?")
_WILL: Final = struct.Struct(">II")
_NUMBER: Final = struct.Struct(">I")
_GROUP: Final = struct.Struct(">IQ")
_SUBSCRIBED: Final = struct.Struct(">IB")
_SENT: Final = struct.Struct(">IQH")
_RECEIVED: Final = struct.Struct(">IQ")
_RANGE: Final = struct.Struct(">QI")
_PACKET_ID: Final = struct.Struct(">IH")
_ANY_ID: Final = b"\0\1"
"""The placeholder for a packet id."""

HEAD_SIZE: Final[int] = _HEAD.size


class DamagedError(Exception):
    """What is read is not what was written."""


# -- encoding


def target(session: int, delivery: int, publish: Publish) -> bytes:
    """One delivery of a message."""
    options = publish.qos | (4 if publish.retain else 0)
    identifiers = publish.identifiers
    return _TARGET.pack(session, delivery, options) + _TEXT.pack(len(identifiers)) + identifiers


def message(
    number: int, publish: Publish, expires_at: int, retained: bool, publisher: str, targets: list[bytes]
) -> list[bytes]:
    """A message with its deliveries, in pieces: a large payload is not copied here."""
    name = publisher.encode()
    start, block, payload = publish.delivery(publish.topic, b"", -1)
    before = b"".join(
        (
            _MESSAGE.pack(number, expires_at, RETAINED if retained else 0),
            _TEXT.pack(len(name)),
            name,
            _COUNT.pack(len(targets)),
            *targets,
            start,
            _ANY_ID if publish.qos else b"",
            block,
        )
    )
    return [_HEAD.pack(MESSAGE, len(before) + len(payload)) + before, payload]


def moved(saved: SavedMessage, retained: bool, targets: list[Target]) -> bytes:
    """A message that is written again, with those of its deliveries that are not done."""
    name = saved.publisher.encode()
    parts = [
        _MESSAGE.pack(saved.number, saved.expires_at, RETAINED if retained else 0),
        _TEXT.pack(len(name)),
        name,
        _COUNT.pack(len(targets)),
    ]
    for one in targets:
        options = one.qos | (4 if one.retain else 0)
        parts.append(_TARGET.pack(one.session, one.delivery, options))
        parts.append(_TEXT.pack(len(one.identifiers)) + one.identifiers)
    return _record(MESSAGE, b"".join((*parts, saved.packet)))


def session(number: int, client_id: str, version: int, expiry: int, next_delivery: int) -> bytes:
    """A session of this client id begins; `next_delivery` is the number of its next delivery."""
    return _record(SESSION, _SESSION.pack(number, version, expiry, next_delivery) + client_id.encode())


def connected(number: int, version: int, expiry: int) -> bytes:
    """The client has connected to its kept session; `expiry`: its Session Expiry Interval in seconds."""
    return _record(CONNECTED, _CONNECTED.pack(number, version, expiry))


def detached(number: int, at: int, expiry: int, will: bool) -> bytes:
    """The client's connection has ended; `will`: its will is still to be published."""
    return _record(DETACHED, _DETACHED.pack(number, at, expiry, will))


def will(number: int, publish: Publish, delay: int) -> bytes:
    """The session's will, and its delay in seconds."""
    start, block, payload = publish.delivery(publish.topic, b"", -1)
    return saved_will(number, b"".join((start, _ANY_ID if publish.qos else b"", block, payload)), delay)


def saved_will(number: int, packet: bytes, delay: int) -> bytes:
    """The same, with the PUBLISH as bytes."""
    return _record(WILL, _WILL.pack(number, delay) + packet)


def group(number: int, name: str, next_delivery: int) -> bytes:
    """The queue of the shared subscription `$share/group/filter` begins; `next_delivery` as for a session."""
    return _record(GROUP, _GROUP.pack(number, next_delivery) + name.encode())


def ended(number: int) -> bytes:
    """The session has ended."""
    return _record(ENDED, _NUMBER.pack(number))


def subscribed(number: int, subscription: Subscription) -> bytes:
    """A subscription is new, or has new options."""
    identifiers = subscription.identifiers
    return _record(
        SUBSCRIBED,
        _SUBSCRIBED.pack(number, subscription.options(5))
        + _TEXT.pack(len(identifiers))
        + identifiers
        + subscription.topic_filter.encode(),
    )


def unsubscribed(number: int, topic_filter: str) -> bytes:
    """A subscription has ended."""
    return _record(UNSUBSCRIBED, _NUMBER.pack(number) + topic_filter.encode())


def sent(number: int, delivery: int, packet_id: int) -> bytes:
    """A delivery has this packet id."""
    return _record(SENT, _SENT.pack(number, delivery, packet_id))


def received(number: int, delivery: int) -> bytes:
    """PUBREC has come for a delivery."""
    return _record(RECEIVED, _RECEIVED.pack(number, delivery))


def done(number: int, deliveries: list[int]) -> bytes:
    """These deliveries are done."""
    parts = [_NUMBER.pack(number)]
    first = last = -1
    for delivery in sorted(deliveries):
        if delivery != last + 1 or first < 0:
            if first >= 0:
                parts.append(_RANGE.pack(first, last - first + 1))
            first = delivery
        last = delivery
    parts.append(_RANGE.pack(first, last - first + 1) if first >= 0 else b"")
    return _record(DONE, b"".join(parts))


def remembered(number: int, packet_id: int) -> bytes:
    """A QoS 2 packet id of the client waits for PUBREL."""
    return _record(REMEMBERED, _PACKET_ID.pack(number, packet_id))


def forgotten(number: int, packet_id: int) -> bytes:
    """It does not wait any more."""
    return _record(FORGOTTEN, _PACKET_ID.pack(number, packet_id))


def cleared(topic: bytes) -> bytes:
    """The topic has no retained message any more."""
    return _record(CLEARED, topic)


def _record(kind: int, body: bytes) -> bytes:
    return _HEAD.pack(kind, len(body)) + body


# -- reading


def each(content: bytes, position: int) -> Iterator[tuple[int, bytes]]:
    """The kind and body of each record from `position` on. Raises DamagedError."""
    for kind, start, end in positions(content, position):
        yield kind, content[start:end]


def positions(content: bytes, position: int) -> Iterator[tuple[int, int, int]]:
    """The kind of each record from `position` on, and where its body starts and ends. Raises DamagedError."""
    while position < len(content):
        if len(content) - position < HEAD_SIZE:
            raise DamagedError(f"half a record at byte {position}")
        kind, length = _HEAD.unpack_from(content, position)
        position += HEAD_SIZE
        if len(content) - position < length:
            raise DamagedError(f"a record at byte {position - HEAD_SIZE} is longer than its frame")
        yield kind, position, position + length
        position += length


def message_length(head: bytes) -> int:
    """The length of MESSAGE's body, by the HEAD_SIZE bytes before it. Raises DamagedError."""
    if len(head) == HEAD_SIZE:
        kind, length = _HEAD.unpack(head)
        if kind == MESSAGE:
            return int(length)
    raise DamagedError("a message is not where it was written")


def message_number(body: bytes) -> int:
    """The number of the message in the body of MESSAGE."""
    return int.from_bytes(body[:8], "big")


def read_message(body: bytes) -> SavedMessage:
    """The body of MESSAGE."""
    number, expires_at, flags = _MESSAGE.unpack_from(body)
    publisher, position = _read_text(body, _MESSAGE.size)
    (count,) = _COUNT.unpack_from(body, position)
    position += _COUNT.size
    targets = []
    for _ in range(count):
        own, delivery, options = _TARGET.unpack_from(body, position)
        identifiers, position = _read_text(body, position + _TARGET.size)
        targets.append(Target(own, delivery, options & 3, options & 4 != 0, identifiers))
    return SavedMessage(number, expires_at, flags & RETAINED != 0, publisher.decode(), targets, body[position:])


def scan_message(content: bytes, start: int, end: int) -> ScannedMessage:
    """The same as `read_message` of the body between two positions, but nothing is copied. Raises DamagedError."""
    number, _, flags = _MESSAGE.unpack_from(content, start)
    position = _skip_text(content, start + _MESSAGE.size)
    (count,) = _COUNT.unpack_from(content, position)
    position += _COUNT.size
    targets: list[tuple[int, int, int]] = []
    for _ in range(count):
        own, delivery, options = _TARGET.unpack_from(content, position)
        position = _skip_text(content, position + _TARGET.size)
        targets.append((own, delivery, options & 3))
    payload = _payload(content, position)
    if payload > end:
        raise DamagedError(f"message {number} is longer than its record")
    return ScannedMessage(number, flags & RETAINED != 0, targets, end - payload)


def _payload(content: bytes, position: int) -> int:
    """Where the payload of a PUBLISH of MQTT 5 begins, which begins at `position`."""
    qos = content[position] >> 1 & 3
    position += 1
    while content[position] & 0x80:  # remaining length
        position += 1
    position += 3 + (content[position + 1] << 8 | content[position + 2]) + (2 if qos else 0)
    length = shift = 0
    while content[position] & 0x80:
        length |= (content[position] & 0x7F) << shift
        shift += 7
        position += 1
    return position + 1 + (length | content[position] << shift)


def _skip_text(content: bytes, position: int) -> int:
    (length,) = _TEXT.unpack_from(content, position)
    return position + _TEXT.size + int(length)


def read_session(body: bytes) -> tuple[int, int, int, int, str]:
    """The body of SESSION: number, version, expiry, number of the next delivery, client id."""
    number, version, expiry, next_delivery = _SESSION.unpack_from(body)
    return number, version, expiry, next_delivery, body[_SESSION.size :].decode()


def read_connected(body: bytes) -> tuple[int, int, int]:
    """The body of CONNECTED: number, version, expiry."""
    number, version, expiry = _CONNECTED.unpack(body)
    return number, version, expiry


def read_detached(body: bytes) -> tuple[int, int, int, bool]:
    """The body of DETACHED: number, when, expiry, whether there is a will."""
    number, at, expiry, has_will = _DETACHED.unpack(body)
    return number, at, expiry, has_will


def read_will(body: bytes) -> tuple[int, int, bytes]:
    """The body of WILL: number, delay, PUBLISH."""
    number, delay = _WILL.unpack_from(body)
    return number, delay, body[_WILL.size :]


def read_group(body: bytes) -> tuple[int, int, str]:
    """The body of GROUP: number, number of the next delivery, name."""
    number, next_delivery = _GROUP.unpack_from(body)
    return number, next_delivery, body[_GROUP.size :].decode()


def read_ended(body: bytes) -> int:
    """The body of ENDED: the number."""
    (number,) = _NUMBER.unpack(body)
    return int(number)


def read_subscribed(body: bytes) -> tuple[int, Subscription]:
    """The body of SUBSCRIBED."""
    number, options = _SUBSCRIBED.unpack_from(body)
    identifiers, position = _read_text(body, _SUBSCRIBED.size)
    subscription = Subscription(
        body[position:].decode(), options & 3, options & 4 != 0, options & 8 != 0, options >> 4 & 3
    )
    subscription.identifiers = identifiers
    return number, subscription


def read_unsubscribed(body: bytes) -> tuple[int, str]:
    """The body of UNSUBSCRIBED."""
    (number,) = _NUMBER.unpack_from(body)
    return number, body[_NUMBER.size :].decode()


def read_sent(body: bytes) -> tuple[int, int, int]:
    """The body of SENT: session, delivery, packet id."""
    number, delivery, packet_id = _SENT.unpack(body)
    return number, delivery, packet_id


def read_received(body: bytes) -> tuple[int, int]:
    """The body of RECEIVED: session, delivery."""
    number, delivery = _RECEIVED.unpack(body)
    return number, delivery


def read_done(body: bytes) -> tuple[int, list[tuple[int, int]]]:
    """The body of DONE: session, and the first one and the count of each range of deliveries."""
    (number,) = _NUMBER.unpack_from(body)
    return number, list(_RANGE.iter_unpack(body[_NUMBER.size :]))


def read_packet_id(body: bytes) -> tuple[int, int]:
    """The body of REMEMBERED and FORGOTTEN: session, packet id."""
    number, packet_id = _PACKET_ID.unpack(body)
    return number, packet_id


def _read_text(body: bytes, position: int) -> tuple[bytes, int]:
    (length,) = _TEXT.unpack_from(body, position)
    start = position + _TEXT.size
    end = start + length
    if end > len(body):
        raise DamagedError("a text is longer than its record")
    return body[start:end], end
