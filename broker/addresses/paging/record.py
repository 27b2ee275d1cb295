"""The format of a message in a page file: encoding and decoding.

```
length  4 bytes  of the body
CRC-32  4 bytes  of length and body
body    received_at and expires_at (8 bytes each), the client id's length (2) and UTF-8, the PUBLISH of MQTT 5
```
Times are microseconds of this process's monotonic clock: pages do not outlive it.
"""

import struct
from typing import Final, final
from zlib import crc32

from protocol.decoder import Decoder
from protocol.errors import MQTTError
from protocol.publish import Publish

HEAD: Final = struct.Struct(">II")
_FIXED: Final = struct.Struct(">qqH")
_PACKET_ID: Final = b"\0\1"
"""A placeholder: the publisher's id is not needed any more, and subscribers get their own."""


class DamagedError(Exception):
    """The file does not hold what was written."""


@final
class Record:
    """A message read from a page file. `size` is its size there, in bytes."""

    __slots__ = ("client_id", "publish", "size")

    def __init__(self, publish: Publish, client_id: str, size: int) -> None:
        self.publish = publish
        self.client_id = client_id
        """The publisher's: needed for No Local and retained messages."""
        self.size = size


@final
class Draft:
    """A message to be written as a record; `size` is its size on disk, in bytes.

    It is made in the event loop and finished in a thread: copying a large message and its checksum take time.
    """

    __slots__ = ("_before", "_payload", "size")

    def __init__(self, publish: Publish, client_id: str) -> None:
        name = client_id.encode()
        start, block, payload = publish.delivery(publish.topic, b"", -1)
        fixed = _FIXED.pack(publish.received_at, publish.expires_at, len(name))
        self._before = b"".join((fixed, name, start, _PACKET_ID if publish.qos else b"", block))
        self._payload = payload
        self.size: int = HEAD.size + len(self._before) + len(payload)

    def record(self) -> bytes:
        """The record; may be called in any thread."""
        length = (self.size - HEAD.size).to_bytes(4, "big")
        check = crc32(self._payload, crc32(self._before, crc32(length)))
        return b"".join((length, check.to_bytes(4, "big"), self._before, self._payload))


def size_at(data: bytes, position: int) -> int:
    """Return the size of the record at `position` from its head; 0 if the head is incomplete."""
    if len(data) - position < HEAD.size:
        return 0
    return HEAD.size + int.from_bytes(data[position : position + 4], "big")


def is_whole(data: bytes, position: int, size: int) -> bool:
    """Return whether the record of this size at `position` is complete and its checksum is right."""
    end = position + size
    if end > len(data) or size < HEAD.size + _FIXED.size:
        return False
    _, check = HEAD.unpack_from(data, position)
    length = data[position : position + 4]
    return bool(crc32(memoryview(data)[position + HEAD.size : end], crc32(length)) == check)


def decode(data: bytes, position: int, size: int, decoder: Decoder) -> Record:
    """Return the record of this size at `position`; records read by one MQTT 5 decoder share their topic's object.

    Raises DamagedError if it is not whole; `decoder` must not be used any more then.
    """
    if not is_whole(data, position, size):
        raise DamagedError("the checksum of a record is wrong")
    start = position + HEAD.size
    received_at, expires_at, name_length = _FIXED.unpack_from(data, start)
    start += _FIXED.size
    try:
        client_id = data[start : start + name_length].decode()
        decoder.feed(data[start + name_length : position + size])
        publish = decoder.next_packet()
    except (MQTTError, UnicodeDecodeError) as error:
        raise DamagedError(f"a record cannot be read: {error}") from error
    if not isinstance(publish, Publish) or decoder.buffered:
        raise DamagedError("a record does not hold a PUBLISH")
    publish.packet_id = 0
    publish.received_at = received_at
    publish.expires_at = expires_at
    return Record(publish, client_id, size)


def count_messages(data: bytes) -> int:
    """The number of whole records at the beginning of `data`."""
    count = position = 0
    while size := size_at(data, position):
        if not is_whole(data, position, size):
            break
        position += size
        count += 1
    return count
