"""All that the journal syncs: what these functions write is on disk when they return (FC-27).

SQLite calls fsync itself, for each commit and each copy of its log to the database, on connections that say so here.
"""

import os
import sqlite3
from pathlib import Path


def sync_commits(connection: sqlite3.Connection) -> None:
    """Let SQLite sync its log for each commit, and the database for each copy. Raises sqlite3.Error."""
    connection.execute("pragma synchronous = full")


def extend(path: Path, size: int) -> None:
    """Append `size` zeros to a file. Raises OSError."""
    with path.open("r+b", buffering=0) as file:
        file.seek(0, os.SEEK_END)
        file.write(bytes(size))
        os.fsync(file.fileno())


def cut(path: Path, size: int) -> None:
    """Cut a file off after `size` bytes. Raises OSError."""
    with path.open("r+b") as file:
        file.truncate(size)
        os.fsync(file.fileno())


def sync_names(directory: Path) -> None:
    """Put on disk which files the directory has. Raises OSError."""
    number = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)
