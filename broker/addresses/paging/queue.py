"""The messages of one full address on disk, first in, first out: a sequence of page files."""

import errno
from collections import deque
from pathlib import Path
from typing import Final, final

from broker.addresses.paging.record import DamagedError, Record
from broker.addresses.paging.segment import SUFFIX, Segment
from protocol.decoder import Decoder

SEGMENT_BYTES: Final = 1024 * 1024
"""Size at which a page file is complete; it is removed when all of it has been read."""

EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
"""Temporary errors: the file can be read later."""


@final
class Taken:
    """The result of one `take`."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.lost = 0
        """Messages that cannot be read."""
        self.lost_bytes = 0
        """Their size on disk."""
        self.problem = ""
        """The error message; empty = no error."""


@final
class PageQueue:
    """Page files of one address, named `name` and the number of their first message. For one thread at a time.

    Nothing is synced: the messages are worthless once the process has ended, because their sessions end with it.
    """

    def __init__(self, directory: Path, name: str, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._directory = directory
        self._name = name
        self._segment_bytes = segment_bytes
        self._segments: deque[Segment] = deque()
        self._written = 0
        self._decoder = Decoder(version=5)

    @property
    def messages(self) -> int:
        """How many can be taken."""
        return sum(segment.messages for segment in self._segments)

    def append(self, records: list[bytes]) -> tuple[int, OSError | None]:
        """Append as many of these records as possible; returns how many, and the error that prevented the rest."""
        written = 0
        failure: OSError | None = None
        while written < len(records) and failure is None:
            segment = self._last()
            count, failure = segment.append(self._fitting(segment, records, written))
            written += count
            self._written += count
            if not segment.size:
                self._segments.pop()
                self._remove(segment)
        return written, failure

    def _last(self) -> Segment:
        segments = self._segments
        if not segments or segments[-1].size >= self._segment_bytes:
            segments.append(Segment(self._directory / f"{self._name}-{self._written}{SUFFIX}"))
        return segments[-1]

    def _fitting(self, segment: Segment, records: list[bytes], first: int) -> list[bytes]:
        """The records from index `first` on that fill the segment up to its size."""
        size = segment.size
        end = first
        while end < len(records) and size < self._segment_bytes:
            size += len(records[end])
            end += 1
        return records[first:end]

    def take(self, limit: int) -> Taken:
        """Take out the next messages, up to `limit` bytes, but at least one.

        A message that cannot be read is lost, with all that follow it in its file; later files are still read. Raises
        OSError, one of EXHAUSTED, if it has to be tried again later.
        """
        taken = Taken()
        if not self._segments:
            return taken
        segment = self._segments[0]
        try:
            taken.records = segment.take(limit, self._decoder)
        except (OSError, DamagedError) as error:
            if isinstance(error, OSError) and error.errno in EXHAUSTED:
                raise
            taken.lost = segment.messages
            taken.lost_bytes = segment.size - segment.position
            taken.problem = str(error) if isinstance(error, OSError) else f"{segment.path}: {error}"
            segment.messages = 0
            self._decoder = Decoder(version=5)
        if not segment.messages:
            self._segments.popleft()
            problem = self._remove(segment)
            taken.problem = taken.problem or problem
        return taken

    def _remove(self, segment: Segment) -> str:
        """Remove the file; returns the error. The file then remains until the broker stops or starts again."""
        try:
            segment.remove()
        except OSError as error:
            return str(error)
        return ""
