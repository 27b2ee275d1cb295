"""The list of groups of shared subscriptions (FC-13)."""

from typing import TYPE_CHECKING, Final

from broker.admin.listing import Filter, Key, Listing, shortened
from broker.admin.rows import GroupRow
from session.shared_queue import SharedQueue

if TYPE_CHECKING:
    from broker.routing.shared_queues import SharedQueues


def mqueue(group: SharedQueue, now: int) -> int:
    """Deliveries in the group's mqueue."""
    queue = group.mqueue
    return queue.length if queue is not None else 0


def queued_bytes(group: SharedQueue, now: int) -> int:
    """Payload bytes in the mqueue."""
    queue = group.mqueue
    return queue.bytes if queue is not None else 0


def drops(group: SharedQueue, now: int) -> int:
    """Deliveries that the group's queue has dropped, for any reason."""
    return group.totals(now).dropped


def patience(group: SharedQueue, now: int) -> int:
    """Microseconds for which publishers have been paced for the group (FC-16)."""
    return group.totals(now).paced_for_us


_KEYS: Final[dict[str, Key[SharedQueue]]] = {
    "mqueue": mqueue,
    "bytes": queued_bytes,
    "drops": drops,
    "patience": patience,
}


def _names(group: SharedQueue, part: str) -> bool:
    return part in group.name


_FILTERS: Final[dict[str, Filter[SharedQueue]]] = {"group": _names}


class GroupListing(Listing[SharedQueue]):
    """All groups with members."""

    row_type = GroupRow
    keys = _KEYS
    filters = _FILTERS
    default = "mqueue"

    def __init__(self, shared: "SharedQueues") -> None:
        self._queues = shared.queues

    def items(self) -> list[SharedQueue]:
        """All groups."""
        return list(self._queues.values())

    def is_there(self, item: SharedQueue) -> bool:
        """Whether the group still has members."""
        return self._queues.get(item.name) is item

    def name(self, item: SharedQueue) -> str:
        """`$share/group/filter`."""
        return item.name

    def row(self, item: SharedQueue, now: int) -> GroupRow:
        """One group."""
        totals = item.totals(now)
        return GroupRow(
            group=shortened(item.name),
            members=len(item.members),
            mqueue_len=mqueue(item, now),
            mqueue_bytes=queued_bytes(item, now),
            offered=totals.offered,
            sent=totals.sent,
            dropped=totals.dropped,
            paced_for_us=totals.paced_for_us,
        )
