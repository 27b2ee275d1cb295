"""The list of groups of shared subscriptions (FC-13)."""

from typing import TYPE_CHECKING, Final

from broker.admin.listing import Key, Listing, shortened
from session.shared_queue import SharedQueue

if TYPE_CHECKING:
    from broker.routing.shared_groups import SharedGroups


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
    counters = group.counters
    return counters.dropped_qos0 + counters.dropped_qos1 + counters.dropped_qos2


def patience(group: SharedQueue, now: int) -> int:
    """Microseconds for which publishers have been paced for the group (FC-16)."""
    return group.paced_for(now)


_KEYS: Final[dict[str, Key[SharedQueue]]] = {
    "mqueue": mqueue,
    "bytes": queued_bytes,
    "drops": drops,
    "patience": patience,
}


class GroupListing(Listing[SharedQueue]):
    """All groups with members."""

    columns = ("group", "members", "mqueue_len", "mqueue_bytes", "offered", "sent", "dropped", "paced_for_us")
    keys = _KEYS
    default = "mqueue"

    def __init__(self, shared: "SharedGroups") -> None:
        self._queues = shared.queues

    def items(self) -> list[SharedQueue]:
        """All groups."""
        return list(self._queues.values())

    def is_there(self, item: SharedQueue) -> bool:
        """Whether the group still has members."""
        return self._queues.get(item.name) is item

    def row(self, item: SharedQueue, now: int) -> list[object]:
        """The cells of one group. `sent` is what members have pulled."""
        counters = item.counters
        return [
            shortened(item.name),
            len(item.members),
            mqueue(item, now),
            queued_bytes(item, now),
            counters.offered_qos0 + counters.offered_qos1 + counters.offered_qos2,
            counters.sent_qos0 + counters.sent_qos1 + counters.sent_qos2,
            drops(item, now),
            patience(item, now),
        ]
