"""Copies SQLite's write-ahead log to the database in a thread of its own: commits do not wait for it.

SQLite begins the log anew when all of it has been copied. What has been added meanwhile is little, and copied by the
thread that adds to it.
"""

import sqlite3
import threading
from collections.abc import Callable
from typing import final

from broker.storage import fsync


@final
class Copier:
    """One thread, while there is something to copy. Its methods are called in the thread that writes the log."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], is_full: Callable[[sqlite3.Error], bool]) -> None:
        """`is_full` says whether an error means that there is no room. It is asked at once: later there may be room.

        It raises StorageError, which is an OSError, if that cannot be found out.
        """
        self._connect = connect
        self._is_full = is_full
        self._connection: sqlite3.Connection | None = None
        self._running: threading.Thread | None = None
        self._error: Exception | None = None

    def begin(self) -> None:
        """Begin to copy what is in the log now."""
        self._running = threading.Thread(target=self._copy, name="journal copier", daemon=True)
        self._running.start()

    def has_ended(self, wait: bool = False) -> bool:
        """Whether it has copied since it has last been asked, and is done; without room it has copied less, or nothing.

        `wait`: until it is done. Raises sqlite3.Error, StorageError if copying has failed.
        """
        running = self._running
        if running is None or (running.is_alive() and not wait):
            return False
        running.join()
        self._running = None
        error, self._error = self._error, None
        if error is not None:
            raise error
        return True

    def is_copying(self) -> bool:
        """Whether `has_ended` has still to be asked."""
        return self._running is not None

    def close(self) -> None:
        """Close its connection, when it is done. Raises sqlite3.Error, StorageError if copying has failed."""
        try:
            self.has_ended(wait=True)
        finally:
            if self._connection is not None:
                self._connection.close()

    def _copy(self) -> None:
        try:
            if self._connection is None:
                self._connection = self._connect()
                fsync.sync_commits(self._connection)
            self._connection.execute("pragma wal_checkpoint(passive)").fetchone()
        except sqlite3.Error as error:
            self._error = self._failure(error)

    def _failure(self, error: sqlite3.Error) -> Exception | None:
        """What has failed; None = there was no room, and it is tried again later."""
        try:
            return None if self._is_full(error) else error
        except OSError as failure:
            return failure
