"""Where an open file is: a journal whose last segment is gone would not be found at the next start (FC-29)."""

import os
from pathlib import Path
from typing import final

from broker.storage.errors import StorageError, unusable
from broker.storage.segment import Segment


@final
class Place:
    """Where an open file is, to notice if it is not there any more."""

    def __init__(self, segment: Segment) -> None:
        self.path = segment.path
        self._link = Path(f"/proc/self/fd/{segment.open(os.O_RDWR)}")
        self._at = self._link.readlink() if self._link.is_symlink() else None
        self._file = self.path.stat()

    def has_file(self) -> bool:
        """Whether the file is still there. Raises StorageError if that cannot be found out."""
        try:
            if self._at is not None:
                # Linux tells where an open file is. To ask for its status costs half a sync: from 6.13 on the next
                # write then gets a time of its own, and so the inode is written with each commit.
                return self._link.readlink() == self._at
            return os.path.samestat(self.path.stat(), self._file)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise StorageError(f"{self.path}: {unusable(error)}") from error
