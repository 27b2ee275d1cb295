"""FC-29: room on the disk that is kept for what frees space: acknowledgements and compaction."""

import errno
import os
from pathlib import Path
from typing import Final, final

NAME: Final = "journal.reserve"
PROBE: Final = "journal.probe"

# Not Final: tests with a small disk set it, in the compiled module too.
BATCHES = 4 * 1024 * 1024
"""Bytes for some batches of compaction."""

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


@final
class Reserve:
    """A file that takes room, and is removed when the journal needs it."""

    def __init__(self, directory: Path, log: int) -> None:
        """`log`: bytes of the write-ahead log, which begins anew when all of it has been copied to the database."""
        self.size = log + BATCHES
        self._path = directory / NAME
        self._is_held = False

    def hold(self) -> bool:
        """Take the room, unless that has been done; returns whether it is taken. Raises OSError if the disk fails."""
        if not self._is_held:
            self._is_held = self._take()
        return self._is_held

    def give(self) -> bool:
        """Give the room to the journal; returns whether there was any to give. Raises OSError if the disk fails."""
        was_held, self._is_held = self._is_held, False
        self._path.unlink(missing_ok=True)
        return was_held

    def _take(self) -> bool:
        file = -1
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.posix_fallocate(file, 0, self.size)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._path.unlink(missing_ok=True)
            return False
        finally:
            if file >= 0:
                os.close(file)
        return True


def has_room(directory: Path, size: int) -> bool:
    """Whether a file of so many bytes can be written: SQLite takes a quota for a failed write. Raises OSError."""
    path = directory / PROBE
    try:
        with path.open("wb") as file:
            file.write(bytes(size))
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        return False
    finally:
        path.unlink(missing_ok=True)
    return True
