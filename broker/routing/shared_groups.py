"""Shared subscriptions: the queues of the groups (FC-13), by the filters that their members subscribe to."""

from typing import TYPE_CHECKING, Final, final

from protocol.errors import MalformedPacket
from protocol.topics import parse_share
from session.host import Host, Nobody
from session.limits import Limits
from session.shared_queue import SharedQueue

if TYPE_CHECKING:
    from broker.broker import Broker

QUOTED: Final = 200
"""Characters of a group's name that a log line quotes."""


@final
class SharedGroups:
    """All groups that have a member."""

    def __init__(self, limits: Limits | None = None, host: Host | None = None) -> None:
        self.queues: dict[str, SharedQueue] = {}
        """By `$share/name/filter`."""
        self.dropped = 0
        """Deliveries dropped by an overflow of queues that are no longer there."""
        self._limits = Limits() if limits is None else limits
        self._host = Nobody() if host is None else host

    def queue(self, name: str) -> SharedQueue:
        """The queue of the group `name`, made if it is new."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = SharedQueue(name, self._limits, self._host)
        return queue

    def close(self, queue: SharedQueue) -> None:
        """Forget a queue that nobody shares any more."""
        del self.queues[queue.name]
        self.dropped += queue.counters.dropped_queue_full


@final
class GroupsHost(Host):
    """Logs what queues of groups report. They write nothing and need no timer: their members do."""

    def __init__(self, broker: "Broker") -> None:
        self.broker = broker

    def wake(self) -> None:
        """A queue of a group has no mailbox that would wait for a pass."""

    def report_group(self, event: str, group: str, detail: str) -> None:
        """Log it, with the name of the group."""
        self.broker.log.warning(event, group=group[:QUOTED], detail=detail)


def split_share(topic_filter: str) -> tuple[str, bytes]:
    """The share name (empty = not shared) and the filter that topics are matched with.

    A malformed shared filter gets here from 3.1.1 only, where it is a filter like any other.
    """
    try:
        shared = parse_share(topic_filter)
    except MalformedPacket:
        shared = None
    if shared is None:
        return "", topic_filter.encode()
    return shared[0], shared[1].encode()
