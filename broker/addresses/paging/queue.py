"""The messages of one full address on disk, first in, first out: a row of page files."""

import errno
from collections import deque
from pathlib import Path
from typing import Final, final

from broker.addresses.paging.record import DamagedError, Record
from broker.addresses.paging.segment import SUFFIX, Segment
from protocol.decoder import Decoder

SEGMENT_BYTES: Final = 1024 * 1024
"""A page file that has grown to this gets no more: its space is given back when all of it has been read."""

EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
"""Errors that say nothing about the file: it can be read later."""


@final
class Taken:
    """What one look at the head of the queue has given."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.lost = 0
        """Messages that cannot be read."""
        self.lost_bytes = 0
        """What they took on disk."""
        self.problem = ""
        """What is wrong with the disk, in words; empty = nothing."""


@final
class PageQueue:
    """Page files of one address, named `name` and the number of their first message. For one thread at a time.

    Nothing is synced: what is here is lost with the process, as the sessions are that it is meant for. So what the
    operating system has taken is as safe as anything in the broker's memory.
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
        """Write these records behind the others, or as many as can be; returns how many, and why not the rest."""
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
        """The records, from the one numbered `first`, that make the segment as large as one should be."""
        size = segment.size
        end = first
        while end < len(records) and size < self._segment_bytes:
            size += len(records[end])
            end += 1
        return records[first:end]

    def take(self, limit: int) -> Taken:
        """Take out the next messages, `limit` bytes of them or else one.

        What cannot be read is given up, with all that follows it in its file; there may be messages behind it
        nevertheless. Raises OSError, one of EXHAUSTED, where nothing can be said now.
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
        """Remove the file; returns what went wrong. It stays behind then, until the broker stops or starts again."""
        try:
            segment.remove()
        except OSError as error:
            return str(error)
        return ""
