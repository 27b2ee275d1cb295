"""The journal of a running broker: opened and read at the start, compacted, closed at the end (FC-27)."""

import asyncio
import gc
from collections.abc import Callable
from typing import Final, final

import structlog

from broker.broker import Broker
from broker.recovery import restore
from broker.storage.compaction import Compaction
from broker.storage.journal import Journal
from broker.storage.lane_rule import LaneRule
from broker.storage.records import DamagedError
from broker.storage.storage import Storage
from config.models import Config

# These are not Final: tests with a slow disk set them.
WAITS_AFTER = 5.0
"""Seconds for the last commit when the broker stops, after which the log says that it waits."""
CLOSE_TIMEOUT = 60.0
"""Seconds after which what is not on disk is given up."""

_WAIT: Final = "acknowledgements, and connections of kept sessions, wait"
_REFUSED: Final = "PUBLISHes of QoS 1 and 2, new subscriptions of kept sessions and new kept sessions"


def open_persistence(config: Config) -> "Persistence | None":
    """Open the journal if the configuration has a directory for it. Raises StorageError."""
    own = config.persistence
    if own.directory is None:
        return None
    return Persistence(Storage(own.directory, own.sync, own.memory, own.max_bytes))


@final
class Persistence:
    """The journal of one broker."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._log = structlog.get_logger("sluice")
        self._compaction: asyncio.Task[None] | None = None
        self._broker: Broker | None = None
        self._stop: Callable[[], None] | None = None

    @property
    def journal(self) -> Journal:
        """The journal that sessions and retained messages are written to."""
        return self._storage.journal

    def start(self, broker: Broker, stop: Callable[[], None]) -> None:
        """Restore what the journal holds. `stop` is called when a commit fails. Raises StorageError."""
        self._broker = broker
        self._stop = stop
        self.journal.commits.on_failed = self._failed
        self.journal.commits.on_full = self._changed_room
        self.journal.commits.on_stuck = self._changed_stuck
        self.restore(broker)
        self._storage.begin()
        if len(self.journal.frames):
            self._log.info("journal_read", sessions=len(broker.clients), retained=len(broker.retained))
        self._compaction = asyncio.get_running_loop().create_task(Compaction(self._storage).run())

    def restore(self, broker: Broker) -> None:
        """Restore what the journal holds. Raises StorageError if it is damaged."""
        gc.disable()  # what is read stays: to search it for garbage takes longer than to read it
        try:
            limits = broker.settings.limits
            self.journal.lanes = LaneRule(limits.priorities, limits.fairness, limits.conflation)
            restore(broker, self.journal, self._storage.read(broker.router.addresses.limits_topics()))
        except DamagedError as error:
            raise self._storage.damaged(error) from error
        finally:
            gc.enable()

    def _failed(self) -> None:
        """FC-29: a commit has failed. What is on disk is not known, so acknowledge nothing more, and end."""
        self._log.critical("journal_failed", detail=str(self.journal.commits.failed))
        if self._broker is not None and self._stop is not None:
            for connection in list(self._broker.connections.open):
                connection.abort()
            self._stop()

    def _changed_room(self, lacks_room: bool) -> None:
        """FC-29: there is no room for messages any more, or there is again."""
        if lacks_room:
            full = self.journal.commits.full
            end = self._storage.room_until() if full else "the journal is smaller than max_bytes"
            self._log.error("journal_full", detail=f"{_REFUSED} are refused until {end}")
        else:
            self._log.info("journal_has_room")

    def _changed_stuck(self, stuck: bool) -> None:
        """FC-29: not even what frees space can be written, or it has been."""
        if stuck:
            self._log.error("journal_stuck", detail=f"{_WAIT} until {self._storage.room_until()}")
        else:
            self._log.info("journal_writes_again")

    async def close(self) -> None:
        """Commit what has been written and close the file.

        Raises FailedError if the disk has failed, or is too slow: then the last records are lost.
        """
        if self._compaction is not None:
            self._compaction.cancel()
        self.journal.look_at_clock()
        waits = asyncio.get_running_loop().call_later(WAITS_AFTER, self._tell_that_it_waits)
        try:
            await asyncio.wait_for(self.journal.commits.reach(), CLOSE_TIMEOUT)
        except TimeoutError:
            lost = f"the last records were not written within {CLOSE_TIMEOUT:g} s"
            self._log.error("journal_lost", detail=lost)
            raise self._storage.lost(lost) from None
        finally:
            waits.cancel()
        if self.journal.commits.failed is not None:
            raise self._storage.failed(self.journal.commits.failed)
        await self._storage.close()

    def _tell_that_it_waits(self) -> None:
        self._log.warning("journal_waits", detail=f"the last records are not on disk yet; up to {CLOSE_TIMEOUT:g} s")
