"""Reads messages back that are on disk only (FC-30)."""

from itertools import groupby
from typing import Final, final

from broker.runtime.os_errors import text_of
from broker.storage import message_record, records
from broker.storage.disk_thread import DiskThread
from broker.storage.errors import StorageError
from broker.storage.index import Entry
from broker.storage.segments import Segments

_CLOSE: Final = 1024 * 1024
"""Records of a frame that are as near as this are read by one call."""


@final
class Reader:
    """Reads segments in a thread of its own: no commit waits for it."""

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._disk = DiskThread("reader")
        self._is_used = False

    async def read(self, entries: list[Entry]) -> list[bytes]:
        """The bodies of the entries' records, empty where there is no such frame.

        It is not committed yet, or removed. Raises StorageError, DamagedError.
        """
        self._is_used = True
        return await self._disk.ask(lambda: self.read_now(entries))

    def read_now(self, entries: list[Entry]) -> list[bytes]:
        """The same, at the start of the broker: the event loop waits."""
        bodies: list[bytes] = []
        try:
            for frame, there in groupby(entries, _frame_of):
                bodies += self._bodies(frame, [entry.offset for entry in there])
        except OSError as error:
            raise StorageError(text_of(error)) from error
        return bodies

    def _bodies(self, frame: int, offsets: list[int]) -> list[bytes]:
        """The bodies of these records of a frame."""
        if max(offsets) - min(offsets) > _CLOSE:
            middle = len(offsets) // 2
            return self._bodies(frame, offsets[:middle]) + self._bodies(frame, offsets[middle:])
        first, last = min(offsets), max(offsets)
        head = self._segments.read(frame, last, records.HEAD_SIZE)
        size = last - first + records.HEAD_SIZE + message_record.length_of(head) if head else 0
        content = self._segments.read(frame, first, size) if size else b""
        if not content:  # there is no such frame, or it has been removed between the two calls
            return [b""] * len(offsets)
        return [_body(content, offset - first) for offset in offsets]

    async def close(self) -> None:
        """End, when what has been asked of it is done."""
        if self._is_used:
            await self._disk.ask(lambda: None)
            self._disk.end()


def _frame_of(entry: Entry) -> int:
    return entry.frame


def _body(content: bytes, start: int) -> bytes:
    end = start + records.HEAD_SIZE
    return content[end : end + message_record.length_of(content[start:end])]
