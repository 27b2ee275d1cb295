"""Reading deliveries back that are on disk only (FC-30), also those that were dropped there, to be told (FC-35)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, final

from broker.storage import message_record
from broker.storage.index import Entry
from broker.storage.journal import Journal
from broker.storage.records import DamagedError
from broker.storage.saved import to_publish
from protocol.publish import Publish
from session.drops import DropLog
from session.tail import dropped

if TYPE_CHECKING:
    from broker.storage.kept_queue import KeptQueue

COST: Final = 512
"""Bytes of memory that an `Unread` takes."""


def delivery_of(journal: Journal, queue: int, entry: Entry, body: bytes) -> Publish:
    """The delivery to the queue of this number, from the body of its message's record. Raises DamagedError."""
    saved = message_record.read(body)
    for target in saved.targets:
        if target.session == queue and target.delivery == entry.delivery:
            break
    else:
        raise DamagedError(f"the message at byte {entry.offset} of frame {entry.frame} is not for {queue}")
    publish = to_publish(saved)
    publish.received_at = entry.received_at
    journal.restore_expiry(publish, saved.expires_at, entry.frame, entry.offset, entry.received_at)
    publish.flow = target.flow
    publish = publish.at(target.qos, target.retain)
    return publish.identified(target.identifiers) if target.identifiers else publish


@final
class Unread:
    """A delivery that was dropped unread. Until `forget` its frame stays on disk, and it is not done."""

    def __init__(self, queue: "KeptQueue", entry: Entry) -> None:
        self.entry = entry
        self._queue = queue
        self._frame = queue.journal.frames[entry.frame]
        self._frame.unread += 1
        queue.unread += 1

    def forget(self) -> None:
        """It is read, or nobody wants to."""
        self._frame.unread -= 1
        queue = self._queue
        queue.unread -= 1
        queue.note_evicted_done(self.entry)
        if queue.former:
            queue.end()

    def read(self, body: bytes) -> Publish:
        """The delivery. Raises DamagedError."""
        return delivery_of(self._queue.journal, self._queue.number, self.entry, body)


def tell_rest(queue: "KeptQueue", log: DropLog) -> None:
    """The broker has begun: tell what had not been told of a queue that had ended before (FC-35)."""
    queue.former = True
    for lane in queue.evicted.lanes():
        index = queue.evicted.index(lane)
        while index.length:
            entry = queue.drop_evicted(index.first(), index, False)
            log.tell("session_ended", dropped(entry.qos, entry.size, Unread(queue, entry)))
    queue.end()


async def read_unread(journal: Journal, some: Sequence[Unread]) -> list[Publish]:
    """These deliveries, which are forgotten then. Raises StorageError, DamagedError."""
    reader = journal.reader
    assert reader is not None  # else nothing is on disk only
    entries = [each.entry for each in some]
    bodies = await reader.read(entries)
    while not all(bodies):  # a frame is not written yet
        await journal.commits.reach()
        bodies = await reader.read(entries)
        if not all(bodies):
            raise DamagedError(f"frame {entries[bodies.index(b'')].frame} is not there any more")
    found = [each.read(body) for each, body in zip(some, bodies, strict=True)]
    for each in some:
        each.forget()
    return found
