"""Which cell each session and group moves to, and its number there.

A session goes to the home of its client, and its deliveries keep their numbers. What waits for a group goes to the home
of the group's name. A group without members ends.
"""

from collections.abc import Iterable, Iterator
from typing import final

from broker.cluster.cell import number_of
from broker.cluster.slots import home_of
from broker.resharding.old_journal import OldJournal
from broker.storage import records
from broker.storage.saved import SavedSession
from protocol.topics import split_share


@final
class MovedQueue:
    """A session or group in its new journal."""

    def __init__(self, cell: int, number: int, saved: SavedSession | None, group: str = "") -> None:
        """`saved`: what it was; None = it is a group."""
        self.cell = cell
        self.number = number
        self.saved = saved
        self.group = group
        self.next_delivery = 0 if saved is None else saved.next_delivery

    def state(self) -> list[bytes]:
        """The records of it, except its deliveries."""
        if self.saved is not None:
            return self.saved.state(self.number)
        return [records.group(self.number, self.group, self.next_delivery)]

    def add(self) -> int:
        """It gets one more delivery; returns its number."""
        number = self.next_delivery
        self.next_delivery += 1
        return number


@final
class Moves:
    """The queues of all new journals."""

    def __init__(self, journals: Iterable[OldJournal], cells: int) -> None:
        self.queues: list[MovedQueue] = []
        """Each after those that were there before it: of groups with one name the last one goes on."""
        self._live: dict[int, list[MovedQueue]] = {}
        """By the number of a journal: the groups that go on of which it has a queue."""
        self.sessions = 0
        self._cells = cells
        self._numbers = [0] * (cells + 1)
        self._moved: dict[tuple[int, int], tuple[MovedQueue, int]] = {}
        """By journal and number: the queue, and what is added to the numbers of its deliveries."""
        self._groups: dict[tuple[int, str], MovedQueue] = {}
        """Those that go on, by cell and name."""
        every = list(journals)
        names = sorted({name for journal in every for name in self._move_sessions(journal)})
        live: dict[str, list[tuple[OldJournal, SavedSession]]] = {}
        for journal in every:
            newest = {each.group: each for each in _by_number(journal) if each.group}
            for each in _by_number(journal):
                if each.group and each is newest[each.group] and each.group in names:
                    live.setdefault(each.group, []).append((journal, each))
                elif each.group:
                    self._join(self._new(home_of(each.group, cells), None, each.group), journal, each)
        for name in names:
            cell = home_of(name, cells)
            queue = self._groups[cell, name] = self._new(cell, None, name)
            for journal, each in live.get(name, []):
                self._join(queue, journal, each)
                self._live.setdefault(journal.number, []).append(queue)

    def _move_sessions(self, journal: OldJournal) -> Iterator[str]:
        """Move its sessions; returns the groups of which they are members."""
        for each in _by_number(journal):
            if each.group or each.topic or number_of(each.client_id):
                continue
            home = home_of(each.client_id, self._cells)
            queue = self._new(home, each)
            self._moved[journal.number, each.number] = queue, 0
            self.sessions += not each.is_will() and not each.is_former()
            for name in () if each.is_former() else each.subscriptions:
                if split_share(name)[0]:
                    yield name

    def _new(self, cell: int, saved: SavedSession | None, group: str = "") -> MovedQueue:
        self._numbers[cell] += 1
        queue = MovedQueue(cell, self._numbers[cell], saved, group)
        self.queues.append(queue)
        return queue

    def _join(self, queue: MovedQueue, journal: OldJournal, saved: SavedSession) -> None:
        """What waits in a group of an old journal comes behind what the new one has by now."""
        shift = queue.next_delivery - saved.first_delivery
        self._moved[journal.number, saved.number] = queue, shift
        queue.next_delivery = saved.next_delivery + shift

    def of(self, journal: OldJournal, number: int) -> tuple[MovedQueue, int] | None:
        """Where a queue goes, and what is added to the numbers of its deliveries; None = it does not move as such."""
        return self._moved.get((journal.number, number))

    def group_of(self, journal: OldJournal, number: int, cell: int) -> int:
        """The number in this cell of the group that had this one; 0 = it has none there."""
        saved = journal.saved.sessions.get(number)
        queue = self._groups.get((cell, saved.group)) if saved is not None and saved.group else None
        return 0 if queue is None else queue.number

    def groups_of(self, journals: Iterable[OldJournal]) -> list[MovedQueue]:
        """The groups that go on of which they have queues."""
        found = [queue for journal in journals for queue in self._live.get(journal.number, [])]
        return list(dict.fromkeys(found))


def _by_number(journal: OldJournal) -> list[SavedSession]:
    return [each for _, each in sorted(journal.saved.sessions.items())]
