"""A page file: a sequence of records, appended at the end and read from the beginning."""

import os
from pathlib import Path
from typing import Final, final

from broker.addresses.paging.record import HEAD, DamagedError, Record, decode, size_at
from protocol.decoder import Decoder

SUFFIX: Final = ".page"
"""Suffix of page files."""


@final
class Segment:
    """One page file. Its size is kept here, so that a half-written record at the end is never read but overwritten.

    No file stays open between two calls: there may be more full addresses than file descriptors.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        """Bytes of whole records that have been written."""
        self.position = 0
        """Offset of the next record to take out."""
        self.messages = 0
        """Records that are left to take out."""

    def append(self, records: list[bytes]) -> tuple[int, OSError | None]:
        """Append as many of these records as possible; returns how many, and the error that prevented the rest."""
        data = memoryview(b"".join(records))
        written = len(records)
        done = 0
        failure: OSError | None = None
        try:
            file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                while done < len(data):
                    done += os.pwrite(file, data[done:], self.size + done)
            except OSError as error:
                failure = error
                written, done = _whole(records, done)
                os.ftruncate(file, self.size + done)
            finally:
                os.close(file)
        except OSError as error:
            return 0, error
        self.size += done
        self.messages += written
        return written, failure

    def take(self, limit: int, decoder: Decoder) -> list[Record]:
        """Take out the next records, up to `limit` bytes, but at least one.

        Raises OSError, or DamagedError if the next record is damaged.
        """
        file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = self._read(file, max(limit, HEAD.size))
            size = size_at(data, 0)
            if size > len(data):
                data = self._read(file, size)
        finally:
            os.close(file)
        records: list[Record] = []
        position = 0
        while size and position + size <= len(data):
            try:
                records.append(decode(data, position, size, decoder))
            except DamagedError:
                if records:
                    break  # the next call raises
                raise
            position += size
            size = size_at(data, position)
        if not records:
            raise DamagedError("the file ends before its last record does")
        self.position += position
        self.messages -= len(records)
        return records

    def _read(self, file: int, length: int) -> bytes:
        """Read the next `length` bytes, or what is left."""
        length = min(length, self.size - self.position)
        data = os.pread(file, length, self.position)
        while len(data) < length:
            more = os.pread(file, length - len(data), self.position + len(data))
            if not more:
                break
            data += more
        return data

    def remove(self) -> None:
        """Remove the file, if it exists. Raises OSError."""
        self.path.unlink(missing_ok=True)


def _whole(records: list[bytes], done: int) -> tuple[int, int]:
    """How many of the records are complete in the first `done` bytes, and their bytes."""
    size = 0
    for count, record in enumerate(records):
        if size + len(record) > done:
            return count, size
        size += len(record)
    return len(records), size
