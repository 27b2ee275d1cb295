"""A frame of the journal: records that are on disk together, behind a head that says which frame it is.

```
CRC-32 of the head behind it (4 bytes), CRC-32 of the records (4),
use (8), number (8), oldest (8), bytes of the records (4), frames of the same commit before it (2), after it (2)
records, zeros up to the next sector of 512 bytes
```
All numbers are big-endian. `use` is a random number of the segment, so that nothing that a client sends, and nothing
that is left of an earlier use of the file, is taken for a frame. `oldest` is the first frame that the journal still
needs. A head without records is a mark: it says that all frames from `oldest` up to the one before `number` were there.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from zlib import crc32

from broker.storage.records import DamagedError

_HEAD: Final = struct.Struct(">IIQQQIHH")
_CHECK: Final = struct.Struct(">I")
_CHECKED: Final = struct.Struct(">IQQQIHH")

SECTOR: Final[int] = 512
"""A frame begins at a multiple of so many bytes: no write touches what an earlier commit has put on disk."""

HEAD_SIZE: Final[int] = _HEAD.size
"""Where the first record is."""

_PIECE: Final = 4096
"""Bytes whose checksum is computed at once: with a few more zlib gives up the interpreter lock, and waits for it."""


class Head(NamedTuple):
    """The head of a frame, or a mark."""

    check: int
    """CRC-32 of the records."""
    number: int
    oldest: int
    size: int
    """Bytes of the records; 0 = it is a mark."""
    before: int
    """Frames of the same commit before it."""
    after: int
    """Frames of the same commit after it."""

    @property
    def first(self) -> int:
        """The first frame of its commit."""
        return self.number - self.before

    @property
    def last(self) -> int:
        """The last frame of its commit."""
        return self.number + self.after


def encode(use: int, oldest: int, number: int, before: int, after: int, pieces: Sequence[bytes]) -> bytes:
    """A frame of these pieces of records, whole sectors. May be called in any thread."""
    records = b"".join(pieces)
    head = _CHECKED.pack(_sum(records), use, number, oldest, len(records), before, after)
    size = HEAD_SIZE + len(records)
    return b"".join((_CHECK.pack(crc32(head)), head, records, bytes(padded(size) - size)))


def mark(use: int, oldest: int, number: int) -> bytes:
    """A mark that all frames from `oldest` up to the one before `number` are there."""
    return encode(use, oldest, number, 0, 0, ())


def padded(size: int) -> int:
    """Bytes of the sectors that so many bytes take."""
    return (size + SECTOR - 1) // SECTOR * SECTOR


def head_at(content: bytes, position: int, use: int) -> Head | None:
    """The head that is there; None = there is none of this use of the segment."""
    if position + HEAD_SIZE > len(content):
        return None
    expected, check, found, number, oldest, size, before, after = _HEAD.unpack_from(content, position)
    if found != use or crc32(content[position + _CHECK.size : position + HEAD_SIZE]) != expected:
        return None
    return Head(check, number, oldest, size, before, after)


def check(content: bytes, head: Head) -> None:
    """Raise DamagedError unless this is a frame whose head is `head` and whose checksum is right."""
    records = memoryview(content)[HEAD_SIZE : HEAD_SIZE + head.size]
    if len(records) < head.size:
        raise DamagedError(f"{len(records)} bytes of records, and {head.size} were written")
    if _sum(records) != head.check:
        raise DamagedError("the checksum is wrong")


def _sum(records: bytes | memoryview) -> int:
    if len(records) <= _PIECE:
        return crc32(records)
    check = 0
    view = memoryview(records)
    for start in range(0, len(records), _PIECE):
        check = crc32(view[start : start + _PIECE], check)
    return check
