"""Group commit: writes frame by frame to disk, and notifies the connections that wait for a frame (FC-27, FC-28).

All that is added until a commit begins is one frame. There is one commit at a time, and the next begins when it has
returned: all that a busy broker writes meanwhile shares one sync.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, final

from broker.runtime.endpoint import COMMIT, Endpoint
from broker.storage.disk_thread import DiskThread
from broker.storage.frame import HEAD_SIZE

LAZY: Final = 0.1
"""Seconds until a commit begins for records that no packet waits for."""

MOST_WAITING: Final = 8 * 1024 * 1024
"""Bytes that wait for the next commit; past that the publishers that add to them are paused."""

WAIT: Final = 0.002
"""Seconds between two checks in `reach` whether the commit has returned."""

RETRY: Final = 1.0
"""Seconds until a commit that found the disk full is tried again."""


@final
class Commits:
    """Frames are numbered from 1, as are commits: commit 7 puts frame 7 on disk."""

    def __init__(
        self, append: Callable[[int, list[bytes]], bool], disk: DiskThread, sync: float = 0.0, max_bytes: int = 0
    ) -> None:
        """`append` puts a frame on disk, in a thread; it returns False if there is no room, and raises if it fails.

        `sync`: seconds between commits, for which no packet waits then; 0 = packets wait for their commit. `max_bytes`:
        of all frames; 0 = any number.
        """
        self.committed = 0
        """The last commit that has returned."""
        self.number = 1
        """The frame that is being filled."""
        self.full = False
        """Whether the disk has no room."""
        self.size = 0
        """Bytes of all frames that are on disk, or on their way."""
        self.max_bytes = max_bytes
        self.failed: Exception | None = None
        """The error after which no commit is tried any more; None = none."""
        self.on_failed: Callable[[], None] | None = None
        self.before_commit: Callable[[list[bytes]], None] | None = None
        """Called with the frame's pieces before each commit: it may add records."""
        self._append = append
        self._disk = disk
        self._sync = sync
        self._pieces: list[bytes] = []
        self._bytes = 0
        self._paused: list[Endpoint] = []
        self._waiting: deque[tuple[int, Endpoint]] = deque()
        self._committing = False
        self._wanted = False
        self._scheduled = False

    def begin_after(self, frame: int, size: int) -> None:
        """Continue after the last frame in the file; `size`: bytes of all of them."""
        self.size = size
        self.committed = frame
        self.number = frame + 1

    def add(self, pieces: list[bytes]) -> int:
        """Add to the frame that is being filled; returns the size of the pieces in bytes."""
        self._pieces.extend(pieces)
        size = 0
        for piece in pieces:
            size += len(piece)
        self._bytes += size
        return size

    def position(self) -> int:
        """Where the next record will be in its frame, in bytes."""
        return HEAD_SIZE + self._bytes

    def has_room(self) -> bool:
        """Whether more messages may be written. What frees space is written in any case (FC-29)."""
        return not self.full and not 0 < self.max_bytes <= self.size + self._bytes

    def behind(self) -> bool:
        """Whether so much waits that reading publishers has to pause."""
        return self._bytes > MOST_WAITING

    def pause(self, endpoint: Endpoint, now: int) -> None:
        """Pause reading an endpoint until less waits."""
        endpoint.pause_reading(COMMIT, now)
        self._paused.append(endpoint)

    def wait(self, endpoint: Endpoint, commit: int) -> None:
        """Call the endpoint's `on_commit` when this commit has returned."""
        self._waiting.append((commit, endpoint))

    def soon(self) -> int:
        """Begin a commit at the end of this turn of the loop, or when the current one has returned.

        Returns its number; 0 = no packet has to wait for it.
        """
        if self._sync:
            self.later()
            return 0
        if not self._wanted:
            self._wanted = True
            if not self._committing:
                asyncio.get_running_loop().call_soon(self._begin_wanted)
        return self.number

    def later(self) -> None:
        """Begin a commit after LAZY, or after `sync`."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_later(self._sync or LAZY, self._begin_scheduled)

    def waits(self) -> bool:
        """Whether something is not on disk yet."""
        return self._committing or len(self._pieces) > 0

    async def reach(self) -> None:
        """Put on disk what has been added by now."""
        last = self.number
        while self.failed is None and self.committed < last:
            if not self._committing:
                self._commit()
                if not self._committing:
                    return  # there was nothing to write
            await asyncio.sleep(WAIT)

    def _begin_wanted(self) -> None:
        if self._wanted and not self._committing:
            self._commit()

    def _begin_scheduled(self) -> None:
        self._scheduled = False
        if self._committing:
            self._wanted = True
        else:
            self._commit()

    def _commit(self) -> None:
        self._wanted = False
        if self.failed is not None:
            return
        if self.before_commit is not None:
            self.before_commit(self._pieces)
        if not self._pieces:
            return
        number, pieces = self.number, self._pieces
        self.number += 1
        self._pieces = []
        self._bytes = 0
        self.size += HEAD_SIZE + sum([len(piece) for piece in pieces])
        self._committing = True
        self._put(number, pieces)

    def _put(self, number: int, pieces: list[bytes]) -> None:
        append = self._append
        self._disk.do(lambda: append(number, pieces), lambda result: self._returned(number, pieces, result))

    def fail(self, error: Exception) -> None:
        """It is not known any more what is on disk, or it cannot be read: no commit returns from now on (FC-29)."""
        if self.failed is None:
            self.failed = error
            if self.on_failed is not None:
                self.on_failed()

    def _returned(self, number: int, pieces: list[bytes], result: bool | Exception) -> None:
        if isinstance(result, Exception):
            self.fail(result)
            return
        self.full = not result
        if self.full:
            asyncio.get_running_loop().call_later(RETRY, self._put, number, pieces)
            return
        self.committed = number
        self._committing = False
        if self._wanted:
            self._commit()
        waiting = self._waiting
        while waiting and waiting[0][0] <= number:
            _notify(waiting.popleft()[1])
        paused, self._paused = self._paused, []
        for endpoint in paused:
            endpoint.resume_reading(COMMIT)


def _notify(endpoint: Endpoint) -> None:
    try:
        endpoint.on_commit()
    except Exception as error:
        endpoint.abort()
        context = {"message": "writing what waited for a commit has failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
