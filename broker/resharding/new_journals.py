"""Writes the new journals (FC-27)."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, final

from broker.cluster.cell import journal_of
from broker.resharding.moves import Moves
from broker.resharding.old_journal import OldJournal
from broker.resharding.progress import Progress
from broker.resharding.retained import newest
from broker.resharding.unrouted import Unrouted
from broker.storage import message_record, records
from broker.storage.commits import MOST_WAITING
from broker.storage.frame import HEAD_SIZE
from broker.storage.index import SHIFT
from broker.storage.making import NewFrames, NewJournal
from broker.storage.saved_message import SavedMessage, Target

_LEAST: Final = 64 * 1024
"""Bytes of a frame at least, however many journals share the memory for them."""


@final
class NewJournals:
    """The journals of all cells, in a folder. Methods raise StorageError."""

    def __init__(self, frames: list[NewFrames]) -> None:
        self.messages = 0
        """Deliveries that have been written."""
        self._frames = frames

    def write(self, journals: list[OldJournal], moves: Moves, unrouted: Unrouted, progress: Progress) -> None:
        """Write what is in the old journals."""
        for queue in moves.queues:
            for record in queue.state():
                self._frames[queue.cell - 1].add(record)
        for journal in journals:
            self._copy(journal, moves, progress)
        for message, targets in unrouted.routed():  # it comes behind what the same queues had
            self._add(message, targets)
            progress.tell()
        for journal, place in newest(journals, unrouted):
            self._retain(journal.message_at(place.place))
            progress.tell()
        for message in unrouted.paged.values():
            if message.payload:
                self._retain(message)
        for frames in self._frames:
            frames.end()

    def _copy(self, journal: OldJournal, moves: Moves, progress: Progress) -> None:
        """Write the deliveries of queues that move as they are."""
        for number, content in journal.frames():
            for kind, start, end in records.positions(content, HEAD_SIZE):
                if kind != records.MESSAGE:
                    continue
                offset = start - records.HEAD_SIZE
                place = number << SHIFT | offset
                if any(journal.has(own, delivery, place) for own, delivery, *_ in _targets(content, start, end)):
                    message = journal.by_the_clock_now(message_record.read(content[start:end]), number, offset)
                    self._add(message, _moved(message, journal, place, moves))
            progress.add(len(content))

    def _add(self, message: SavedMessage, targets: dict[int, list[Target]]) -> None:
        if targets:
            message = message._replace(publisher="")  # only a retained one is asked for it
        for cell, own in targets.items():
            self._frames[cell - 1].add(message_record.moved(message, False, own))
            self.messages += len(own)

    def _retain(self, message: SavedMessage) -> None:
        for frames in self._frames:
            frames.add(message_record.moved(message, True, []))


@contextmanager
def making(folder: Path, cells: int) -> Iterator[NewJournals]:
    """New journals in this folder, which are on disk at the end. Raises StorageError."""
    most = max(MOST_WAITING // cells, _LEAST)
    with ExitStack() as stack:
        frames: list[NewFrames] = []
        for number in range(1, cells + 1):
            new = NewJournal(journal_of(folder, number), most)
            stack.callback(new.close)
            frames.append(NewFrames(new, most))
        yield NewJournals(frames)


def _targets(content: bytes, start: int, end: int) -> list[tuple[int, int, int, int, int]]:
    return message_record.scan(content, start, end).targets


def _moved(message: SavedMessage, journal: OldJournal, place: int, moves: Moves) -> dict[int, list[Target]]:
    """Those of a message's deliveries that are not done, and move, by their cells."""
    found: dict[int, list[Target]] = {}
    for each in message.targets:
        moved = moves.of(journal, each.session)
        if moved is None or not journal.has(each.session, each.delivery, place):
            continue
        queue, shift = moved
        group = moves.group_of(journal, each.group, queue.cell) if each.group else 0
        own = each._replace(session=queue.number, delivery=each.delivery + shift, group=group)
        found.setdefault(queue.cell, []).append(own)
    return found
