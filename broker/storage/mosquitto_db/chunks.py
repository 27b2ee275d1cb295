"""The format of Mosquitto's persistence file, versions 5 and 6 (Mosquitto 1.6 and later).

```
file      00 B5 00 "mosquitto db", checksum (4 bytes, always 0), version (4), chunks
chunk     kind (4), length of what follows (4), a fixed part, what is of variable length
```
Mosquitto writes C structures: lengths, packet ids and ports are big-endian, but the ids of messages and times are as
the machine has them, and the padding at the end of a structure is the compiler's. So a file of 32-bit x86 differs; the
length of the first chunk tells. Nothing marks the end of the file.
"""

import mmap
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

MAGIC: Final = b"\x00\xb5\x00mosquitto db"
VERSIONS: Final = (5, 6)

CONFIGURATION: Final = 1
MESSAGE: Final = 2
DELIVERY: Final = 3
RETAINED: Final = 4
SUBSCRIPTION: Final = 5
CLIENT: Final = 6

MOST_PAYLOAD: Final = 268_435_455
"""The largest payload that MQTT has."""
LATEST: Final = 2**40
"""A time after this one, in seconds since 1970, has been damaged, or is of a big-endian machine."""

_START: Final = struct.Struct(">15sII")
_HEAD: Final = struct.Struct(">II")
_SHUTDOWN: Final = 8
_ID_SIZE: Final = 9
_NATIVE: Final = struct.Struct("<Q")
_TIME: Final = struct.Struct("<q")
_MESSAGE: Final = struct.Struct(">16xIHHHHHBB")
_DELIVERY: Final = struct.Struct(">8xHHBBBB")
_SUBSCRIPTION: Final = struct.Struct(">IHHBB2x")
_CLIENT_5: Final = struct.Struct(">8xIHH")
_CLIENT_6: Final = struct.Struct(">8xIHHHH")
_PADDING: Final = {16: 4, 12: 0}
"""Bytes at the end of a client's fixed part in version 6, by the length of the first chunk."""


class FileError(ValueError):
    """The file is damaged, cut off or none of Mosquitto's; the text says at which byte, and what was expected."""


class Chunk(NamedTuple):
    """A chunk: its kind, where it begins, where its content is, and where that ends."""

    kind: int
    offset: int
    start: int
    end: int


class MessageChunk(NamedTuple):
    """A message of the store; `expires_at`: seconds since 1970 UTC, 0 = never; `properties` with their length."""

    number: int
    expires_at: int
    qos: int
    retain: bool
    publisher: bytes
    topic: bytes
    payload: bytes
    properties: bytes


class DeliveryChunk(NamedTuple):
    """A message that a client is to get, or (`incoming`) has sent."""

    message: int
    client_id: bytes
    packet_id: int
    qos: int
    state: int
    retain: bool
    incoming: bool
    properties: bytes


class ClientChunk(NamedTuple):
    """A kept session.

    `expires_at`: seconds since 1970 UTC, 0 = not known; `port`: of its listener, 0 = not known; `user`: None in
    files of version 5.
    """

    client_id: bytes
    port: int
    user: bytes | None
    interval: int
    expires_at: int


class SubscriptionChunk(NamedTuple):
    """A subscription; `options` as in SUBSCRIBE, but for the QoS; `identifier`: 0 = none."""

    client_id: bytes
    topic_filter: bytes
    qos: int
    options: int
    identifier: int


class PersistenceFile:
    """The chunks of one file. `content`: all of it, such as a memory map: nothing is copied before it is checked."""

    def __init__(self, content: "bytes | mmap.mmap") -> None:
        """Raises FileError unless this is the start of such a file."""
        self._content = memoryview(content)
        self._size = len(content)
        if self._size == 0:
            raise FileError("the file is empty")
        if bytes(self._content[: len(MAGIC)]) != MAGIC[: self._size]:
            raise FileError(
                "byte 0: this is not a persistence file of Mosquitto, which begins with 00 B5 00 'mosquitto db'"
            )
        self._need(0, _START.size, self._size, "the file's head")
        _, _, self.version = _START.unpack_from(self._content)
        if self.version not in VERSIONS:
            expected = " and ".join(map(str, VERSIONS))
            raise FileError(f"byte 19: version {self.version}; those that can be read are {expected}")
        self._padding = 0
        self.saved_at_end = False
        """Whether Mosquitto has written it when it ended, not while it ran; known when the first chunk is read."""

    def chunks(self) -> Iterator[Chunk]:
        """All chunks in order, also of unknown kinds. Raises FileError."""
        position = _START.size
        if position == self._size:
            raise FileError(f"byte {position}: the file ends behind its head: it is cut off")
        while position < self._size:
            self._need(position, _HEAD.size, self._size, "a chunk's head")
            kind, length = _HEAD.unpack_from(self._content, position)
            start = position + _HEAD.size
            chunk = Chunk(kind, position, start, start + length)
            if chunk.end > self._size:
                left = self._size - start
                raise FileError(
                    f"byte {position}: a chunk says {length} bytes, but {left} are left: the file is cut off or damaged"
                )
            if (position == _START.size) != (kind == CONFIGURATION):
                raise FileError(f"byte {position}: a chunk of kind {kind}; kind 1 comes first, and once")
            if kind == CONFIGURATION:
                self._configure(chunk)
            yield chunk
            position = chunk.end

    def _configure(self, chunk: Chunk) -> None:
        length = chunk.end - chunk.start
        if length not in _PADDING:
            raise FileError(f"byte {chunk.offset}: the first chunk has {length} bytes instead of 16 or 12")
        shutdown, id_size = self._content[chunk.start + _SHUTDOWN], self._content[chunk.start + _ID_SIZE]
        if id_size != _NATIVE.size or shutdown > 1:
            raise FileError(f"byte {chunk.start + _SHUTDOWN}: ids of messages have {id_size} bytes instead of 8")
        self._padding = _PADDING[length]
        self.saved_at_end = shutdown == 1

    def message(self, chunk: Chunk) -> MessageChunk:
        """Read a MESSAGE. Raises FileError."""
        self._need(chunk.start, _MESSAGE.size, chunk.end, "a message")
        fixed = _MESSAGE.unpack_from(self._content, chunk.start)
        size, _, publisher, user, topic, _, qos, retain = fixed
        rest = self._rest(chunk, chunk.start + _MESSAGE.size, publisher, user, topic, min(size, MOST_PAYLOAD + 1))
        if size > MOST_PAYLOAD or qos > 2 or retain > 1:
            raise FileError(f"byte {chunk.start}: a message of {size} bytes, QoS {qos}, RETAIN {retain}")
        return MessageChunk(
            self._number(chunk.start),
            self._time(chunk.start + _NATIVE.size),
            qos,
            retain == 1,
            rest[0],
            rest[2],
            rest[3],
            rest[4],
        )

    def delivery(self, chunk: Chunk) -> DeliveryChunk:
        """Read a DELIVERY. Raises FileError."""
        self._need(chunk.start, _DELIVERY.size, chunk.end, "a delivery")
        packet_id, length, qos, state, flags, direction = _DELIVERY.unpack_from(self._content, chunk.start)
        client_id, properties = self._rest(chunk, chunk.start + _DELIVERY.size, length)
        if qos > 2 or direction > 1 or state > 11:
            raise FileError(f"byte {chunk.start}: a delivery of QoS {qos}, direction {direction}, state {state}")
        number = self._number(chunk.start)
        return DeliveryChunk(number, client_id, packet_id, qos, state, flags >> 4 == 1, direction == 0, properties)

    def client(self, chunk: Chunk) -> ClientChunk:
        """Read a CLIENT. Raises FileError."""
        user_length: int | None = None
        port = 0
        size = _CLIENT_5.size if self.version == 5 else _CLIENT_6.size + self._padding
        self._need(chunk.start, size, chunk.end, "a client")
        if self.version == 5:
            interval, _, length = _CLIENT_5.unpack_from(self._content, chunk.start)
        else:
            interval, _, length, port, user_length = _CLIENT_6.unpack_from(self._content, chunk.start)
        client_id, user, more = self._rest(chunk, chunk.start + size, length, user_length or 0)
        if more:
            raise FileError(f"byte {chunk.end - len(more)}: {len(more)} bytes more than this client has")
        return ClientChunk(client_id, port, None if user_length is None else user, interval, self._time(chunk.start))

    def subscription(self, chunk: Chunk) -> SubscriptionChunk:
        """Read a SUBSCRIPTION. Raises FileError."""
        self._need(chunk.start, _SUBSCRIPTION.size, chunk.end, "a subscription")
        identifier, length, filter_length, qos, options = _SUBSCRIPTION.unpack_from(self._content, chunk.start)
        client_id, topic_filter, more = self._rest(chunk, chunk.start + _SUBSCRIPTION.size, length, filter_length)
        if more:
            raise FileError(f"byte {chunk.end - len(more)}: {len(more)} bytes more than this subscription has")
        if qos > 2 or options & ~0x3C or identifier > MOST_PAYLOAD:
            raise FileError(f"byte {chunk.start}: a subscription of QoS {qos}, options {options}, id {identifier}")
        return SubscriptionChunk(client_id, topic_filter, qos, options, identifier)

    def retained(self, chunk: Chunk) -> int:
        """Read a RETAINED: the number of the message. Raises FileError."""
        if chunk.end - chunk.start != _NATIVE.size:
            raise FileError(f"byte {chunk.offset}: a retained message of {chunk.end - chunk.start} bytes instead of 8")
        return self._number(chunk.start)

    def _rest(self, chunk: Chunk, position: int, *lengths: int) -> list[bytes]:
        """Parts of these lengths from there on, and what is left of the chunk."""
        self._need(position, sum(lengths), chunk.end, "what its lengths say")
        parts: list[bytes] = []
        for length in lengths:
            parts.append(bytes(self._content[position : position + length]))
            position += length
        return [*parts, bytes(self._content[position : chunk.end])]

    def _need(self, position: int, count: int, end: int, what: str) -> None:
        if end - position < count:
            raise FileError(
                f"byte {position}: {what} needs {count} bytes, but {max(end - position, 0)} are left: "
                "the file is cut off or damaged"
            )

    def _number(self, position: int) -> int:
        (number,) = _NATIVE.unpack_from(self._content, position)
        return int(number)

    def _time(self, position: int) -> int:
        (time,) = _TIME.unpack_from(self._content, position)
        if not 0 <= time < LATEST:
            raise FileError(
                f"byte {position}: the time {time} is impossible: the file is damaged, or of a big-endian machine, "
                "and such files cannot be read"
            )
        return int(time)
