"""The records of the journal: how each is encoded and read.

```
record    kind (1 byte), length of the body (4), body
MESSAGE   see message_record.py
SENT      session (4), ranges: first delivery (8), its packet id (2), count (4)
text      length (4), bytes
```
All numbers are big-endian. Times are microseconds since 1970 UTC: a monotonic clock does not outlive the machine. A
session numbers its deliveries from 0, in their order; what returns to the head of a group's queue has negative numbers.
"""

import struct
from collections.abc import Iterator
from typing import Final

from mypy_extensions import mypyc_attr

from broker.storage.owner import Owner
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
"""Deliveries have got packet ids, as ranges."""
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
ADDRESS: Final = 16
"""The pages of an address begin, or their state is written again."""
OWNER: Final = 17
"""The session belongs to another client than before, as far as rules can tell."""
CLOCK: Final = 18
"""The wall clock has been set: all times before this record are by the clock as it was."""
OWED: Final = 19
"""Retained messages of a subscription are still to be sent: those of the topics behind this one."""
PAID: Final = 20
"""All have been."""

_HEAD: Final = struct.Struct(">BI")
TEXT: Final = struct.Struct(">I")
_SESSION: Final = struct.Struct(">IBIQ")
_CONNECTED: Final = struct.Struct(">IBI")
_DETACHED: Final = struct.Struct(">IQI?")
_WILL: Final = struct.Struct(">II")
_NUMBER: Final = struct.Struct(">I")
_GROUP: Final = struct.Struct(">IQ")
_CLOCK: Final = struct.Struct(">q")
_OWNER: Final = struct.Struct(">I?")
_SUBSCRIBED: Final = struct.Struct(">IB")
_SENT: Final = struct.Struct(">qHI")
_RECEIVED: Final = struct.Struct(">Iq")
_RANGE: Final = struct.Struct(">qI")
_PACKET_ID: Final = struct.Struct(">IH")
_ANY_ID: Final = b"\0\1"  # the placeholder for a packet id

HEAD_SIZE: Final[int] = _HEAD.size


@mypyc_attr(native_class=False)  # one of its subclasses is an OSError too
class DamagedError(Exception):
    """What is read is not what was written."""


# -- encoding


def session(number: int, client_id: str, version: int, expiry: int, next_delivery: int) -> bytes:
    """A session of this client id begins; `next_delivery` is the number of its next delivery."""
    return _record(SESSION, _SESSION.pack(number, version, expiry, next_delivery) + client_id.encode())


def connected(number: int, version: int, expiry: int) -> bytes:
    """The client has connected to its kept session; `expiry`: its Session Expiry Interval in seconds."""
    return _record(CONNECTED, _CONNECTED.pack(number, version, expiry))


def owner(number: int, own: Owner) -> bytes:
    """The session belongs to this client."""
    texts = [own.user or "", own.host, own.listener, *sorted(own.roles)]
    parts = [_OWNER.pack(number, own.user is not None)]
    for text in texts:
        encoded = text.encode()
        parts += [TEXT.pack(len(encoded)), encoded]
    return _record(OWNER, b"".join(parts))


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


def address(number: int, topic: bytes, next_delivery: int) -> bytes:
    """The pages of the address with this topic begin; `next_delivery` as for a session."""
    return _record(ADDRESS, _GROUP.pack(number, next_delivery) + topic)


def ended(number: int) -> bytes:
    """The session, group or pages have ended."""
    return _record(ENDED, _NUMBER.pack(number))


def subscribed(number: int, subscription: Subscription) -> bytes:
    """A subscription is new, or has new options."""
    identifiers = subscription.identifiers
    return _record(
        SUBSCRIBED,
        _SUBSCRIBED.pack(number, subscription.options(5))
        + TEXT.pack(len(identifiers))
        + identifiers
        + subscription.topic_filter.encode(),
    )


def unsubscribed(number: int, topic_filter: str) -> bytes:
    """A subscription has ended."""
    return _record(UNSUBSCRIBED, _NUMBER.pack(number) + topic_filter.encode())


def owed(number: int, topic_filter: str, topic: bytes) -> bytes:
    """The retained messages of a subscription whose topics sort behind `topic` are still to be sent."""
    return _record(OWED, _NUMBER.pack(number) + TEXT.pack(len(topic)) + topic + topic_filter.encode())


def paid(number: int, topic_filter: str) -> bytes:
    """All retained messages of a subscription have been sent."""
    return _record(PAID, _NUMBER.pack(number) + topic_filter.encode())


def sent(number: int, deliveries: list[tuple[int, int]]) -> bytes:
    """These deliveries have these packet ids."""
    parts = [_NUMBER.pack(number)]
    first = packet_id = count = 0
    for delivery, own_id in deliveries:
        if count and delivery == first + count and own_id == packet_id + count:
            count += 1
            continue
        if count:
            parts.append(_SENT.pack(first, packet_id, count))
        first, packet_id, count = delivery, own_id, 1
    if count:
        parts.append(_SENT.pack(first, packet_id, count))
    return _record(SENT, b"".join(parts))


def received(number: int, delivery: int) -> bytes:
    """PUBREC has come for a delivery."""
    return _record(RECEIVED, _RECEIVED.pack(number, delivery))


def done(number: int, deliveries: list[int]) -> bytes:
    """These deliveries are done, each of them once."""
    ordered = sorted(deliveries)
    if not ordered:
        return _record(DONE, _NUMBER.pack(number))
    first, last = ordered[0], ordered[-1]
    if last - first + 1 == len(ordered):
        return _record(DONE, _NUMBER.pack(number) + _RANGE.pack(first, len(ordered)))
    parts = [_NUMBER.pack(number)]
    last = first - 1
    for delivery in ordered:
        if delivery != last + 1:
            parts.append(_RANGE.pack(first, last - first + 1))
            first = delivery
        last = delivery
    parts.append(_RANGE.pack(first, last - first + 1))
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


def clock(step: int) -> bytes:
    """The wall clock has been set by so many microseconds."""
    return _record(CLOCK, _CLOCK.pack(step))


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
        kind, start, position = at(content, position)
        yield kind, start, position


def at(content: bytes, position: int) -> tuple[int, int, int]:
    """The kind of the record there, and where its body starts and ends. Raises DamagedError."""
    if len(content) - position < HEAD_SIZE:
        raise DamagedError(f"half a record at byte {position}")
    kind, length = _HEAD.unpack_from(content, position)
    start = position + HEAD_SIZE
    if len(content) - start < length:
        raise DamagedError(f"a record at byte {position} is longer than its frame")
    return kind, start, start + length


def read_session(body: bytes) -> tuple[int, int, int, int, str]:
    """The body of SESSION: number, version, expiry, number of the next delivery, client id."""
    number, version, expiry, next_delivery = _SESSION.unpack_from(body)
    return number, version, expiry, next_delivery, body[_SESSION.size :].decode()


def read_connected(body: bytes) -> tuple[int, int, int]:
    """The body of CONNECTED: number, version, expiry."""
    number, version, expiry = _CONNECTED.unpack(body)
    return number, version, expiry


def read_owner(body: bytes) -> tuple[int, Owner]:
    """The body of OWNER. Raises DamagedError."""
    number, named = _OWNER.unpack_from(body)
    position = _OWNER.size
    texts: list[str] = []
    while position < len(body):
        text, position = read_text(body, position)
        texts.append(text.decode())
    if len(texts) < 3:
        raise DamagedError("an owner without user, address or listener")
    return number, Owner(texts[0] if named else None, frozenset(texts[3:]), texts[1], texts[2])


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
    number, next_delivery, name = read_address(body)
    return number, next_delivery, name.decode()


def read_address(body: bytes) -> tuple[int, int, bytes]:
    """The body of ADDRESS: number, number of the next delivery, topic."""
    number, next_delivery = _GROUP.unpack_from(body)
    return number, next_delivery, body[_GROUP.size :]


def read_ended(body: bytes) -> int:
    """The body of ENDED: the number."""
    (number,) = _NUMBER.unpack(body)
    return int(number)


def read_subscribed(body: bytes) -> tuple[int, Subscription]:
    """The body of SUBSCRIBED."""
    number, options = _SUBSCRIBED.unpack_from(body)
    identifiers, position = read_text(body, _SUBSCRIBED.size)
    subscription = Subscription(
        body[position:].decode(), options & 3, options & 4 != 0, options & 8 != 0, options >> 4 & 3
    )
    subscription.identifiers = identifiers
    return number, subscription


def read_unsubscribed(body: bytes) -> tuple[int, str]:
    """The body of UNSUBSCRIBED and PAID: number, filter."""
    (number,) = _NUMBER.unpack_from(body)
    return number, body[_NUMBER.size :].decode()


def read_owed(body: bytes) -> tuple[int, str, bytes]:
    """The body of OWED: number, filter, topic. Raises DamagedError."""
    (number,) = _NUMBER.unpack_from(body)
    topic, position = read_text(body, _NUMBER.size)
    return number, body[position:].decode(), topic


def read_sent(body: bytes) -> tuple[int, list[tuple[int, int, int]]]:
    """The body of SENT: session, and first delivery, its packet id and the count of each range."""
    (number,) = _NUMBER.unpack_from(body)
    return number, list(_SENT.iter_unpack(body[_NUMBER.size :]))


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


def read_clock(body: bytes) -> int:
    """The body of CLOCK: by how much the clock has been set."""
    (step,) = _CLOCK.unpack(body)
    return int(step)


def read_text(body: bytes, position: int) -> tuple[bytes, int]:
    """A text, and where it ends. Raises DamagedError."""
    (length,) = TEXT.unpack_from(body, position)
    start = position + TEXT.size
    end = start + length
    if end > len(body):
        raise DamagedError("a text is longer than its record")
    return body[start:end], end
