"""FC-26 `page`: what does not fit into an address waits on disk, in order, and comes back when there is room.

take -> on the way -> written by the disk's thread -> acknowledged -> read ahead by that thread -> head, pop
"""

import asyncio
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import structlog

from broker.addresses.paging.directory import Removed, RunDirectory, remove_stale
from broker.addresses.paging.disk import Disk
from broker.addresses.paging.queue import SEGMENT_BYTES, PageQueue, Taken
from broker.addresses.paging.record import Draft, Record
from broker.runtime.clock import monotonic_us
from session.address import Address, Watcher

if TYPE_CHECKING:
    from broker.addresses.full_address import Parked

READ_AHEAD: Final = 65_536
LEAST_AHEAD: Final = 4_096
"""Bytes that an address has read from its pages and not handed over: as many as sessions may hold of it, in these
bounds. A message that is larger comes alone."""

RETRY: Final = 1.0
"""Seconds until pages are looked at again for which there was no file descriptor or memory."""

CLOSE_TIMEOUT: Final = 5.0
"""Seconds that the files have to be removed when the broker stops; the next start removes what is left."""

_QUOTED: Final = 100
"""Bytes of a topic name that a log line quotes."""


@final
class Paging:
    """The page files of one run of the broker, for all its addresses.

    A message counts as written when the operating system has taken it. It is not synced: if the machine fails the
    sessions that it waits for are lost too, as they are if the broker does.
    """

    def __init__(self, directory: Path, node_name: str) -> None:
        """Make the directory that the pages are going to be in. Raises OSError if that is not possible."""
        try:
            self._run = RunDirectory(directory, node_name)
        except OSError as error:
            raise OSError(
                f"paging.directory: {directory} cannot hold pages: {error}: write a directory that may be written to"
            ) from error
        self.disk = Disk()
        self.closed = False
        self.not_written = 0
        """Messages that the disk did not take; they have been answered as `page_full_policy` says."""
        self.lost = 0
        """Messages that were acknowledged and could not be read again."""
        self._parent = directory
        self._left = 0
        self._failing = False
        self._log = structlog.get_logger("sluice")

    def start(self) -> None:
        """Remove what earlier runs have left behind. Called in the event loop, once; it does not wait for the disk."""
        self.disk.do(lambda: remove_stale(self._parent), self._stale_removed)

    def open(self, address: Address, watcher: Watcher) -> "Pages":
        """The pages of an address that has filled up; empty. Called within the event loop.

        `watcher.on_room()` is called, in the loop, when `Pages.head` has something after it had nothing, and when
        `Pages.length` has come to 0 by itself, because nothing more can be read.
        """
        return Pages(self, self._run.queue(), address, watcher)

    async def close(self) -> None:
        """The broker stops: write nothing more, remove the files. What has been taken is not answered any more."""
        self.closed = True
        removed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.disk.do(self._run.remove, lambda result: self._run_removed(result, removed))
        try:
            await asyncio.wait_for(removed, CLOSE_TIMEOUT)
        except TimeoutError:
            self._log.error("pages_not_removed", detail=f"{self._run.path} was not removed within {CLOSE_TIMEOUT:g} s")

    def discard(self) -> None:
        """The broker does not even start: remove the directory at once."""
        self._run.remove()

    # -- what operators are told

    def note_written(self, refused: int, error: Exception | None) -> None:
        """The disk has taken a batch, or has refused so many messages of it: said once per episode."""
        self.not_written += refused
        if error is None:
            if self._failing:
                self._failing = False
                self._log.info("paging_works_again", not_written=self.not_written)
        elif not self._failing:
            self._failing = True
            self._log.error("paging_failed", directory=str(self._run.path), detail=str(error))

    def note_lost(self, address: Address, messages: int, problem: str) -> None:
        """Messages of an address cannot be read, or a file of it not be removed."""
        self.lost += messages
        topic = address.topic[:_QUOTED].decode(errors="replace")
        self._log.error("pages_lost", topic=topic, messages=messages, lost=self.lost, detail=problem)

    def note_left(self, messages: int) -> None:
        """An address has so many messages more, or fewer, that it would be a loss to stop now."""
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
    """What one address has on disk, or on the way there. All calls are made, and all answers come, in the loop."""

    def __init__(self, paging: Paging, queue: PageQueue, address: Address, watcher: Watcher) -> None:
        self.length = 0
        """Messages that have been taken and neither popped, nor answered as `not_written`, nor lost by the disk."""
        self.bytes = 0
        """What they take, or are going to take, on disk: payload, properties, topic, client id, some 35 bytes each."""
        self._paging = paging
        self._queue = queue  # the thread's
        self._address = address
        self._watcher = watcher
        self._outgoing: deque[tuple[Parked, Draft]] = deque()
        self._writing = False
        self._stored = 0  # messages on disk that no read has been asked for
        self._ahead: deque[Record] = deque()
        self._reading = False
        self._read_ahead = max(min(address.rule.max_size_bytes, READ_AHEAD), LEAST_AHEAD)

    def take(self, parked: "Parked") -> bool:
        """Put `parked.publish`, of `parked.client_id`, behind the others; its acknowledgement is withheld meanwhile.

        Returns False, and takes nothing, if `bytes` would pass `page_limit_bytes`. If True, `parked.written(now)` is
        called once it is on disk, or `parked.not_written(now)` if it cannot be; never within `take`.
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
        """The oldest message, which stays where it is. None if there is none yet: it is being written or read."""
        return self._ahead[0] if self._ahead else None

    def pop(self) -> None:
        """The message that `head` shows has been routed."""
        self._forget(1, self._ahead.popleft().size)
        self._paging.note_left(-1)
        self._read()

    def close(self) -> None:
        """The address has room again and `length` is 0: nothing is left, on disk neither."""
        assert not self.length

    def _forget(self, messages: int, size: int) -> None:
        self.length -= messages
        self.bytes -= size

    # -- to the disk

    def _write(self) -> None:
        """Have the disk's thread write what waits, about one file of it at a time."""
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
        """Have the disk's thread read ahead, if there is something to read and nothing in hand."""
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
