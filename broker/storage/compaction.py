"""Keeps the journal small while it is in use: writes what is live in its oldest frames again, and removes the frames.

The oldest frames usually have the most dead bytes. A live message is copied at most once for each time that the journal
has grown to twice its live bytes.
"""

import asyncio
from typing import Final, cast, final

import structlog

from broker.storage import frame, message_record, records, spares
from broker.storage.errors import StorageError
from broker.storage.index import Index
from broker.storage.journal import Journal
from broker.storage.kept_queue import KeptQueue
from broker.storage.message import Frame, Message
from broker.storage.records import DamagedError
from broker.storage.saved_message import SavedMessage, Target
from broker.storage.storage import Storage

# These are not Final: tests with a small journal set them, in the compiled module too.
PAUSE = 0.25
"""Seconds between two checks whether compaction is needed."""
SMALL = 4 * 1024 * 1024
"""Bytes up to which a journal is not compacted. It is less than a segment, so that one that is used again is often
enough."""
BATCH = 1024 * 1024
"""Bytes of frames that are removed at once."""
MANY = 10_000
"""Frames above which the oldest are joined, dead or not: each of them costs memory."""

WORTH: Final = 8
"""Where there is no room, that part of the journal has to be dead; then it is worth while to copy the rest."""

SLICE: Final = 100
"""Records that are processed before the event loop continues."""


@final
class Compaction:
    """Compacts the journal of one broker."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._journal: Journal = storage.journal
        self._log = structlog.get_logger("sluice")

    async def run(self) -> None:
        """Compact whenever that is needed. Runs until it is cancelled."""
        commits = self._journal.commits
        checked = 0
        while True:
            await asyncio.sleep(PAUSE)
            if commits.committed == checked and commits.has_room():
                continue  # all is as it was
            checked = commits.committed
            try:
                while self.needed():
                    await self.remove_oldest()
            except StorageError as error:
                self._log.error("journal_not_compacted", detail=str(error))
            except DamagedError as damage:
                commits.fail(damage)

    def needed(self) -> bool:
        """Whether more than half of the journal is dead, less if there is no room, or there are very many frames."""
        journal = self._journal
        commits = journal.commits
        if len(journal.frames) < 2 or commits.stuck or commits.failed is not None:
            return False
        if next(iter(journal.frames.values())).unread:
            return False  # FC-35
        if len(journal.frames) > MANY:
            return True
        size = sum(each.size for each in journal.frames.values())
        live = journal.live_bytes()
        if not commits.has_room():
            return self._frees_room(live < size - size // WORTH)
        return size > SMALL and live < size // 2

    def _frees_room(self, worth: bool) -> bool:
        """Where there is no room: whether to remove the oldest frames.

        They are if that is `worth` while, because enough of the journal is dead, or if half of the oldest frames is, as
        where pages have been routed. A full disk needs the file: half of the oldest segment, and room for the other.
        """
        commits = self._journal.commits
        if not commits.full:
            return worth or self._is_dead(self._oldest())
        live = self._storage.live_in_oldest()
        if live is None:
            return False  # the segment that is written to cannot be freed
        more = spares.SEGMENT // 8  # for records that come meanwhile, and what fills up sectors
        fits = live + more <= commits.reserve.left(commits.position())
        return fits and (worth or 2 * live < spares.SEGMENT)

    async def remove_oldest(self) -> None:
        """Remove the oldest frames, a few of them at once if they are small."""
        journal = self._journal
        oldest = self._oldest()
        for each in oldest:
            if each.is_needed():
                await self._move_messages(each)
            for count, number in enumerate(sorted(each.queues)):
                if number in each.queues:
                    journal.queues[number].write_state()
                if count % SLICE == SLICE - 1:
                    await asyncio.sleep(0)
        await journal.commits.reach()
        if journal.commits.failed is None and not any(each.unread for each in oldest):  # FC-35: dropped meanwhile
            await self._storage.remove(oldest[-1].number)
            for each in oldest:
                del journal.frames[each.number]
                journal.commits.size -= each.size

    def _oldest(self) -> list[Frame]:
        """The oldest frames that are on disk, of BATCH bytes together, but at least one."""
        found: list[Frame] = []
        size = 0
        for each in self._journal.frames.values():
            if each.number > self._journal.commits.committed or (found and size + each.size > BATCH):
                break
            if each.unread:
                break
            found.append(each)
            size += each.size
        return found

    def _is_dead(self, frames: list[Frame]) -> bool:
        """Whether more than half of these frames is dead, as where pages have been routed, the oldest first."""
        return sum(each.live_bytes() for each in frames) < sum(each.size for each in frames) // 2

    async def _move_messages(self, oldest: Frame) -> None:
        content = await self._storage.content(oldest.number)
        for count, (kind, start, end) in enumerate(records.positions(content, frame.HEAD_SIZE)):
            if kind == records.MESSAGE:
                self._move(message_record.read(content[start:end]), start - records.HEAD_SIZE, oldest)
            if count % SLICE == SLICE - 1:
                await asyncio.sleep(0)

    def _move(self, saved: SavedMessage, offset: int, oldest: Frame) -> None:
        retained = oldest.retained.get(offset)
        messages: dict[int, Message] = {} if retained is None else {id(retained): retained}
        targets: list[Target] = []
        evicted: list[tuple[KeptQueue, int, Index]] = []
        for each in saved.targets:
            kept = cast("KeptQueue | None", self._journal.queues.get(each.session))
            if kept is None:
                continue
            message = kept.deliveries.pending.get(each.delivery)
            if message is not None and message.frame is oldest:
                messages[id(message)] = message
                targets.append(each)
            elif message is None:
                frame_number, index = kept.evicted_in(each.delivery, saved.topic, each.flow)
                if frame_number == oldest.number:
                    evicted.append((kept, each.delivery, index))
                    targets.append(each)
        if retained is None and not targets:
            return  # it is dead
        if saved.expires_at:  # CLOCK comes before its new place
            now = self._journal.times.by_the_clock_now(saved.expires_at, oldest.number, offset)
            saved = saved._replace(expires_at=now)
        record = message_record.moved(saved, retained is not None, targets)
        offset = self._journal.move(list(messages.values()), record)
        for kept, delivery, index in evicted:
            kept.move_evicted(delivery, index, offset)
