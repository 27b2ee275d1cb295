"""Shared subscriptions: the queues of the groups (FC-13), by topic filter."""

from collections.abc import Callable
from typing import Any, Final, final

from broker.runtime.timers import Timer, Wheel
from broker.storage.journal import Journal
from broker.storage.kept_group import KeptGroup
from protocol.publish import Publish
from session.drops import DropLog
from session.host import NoHost
from session.limits import Limits
from session.overflow import looks_every
from session.shared_queue import SharedQueue
from session.source import Consumer

QUOTED: Final = 200
"""Characters of a group's name that a log line quotes."""
MOST_ENDED: Final = 8 * 1024 * 1024
"""Bytes of ended groups that are kept for the next export of metrics; those past that are lost, and counted."""
_ROW: Final = 1_024
"""Bytes of one with a short name, with the columns that are made of its row."""
_COPIES: Final = 5
"""Of a name, in the columns, sorted columns and buffers of an export."""


@final
class SharedQueues:
    """All groups with members."""

    def __init__(
        self,
        limits: Limits | None = None,
        log: Any = None,
        permits: Callable[[Publish], bool] | None = None,
        journal: Journal | None = None,
    ) -> None:
        """`log`: of events, or None. `permits`: whether a message may be delivered to anybody; None = each may."""
        self.queues: dict[str, SharedQueue] = {}
        """By `$share/name/filter`."""
        self.limits = Limits() if limits is None else limits
        self.dropped = 0
        """Deliveries dropped because a queue was full, for groups that no longer exist."""
        self.new_drop_log: Callable[[str], DropLog | None] | None = None
        """FC-35: who is told of the drops of a group, by its name; None = nobody."""
        self.keep_ended = False
        """Whether `ended` is exported."""
        self.on_new: Callable[[str], None] | None = None
        """Called with the name of a group that begins; None = nobody has to know."""
        self.elsewhere: dict[Consumer, list[str]] = {}
        """Groups whose queue another cell has, by the sessions of this one that are members."""
        self.ended: list[SharedQueue] = []
        """The groups with something to count that ended since the last export."""
        self.ended_bytes = 0
        """What their rows count for; set to 0 with each export."""
        self.ended_lost = 0
        self._log = log
        self._permits = permits
        self._journal = journal
        self._kept: dict[str, KeptGroup] = {}
        """For the groups that are kept (FC-27), by name."""

    def queue(self, name: str) -> SharedQueue:
        """The queue of the group `name`; it is created if there is none."""
        queue = self.queues.get(name)
        if queue is None:
            host = NoHost() if self._log is None else GroupHost(self._log, name)
            queue = self.queues[name] = SharedQueue(name, self.limits, host, self._permits)
            if self.new_drop_log is not None:
                queue.counters.drop_log = self.new_drop_log(name)
            if self.on_new is not None:
                self.on_new(name)
        return queue

    def keep(self, name: str) -> None:
        """FC-27: a kept session has joined this group, so what waits in its queue is kept too."""
        queue = self.queues.get(name)  # None = another cell has it
        if self._journal is not None and queue is not None and queue.journal is None:
            kept = KeptGroup(self._journal, self._journal.new_queue(), name)
            self._kept[name] = queue.journal = kept
            kept.write_state()

    def restore(self, queue: SharedQueue, kept: KeptGroup) -> None:
        """FC-27: the journal has this queue already, as `kept`."""
        self._kept[queue.name] = kept

    def close(self, queue: SharedQueue) -> None:
        """Remove a queue that has no members."""
        del self.queues[queue.name]
        kept = self._kept.pop(queue.name, None)
        if kept is not None:
            kept.end()
        self.dropped += queue.totals(0).overflowed
        if self.keep_ended and not queue.counters.quiet():
            size = _ROW + _COPIES * len(queue.name)
            if self.ended_bytes + size <= MOST_ENDED:
                self.ended_bytes += size
                self.ended.append(queue)
            else:
                self.ended_lost += 1


@final
class AgeTimer(Timer):
    """FC-36: drops what has waited too long in the queues of groups, which have no timers."""

    def __init__(self, shared: SharedQueues, wheel: Wheel, age: int) -> None:
        """`age`: how long something may wait, in microseconds."""
        self._shared = shared
        self._wheel = wheel
        self._period = looks_every(age)

    def start(self, now: int) -> None:
        """Look after one period, and again and again."""
        self._wheel.add(now + self._period, self)

    def due(self, now: int) -> None:
        """Look at all groups."""
        for queue in list(self._shared.queues.values()):  # a publisher that goes on may end a group
            queue.drop_aged(now)
        self.start(now)


@final
class GroupHost(NoHost):
    """Logs the reports of a group's queue. It has no connection or timer of its own; its members have."""

    def __init__(self, log: Any, name: str) -> None:
        self._log = log
        self._name = name

    def report(self, event: str, detail: str = "") -> None:
        """Log an event with the name of the group."""
        self._log.warning(event, group=self._name[:QUOTED], detail=detail)
