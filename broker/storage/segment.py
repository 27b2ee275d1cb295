"""One file of the journal: its head, and where the frames in it are.

```
head      one sector: magic (8 bytes), version (4), use (8), first frame (8), length of the file (8),
          CRC-32 of these (4), zeros up to byte 256, and the same once more
frames    each begins at a sector, behind the one before it
```
A file is zeros when it is made, and used again when the journal needs none of its frames any more: then its head gets
another `use`, and what is left of the frames before is none of this one.
"""

import os
import secrets
import struct
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, final
from zlib import crc32

from broker.storage import frame
from broker.storage.errors import PASSING, ForeignError, UnreadableError
from broker.storage.frame import HEAD_SIZE, SECTOR, Head, padded
from broker.storage.records import DamagedError

VERSION: Final = 5
"""The version of segments and records. Versions 2 to 4 were SQLite databases (sqlite_journal.py)."""

PREFIX: Final = "segment-"

_MAGIC: Final = b"SluiceJ\n"
_HEAD: Final = struct.Struct(">8sIQQQ")
_CHECK: Final = struct.Struct(">I")
_COPY: Final[int] = SECTOR // 2
_LOOK: Final = 1024 * 1024


class SegmentHead(NamedTuple):
    """What the head of a segment says."""

    use: int
    first: int
    """The number of its first frame."""
    length: int
    """Bytes of the file."""


def encode_head(head: SegmentHead) -> bytes:
    """The first sector of a segment. It is there twice: no single byte that is damaged hides it."""
    content = _HEAD.pack(_MAGIC, VERSION, head.use, head.first, head.length)
    copy = (content + _CHECK.pack(crc32(content))).ljust(_COPY, b"\0")
    return copy + copy


def read_head(sector: bytes) -> SegmentHead | None:
    """The head of a segment; None = it has never been used. Raises ForeignError, DamagedError."""
    if len(sector) == SECTOR and not any(sector):
        return None
    versions: list[int] = []
    for start in (0, _COPY):
        content = sector[start : start + _HEAD.size]
        checked = sector[start + _HEAD.size : start + _HEAD.size + _CHECK.size]
        if checked != _CHECK.pack(crc32(content)) or not content.startswith(_MAGIC):
            continue
        _, version, use, first, length = _HEAD.unpack(content)
        if version == VERSION:
            return SegmentHead(use, first, length)
        versions.append(version)
    if versions:
        writer = "a newer" if versions[0] > VERSION else "an older"
        raise ForeignError(
            f"version {versions[0]}; this broker reads versions 2 to {VERSION}: start {writer} broker with it, "
            "or this one with another persistence.directory"
        )
    if len(sector) < SECTOR or any(sector[start : start + 8] == _MAGIC for start in (0, _COPY)):
        raise DamagedError("its head is damaged")
    raise ForeignError("a file of another program, or its head is damaged: it is no segment of a journal")


@final
class Segment:
    """A segment, and the places of its frames.

    A broker has the file open all the time: it must not need another descriptor when clients have taken all of them.
    """

    def __init__(self, path: Path, head: SegmentHead) -> None:
        self.path = path
        self.use = head.use
        self.first = head.first
        self.length = head.length
        self.end: int = SECTOR
        """The byte behind its last frame or mark."""
        self._sectors = array("I", [1])
        """Where each frame begins, and where the next one would."""
        self._file = -1

    @staticmethod
    def begin(path: Path, first: int) -> "Segment":
        """Use a file that is free: its head is written with its first frame. Raises OSError."""
        return Segment(path, SegmentHead(secrets.randbits(64), first, path.stat().st_size))

    def again(self) -> "Segment":
        """The same one, of which no frames are known."""
        return Segment(self.path, SegmentHead(self.use, self.first, self.length))

    @property
    def next(self) -> int:
        """The number of the frame that comes next."""
        return self.first + len(self._sectors) - 1

    def head(self) -> bytes:
        """Its first sector."""
        return encode_head(SegmentHead(self.use, self.first, self.length))

    # -- its frames

    def has(self, number: int) -> bool:
        """Whether this frame is in it."""
        return self.first <= number < self.next

    def add(self, sizes: list[int]) -> None:
        """Frames of so many bytes are there, behind the others."""
        for size in sizes:
            self.end += size
            self._sectors.append(self.end // SECTOR)

    def add_mark(self) -> None:
        """A mark is there, behind them."""
        self.end += SECTOR
        self._sectors[-1] = self.end // SECTOR

    def cut(self, number: int) -> None:
        """This frame, the last of a commit that is torn, and those behind it are not there."""
        del self._sectors[number - self.first + 1 :]
        self.end = self._sectors[-1] * SECTOR

    def size(self, number: int) -> int:
        """Bytes from the head of a frame to the next one."""
        index = number - self.first
        return (self._sectors[index + 1] - self._sectors[index]) * SECTOR

    # -- its file; all of these raise OSError, those that read UnreadableError if the disk does not give a part of it

    def open(self, flags: int = os.O_RDONLY) -> int:
        """Open the file until `close`; returns its descriptor."""
        if self._file < 0:
            self._file = os.open(self.path, flags | os.O_CLOEXEC)
        return self._file

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Have the file open meanwhile: much is read."""
        was_open = self._file >= 0
        self.open()
        try:
            yield
        finally:
            if not was_open:
                self.close()

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._file >= 0:
            file, self._file = self._file, -1
            os.close(file)

    def pread(self, size: int, position: int) -> bytes:
        """Bytes of the file. May be called in any thread."""
        was_open = self._file >= 0
        file = self._file if was_open else os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(file, size, position)
        except OSError as error:
            if error.errno in PASSING:
                raise
            where = f"bytes {position} to {position + size - 1} cannot be read"
            raise UnreadableError(f"{self.path.name}: {where}: {error.strerror}") from error
        finally:
            if not was_open:
                os.close(file)

    def read(self, number: int, offset: int, size: int) -> bytes:
        """Bytes of a frame that it has, from `offset` on; may be called in any thread. Raises DamagedError, too."""
        content = self.pread(size, self._sectors[number - self.first] * SECTOR + offset)
        if len(content) < size:
            raise DamagedError(f"{self.path.name}: frame {number}: the file ends in it")
        return content

    def content(self, number: int) -> bytes:
        """A whole frame that it has: its head, and its records. Raises DamagedError, too."""
        content = self.read(number, 0, self.size(number))
        head = frame.head_at(content, 0, self.use)
        if head is None or head.number != number or not head.size:
            raise DamagedError(f"{self.path.name}: frame {number}: its head is damaged")
        try:
            frame.check(content, head)
        except DamagedError as damage:
            raise DamagedError(f"{self.path.name}: frame {number}: {damage}") from damage
        return content[: HEAD_SIZE + head.size]

    def head_at(self, position: int) -> Head | None:
        """The head of a frame, or the mark, that is at this byte; None = there is none."""
        head = frame.head_at(self.pread(HEAD_SIZE, position), 0, self.use)
        if head is None or position + padded(HEAD_SIZE + head.size) > self.length:
            return None
        return head

    def heads_from(self, position: int) -> list[tuple[int, Head]]:
        """All heads from this byte on, and where they are: also behind damage, or of a torn write."""
        found: list[tuple[int, Head]] = []
        while position < self.length:
            content = self.pread(_LOOK, position)
            if not content:
                break
            found += self._heads_in(content, position)
            position += _LOOK
        return found

    def heads_that_can_be_read(self, position: int, end: int = 0) -> list[tuple[int, Head]]:
        """The same, but for those in parts of the file that the disk does not give. `end`: 0 = the end of the file."""
        end = end or self.length
        found: list[tuple[int, Head]] = []
        while position < end:
            size = min(_LOOK, end - position)
            try:
                found += self._heads_in(self.pread(size, position), position)
            except UnreadableError:
                if size > SECTOR:
                    middle = position + padded(size // 2)
                    found += self.heads_that_can_be_read(position, middle)
                    found += self.heads_that_can_be_read(middle, position + size)
            position += size
        return found

    def _heads_in(self, content: bytes, position: int) -> list[tuple[int, Head]]:
        heads = [(start, frame.head_at(content, start, self.use)) for start in range(0, len(content), SECTOR)]
        return [(position + start, head) for start, head in heads if head is not None]
