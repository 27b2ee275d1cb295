"""Reads messages back that are on disk only (FC-30)."""

import sqlite3
from itertools import groupby
from pathlib import Path
from typing import final

from broker.storage import message_record, records
from broker.storage.database import StorageError
from broker.storage.disk_thread import DiskThread
from broker.storage.index import Entry


@final
class Reader:
    """A connection to the journal's file that only reads, and its thread: no commit waits for it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._disk = DiskThread("reader")
        self._connection: sqlite3.Connection | None = None

    async def read(self, entries: list[Entry]) -> list[bytes]:
        """The bodies of the entries' records, empty where there is no such frame.

        It is not committed yet, or removed. Raises StorageError, DamagedError.
        """
        return await self._disk.ask(lambda: self.read_now(entries))

    def read_now(self, entries: list[Entry]) -> list[bytes]:
        """The same, at the start of the broker: the event loop waits."""
        try:
            if self._connection is None:
                self._connection = self._open()
            return self._read(self._connection, entries)
        except sqlite3.Error as error:
            raise StorageError(f"{self._path}: {error}") from error

    def _open(self) -> sqlite3.Connection:
        uri = f"{self._path.resolve().as_uri()}?mode=ro"
        return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)

    def _read(self, connection: sqlite3.Connection, entries: list[Entry]) -> list[bytes]:
        bodies: list[bytes] = []
        connection.execute("begin")  # else a frame could be removed between its two looks
        try:
            for frame, there in groupby(entries, _frame_of):
                bodies += _bodies(connection, frame, [entry.offset for entry in there])
        finally:
            connection.execute("commit")
        return bodies

    async def close(self) -> None:
        """Close the file, when what has been asked of it is done."""
        if self._connection is not None:
            await self._disk.ask(self._connection.close)
            self._disk.end()


def _frame_of(entry: Entry) -> int:
    return entry.frame


def _bodies(connection: sqlite3.Connection, frame: int, offsets: list[int]) -> list[bytes]:
    if connection.execute("select 1 from frame where number = ?", (frame,)).fetchone() is None:
        return [b""] * len(offsets)
    bodies = []
    with connection.blobopen("frame", "content", frame, readonly=True) as blob:
        for offset in offsets:
            blob.seek(offset)
            bodies.append(blob.read(message_record.length_of(blob.read(records.HEAD_SIZE))))
    return bodies
