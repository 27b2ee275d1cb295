"""FC-26 `page`: PUBLISHes that do not fit into an address wait on disk, in order, until there is room.

add -> outgoing -> written by the disk's thread -> acknowledged -> read ahead by that thread -> head, pop
"""

import asyncio
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import structlog

from broker.addresses.paging.directory import Removed, RunDirectory, remove_stale
from broker.addresses.paging.queue import SEGMENT_BYTES, PageQueue, Taken
from broker.addresses.paging.record import Draft, Record
from broker.connection.replies import topic_name
from broker.runtime.clock import monotonic_us
from broker.storage.disk_thread import DiskThread
from session.address import Address, Watcher

if TYPE_CHECKING:
    from broker.addresses.full_address import Parked

READ_AHEAD: Final = 65_536
LEAST_AHEAD: Final = 4_096
"""Bounds in bytes of what an address reads ahead from its pages: as much as its limit, within these bounds. A larger
message is read alone."""

RETRY: Final = 1.0
"""Seconds until pages are read again after a lack of file descriptors or memory."""

CLOSE_TIMEOUT: Final = 5.0
"""Seconds for removing the files when the broker stops; the next start removes what is left."""


@final
class Paging:
    """The page files of one run of the broker, for all its addresses.

    A message counts as written when `write` has returned. Files are not synced: if the machine or the broker fails, the
    sessions that the messages are for are lost too.
    """

    def __init__(self, directory: Path, node_name: str) -> None:
        """Make the run's directory. Raises OSError if that is not possible."""
        try:
            self._run = RunDirectory(directory, node_name)
        except OSError as error:
            raise OSError(
                f"paging.directory: {directory} cannot hold pages: {error}: write a directory that may be written to"
            ) from error
        self.disk = DiskThread("paging")
        self.closed = False
        self.not_written = 0
        """Messages that could not be written; `page_full_policy` was applied to them."""
        self.lost = 0
        """Messages that were acknowledged and could not be read back."""
        self._parent = directory
        self._left = 0
        self._failing = False
        self._log = structlog.get_logger("sluice")

    def start(self) -> None:
        """Remove the directories of earlier runs. Called in the event loop, once; it does not wait for the disk."""
        self.disk.do(lambda: remove_stale(self._parent), self._stale_removed)

    def open(self, address: Address, watcher: Watcher) -> "Pages":
        """Empty pages for an address that has become full. Called in the event loop.

        `watcher.on_room()` is called, in the loop, when `Pages.head` was None and has a message now, and when
        `Pages.length` has become 0 because the rest cannot be read.
        """
        return Pages(self, self._run.queue(), address, watcher)

    async def close(self) -> None:
        """The broker stops: write nothing more and remove the files. Messages still outgoing are not acknowledged."""
        self.closed = True
        removed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.disk.do(self._run.remove, lambda result: self._run_removed(result, removed))
        try:
            await asyncio.wait_for(removed, CLOSE_TIMEOUT)
        except TimeoutError:
            self._log.error("pages_not_removed", detail=f"{self._run.path} was not removed within {CLOSE_TIMEOUT:g} s")

    def discard(self) -> None:
        """The broker has failed to start: remove the directory at once."""
        self._run.remove()

    # -- log

    def note_written(self, refused: int, error: Exception | None) -> None:
        """A batch was written, or `refused` messages of it could not be: logged once per episode."""
        self.not_written += refused
        if error is None:
            if self._failing:
                self._failing = False
                self._log.info("paging_works_again", not_written=self.not_written)
        elif not self._failing:
            self._failing = True
            self._log.error("paging_failed", directory=str(self._run.path), detail=str(error))

    def note_lost(self, address: Address, messages: int, problem: str) -> None:
        """Messages of an address cannot be read, or a file of it cannot be removed."""
        self.lost += messages
        topic = topic_name(address.topic)
        self._log.error("pages_lost", topic=topic, messages=messages, lost=self.lost, detail=problem)

    def note_left(self, messages: int) -> None:
        """Change the number of acknowledged messages that would be lost if the broker stopped now."""
        self._left += messages

    def _stale_removed(self, result: Removed | Exception) -> None:
        if isinstance(result, Exception):
            return
        if result.directories or result.bytes:
            self._log.info("pages_removed", messages=result.messages, bytes=result.bytes, runs=result.directories)
        for problem in result.problems:
            self._log.error("pages_not_removed", detail=problem)

    def _run_removed(self, result: Removed | Exception, removed: "asyncio.Future[None]") -> None:
        if isinstance(result, Removed):
            for problem in result.problems:
                self._log.error("pages_not_removed", detail=problem)
        if self._left:
            self._log.warning("pages_dropped", messages=self._left)
        if not removed.done():
            removed.set_result(None)


@final
class Pages:
    """The messages of one address that are on disk or outgoing. All calls and callbacks are in the event loop."""

    def __init__(self, paging: Paging, queue: PageQueue, address: Address, watcher: Watcher) -> None:
        self.length = 0
        """Messages that have been added, without those that were popped, not written or lost since."""
        self.bytes = 0
        """Their size on disk: payload, properties, topic, client id, and about 35 bytes each."""
        self._paging = paging
        self._queue = queue  # used by the thread only
        self._address = address
        self._watcher = watcher
        self._outgoing: deque[tuple[Parked, Draft]] = deque()
        self._writing = False
        self._stored = 0  # messages on disk that no read has been asked for
        self._ahead: deque[Record] = deque()
        self._reading = False
        self._read_ahead = max(min(address.rule.max_size_bytes, READ_AHEAD), LEAST_AHEAD)

    def add(self, parked: "Parked") -> bool:
        """Queue `parked.publish` for writing.

        Returns False, and queues nothing, if `bytes` would exceed `page_limit_bytes`. If True, `parked.written(now)` or
        `parked.not_written(now)` is called later, never within `add`.
        """
        draft = Draft(parked.publish, parked.client_id)
        limit = self._address.rule.page_limit_bytes
        if limit >= 0 and self.bytes + draft.size > limit:
            return False
        self.length += 1
        self.bytes += draft.size
        self._outgoing.append((parked, draft))
        if not self._writing:
            self._write()
        return True

    def head(self) -> Record | None:
        """The oldest message, without removing it. None if there is none, or it is still being written or read."""
        return self._ahead[0] if self._ahead else None

    def pop(self) -> None:
        """Remove the message of `head`: it is about to be routed."""
        self._forget(1, self._ahead.popleft().size)
        self._paging.note_left(-1)
        self._read()

    def close(self) -> None:
        """The address has room again: nothing may be left."""
        assert not self.length

    def _forget(self, messages: int, size: int) -> None:
        self.length -= messages
        self.bytes -= size

    # -- to the disk

    def _write(self) -> None:
        """Have the disk's thread write outgoing messages, about one file at a time."""
        batch: list[tuple[Parked, Draft]] = []
        size = 0
        while self._outgoing and size < SEGMENT_BYTES:
            parked, draft = self._outgoing.popleft()
            batch.append((parked, draft))
            size += draft.size
        self._writing = True
        drafts = [draft for _, draft in batch]
        queue = self._queue
        self._paging.disk.do(
            lambda: queue.append([draft.record() for draft in drafts]), lambda result: self._written(batch, result)
        )

    def _written(self, batch: list[tuple["Parked", Draft]], result: tuple[int, OSError | None] | Exception) -> None:
        written, error = (0, result) if isinstance(result, Exception) else result
        if self._paging.closed:
            return
        self._stored += written
        self._paging.note_left(written)
        self._paging.note_written(len(batch) - written, error)
        now = monotonic_us()
        for parked, _ in batch[:written]:
            parked.written(now)
        for parked, draft in batch[written:]:
            self._forget(1, draft.size)
            parked.not_written(now)
        self._writing = False
        if self._outgoing:
            self._write()
        self._read()

    # -- from the disk

    def _read(self) -> None:
        """Have the disk's thread read ahead, if nothing is read ahead and there is something to read."""
        if self._reading or self._ahead or not self._stored or self._paging.closed:
            return
        self._reading = True
        queue, limit = self._queue, self._read_ahead
        self._paging.disk.do(lambda: queue.take(limit), self._have_read)

    def _have_read(self, result: Taken | Exception) -> None:
        self._reading = False
        if self._paging.closed:
            return
        if isinstance(result, Exception):  # nothing is lost
            asyncio.get_running_loop().call_later(RETRY, self._read)
            return
        self._stored -= len(result.records) + result.lost
        self._ahead.extend(result.records)
        if result.problem:
            self._forget(result.lost, result.lost_bytes)
            self._paging.note_left(-result.lost)
            self._paging.note_lost(self._address, result.lost, result.problem)
        if self._ahead or not self.length:
            self._watcher.on_room()
        self._read()
