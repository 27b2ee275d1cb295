"""The journal of a model's world, on a real disk: it commits when the world says so (FC-27)."""

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from broker.storage.compaction import Compaction
from broker.storage.journal import Journal
from broker.storage.lane_rule import LaneRule
from broker.storage.saved import Saved
from broker.storage.storage import Storage
from broker.storage.times import Times
from tests.model.knobs import Knobs
from tests.model.real import limits_of

MEMORY: Final = Path("/dev/shm")
"""A file system in memory: it is not the disk that is tested here."""


def lanes_of(knobs: Knobs) -> LaneRule:
    """In which lanes deliveries wait on disk."""
    limits = limits_of(knobs)
    return LaneRule(limits.priorities, limits.fairness, limits.conflation)


class KilledError(Exception):
    """The process has ended."""


class Disk:
    """Holds an event loop, in which nothing runs unless the world waits for the disk."""

    def __init__(self, lanes: LaneRule) -> None:
        self._lanes = lanes
        self._loop = asyncio.new_event_loop()
        asyncio._set_running_loop(self._loop)  # what writes to the journal asks for it, and has it commit later
        self._folder = Path(tempfile.mkdtemp(prefix="sluice-model-", dir=MEMORY if MEMORY.is_dir() else None))
        self._storage = Storage(self._folder, 0)
        self._set_up()

    @property
    def journal(self) -> Journal:
        """What sessions and groups write to."""
        return self._storage.journal

    def _set_up(self) -> None:
        """The world's clock does not go on by itself: times are the same on disk. Queues are as the world says."""
        self.journal.times = Times(lambda: 0)
        self.journal.lanes = self._lanes

    def _wait(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio._set_running_loop(None)
        try:
            self._loop.run_until_complete(coroutine)
        finally:
            asyncio._set_running_loop(self._loop)

    def commit(self) -> None:
        """All that has been written is on disk."""
        self._wait(self.journal.commits.reach())

    def compact(self) -> None:
        """The oldest frames are removed."""
        if len(self.journal.frames) > 1:
            self._wait(Compaction(self._storage).remove_oldest())

    def restart(self) -> Saved:
        """What has not been committed is gone; returns what is left, for a new process."""
        self.journal.commits.failed = KilledError()  # it commits nothing more
        self._wait(self._storage.close())
        self._storage = Storage(self._folder, 0)
        self._set_up()
        saved = self._storage.read(topics=True)
        self.journal.begin_after(saved)
        return saved

    def close(self) -> None:
        """Nothing needs it any more."""
        self._wait(self._storage.close())
        asyncio._set_running_loop(None)
        self._loop.close()
        shutil.rmtree(self._folder)
