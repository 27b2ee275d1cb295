"""A frame: the records that one commit puts on disk, as one row of the database.

```
CRC-32 (4 bytes) of what follows it, number of the frame (8), records
```
"""

import struct
from collections.abc import Iterable
from typing import Final
from zlib import crc32

from broker.storage.records import DamagedError

_HEAD: Final = struct.Struct(">IQ")
_CHECK: Final = struct.Struct(">I")
_NUMBER: Final = struct.Struct(">Q")
_CHECKED: Final[int] = _CHECK.size

HEAD_SIZE: Final[int] = _HEAD.size
"""Where the first record is."""


def encode(number: int, pieces: Iterable[bytes]) -> bytes:
    """A frame of these pieces of records. May be called in any thread."""
    head = _NUMBER.pack(number)
    content = b"".join(pieces)
    return b"".join((_CHECK.pack(crc32(content, crc32(head))), head, content))


def check(content: bytes, number: int) -> None:
    """Raise DamagedError unless this is the frame of that number and its checksum is right."""
    if len(content) < HEAD_SIZE:
        raise DamagedError(f"{len(content)} bytes, fewer than the head of a frame has")
    expected, written = _HEAD.unpack_from(content)
    if crc32(memoryview(content)[_CHECKED:]) != expected:
        raise DamagedError("the checksum is wrong")
    if written != number:
        raise DamagedError(f"it says that it is frame {written}")
