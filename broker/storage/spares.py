"""FC-29: free segments, made ahead. They are the room that is kept for what frees space: acknowledgements, compaction.

A file gets its length, and zeros, before it is used: to sync what is written to it takes a fraction of the time then.
"""

import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, final

from broker.storage import fsync
from broker.storage.errors import DISK_FULL, StorageError, until
from broker.storage.segment import PREFIX

ANY: Final = 1 << 60
"""More bytes than any disk has."""
NEW: Final = "segment.new"
"""The name of a file until it has its length."""

# These are not Final: tests with a small disk set them, in the compiled module too.
SEGMENT = 16 * 1024 * 1024
"""Bytes of a segment; one with a commit that is longer is as long as that."""
COUNT = 3
"""Free segments that are kept. Without room for messages two are left: one for what is routed once more, and one for
compaction, which frees a segment when it has copied what is live in it."""


@final
class Spares:
    """The free segments of a journal. Its methods are called in the thread that commits; another one makes files."""

    def __init__(self, directory: Path, free: list[Path], highest: int) -> None:
        """`free`: files that can be used again; `highest`: the highest number of a name that is in use."""
        self._directory = directory
        self._free: list[Path] = []
        self._highest = highest
        self._lacks_room = False
        self._until = DISK_FULL
        self._on_disk = 0
        """Bytes that the disk has besides, as it was last seen."""
        self._failure: OSError | None = None
        self._making = threading.Lock()
        self._maker: threading.Thread | None = None
        for path in free:
            self.give(path)
        self._measure()

    def make_first(self) -> None:
        """Make one if there is room: without any, this tells whether the first commit has room. Raises OSError."""
        if not self._free:
            with self._making:
                path = self._make(SEGMENT)
            if path is not None:
                self._free.append(path)

    def take(self, size: int) -> Path | None:
        """A file of so many bytes at least; None = there is no room. Raises OSError."""
        if size <= SEGMENT and self._free:  # only this thread takes files, so it need not wait for one that is made
            return self._free.pop(0)
        with self._making:
            if size <= SEGMENT and self._free:
                return self._free.pop(0)
            path = self._make(max(size, SEGMENT))
            while path is None and self._would_fit(size):
                self._free.pop().unlink()  # a commit that is longer than a segment takes the room of free ones
                path = self._make(size)
            return path

    def _would_fit(self, size: int) -> bool:
        """Whether a file of so many bytes would fit if the free ones were removed."""
        return bool(self._free) and size <= shutil.disk_usage(self._directory).free + self.left()

    def put_back(self, path: Path) -> None:
        """Writing to a file that was taken has failed: it is the next one that is taken. Raises OSError."""
        if path.stat().st_size == SEGMENT:
            self._free.insert(0, path)
        else:
            path.unlink()

    def give(self, path: Path) -> None:
        """Use this file again, or remove it if it is not needed. Raises OSError."""
        if len(self._free) < COUNT and path.stat().st_size == SEGMENT:
            self._free.append(path)
        else:
            path.unlink()

    def left(self) -> int:
        """Bytes of the free segments, and on the disk if it gives any. May be called in any thread."""
        return len(self._free) * SEGMENT + (0 if self._lacks_room else self._on_disk)

    def _measure(self) -> None:
        """Look how much room the disk has. A quota does not show there: it does when a file cannot be made."""
        with suppress(OSError):
            disk = shutil.disk_usage(self._directory)
            self._on_disk = disk.free if disk.total else ANY  # some file systems do not say

    def has_room(self) -> bool:
        """Whether all free segments are there, or will be, as far as is known. Begins to make what lacks.

        Raises OSError.
        """
        if self._maker is not None and self._maker.is_alive():
            return not self._lacks_room  # the disk has what is being made already, or not yet
        self._check()
        self._measure()
        lacking = (COUNT - len(self._free)) * SEGMENT
        if lacking <= 0:
            self._lacks_room = False
            return True
        fits = lacking <= self._on_disk
        self._maker = threading.Thread(target=self._fill, name="journal spares", daemon=True)
        self._maker.start()
        return fits and not self._lacks_room

    def room_until(self) -> str:
        """What has to be before there is room again, if there is none. May be called in any thread."""
        there, needed = len(self._free) * SEGMENT + self._on_disk, COUNT * SEGMENT
        if self._until != DISK_FULL or there >= needed:  # else it is a quota, of which nothing more is known
            return self._until
        return f"{DISK_FULL}: {there // 2**20} MiB are free, and {needed // 2**20} MiB are needed"

    def wait(self) -> None:
        """Until what is being made is there. Raises OSError."""
        if self._maker is not None:
            self._maker.join()
            self._maker = None
        self._check()

    def _check(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _fill(self) -> None:
        try:
            while len(self._free) < COUNT:
                with self._making:
                    path = self._make(SEGMENT)
                    if path is None:
                        return
                    self._free.append(path)
        except OSError as error:
            self._failure = error

    def _make(self, size: int) -> Path | None:
        new = self._directory / NEW
        path = self._directory / f"{PREFIX}{self._highest + 1}"
        try:
            fsync.make(new, size)
            new.replace(path)
            fsync.sync_names(self._directory)
        except FileNotFoundError:
            raise StorageError("it has been removed, moved or replaced") from None
        except OSError as error:
            if error.errno in fsync.NO_ROOM:
                new.unlink(missing_ok=True)
            elif error.errno not in fsync.NO_FILE:
                raise
            self._lacks_room, self._until = True, until(error)
            return None
        self._highest += 1
        self._on_disk -= size
        self._lacks_room = False
        return path
