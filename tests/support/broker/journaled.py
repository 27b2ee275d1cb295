"""A journal whose commits return when the test says so."""

import threading

from broker.storage.commits import COMMITTED, STUCK, Commits
from broker.storage.disk_thread import DiskThread
from broker.storage.journal import Journal

PATIENCE = 30.0


class SlowDisk:
    """Its frames, and how many more it takes; each waits in the disk's thread until it may be put."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.waiting = 0
        """The number of the frame that waits; 0 = none."""
        self.has_room = True
        self.error: Exception | None = None
        self._allowed = threading.Semaphore(0)

    def journal(self, sync: float = 0.0) -> Journal:
        """A new journal on this disk."""
        return Journal(Commits(self._append, DiskThread("journal"), sync))

    def _append(self, first: int, frames: list[list[bytes]]) -> int:
        self.waiting = first
        assert self._allowed.acquire(timeout=PATIENCE)
        self.waiting = 0
        if self.error is not None:
            raise self.error
        if self.has_room:
            self.frames += [b"".join(each) for each in frames]
        return COMMITTED if self.has_room else STUCK

    def allow(self, frames: int = 1) -> None:
        """Let so many be put."""
        self._allowed.release(frames)
