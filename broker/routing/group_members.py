"""Members of groups that are no sessions of this cell: other cells serve them (broker/cluster)."""

from broker.routing.router import Router
from protocol.subscribe import Subscription
from protocol.topics import split_share
from session.shared_queue import SharedQueue
from session.source import Consumer


def join_group(router: Router, consumer: Consumer, subscription: Subscription) -> SharedQueue:
    """Add one to a group, or change its options; returns the group's queue."""
    share, topic_filter = split_share(subscription.topic_filter)
    group = router.subscribers(topic_filter).group(share, subscription.topic_filter, router.shared)
    group.add(consumer, subscription)
    return group


def found_group(router: Router, name: str) -> SharedQueue:
    """A group that may have members elsewhere only; it is created if there is none."""
    share, topic_filter = split_share(name)
    return router.subscribers(topic_filter).group(share, name, router.shared)


def end_unused_groups(router: Router) -> None:
    """End groups that turn out to have no members."""
    for queue in list(router.shared.queues.values()):
        if not queue.members:
            share, topic_filter = split_share(queue.name)
            subscribers = router.subscribers(topic_filter)
            subscribers.end_unused(share, router.shared)
            router.removed_from(topic_filter, subscribers, True)


def leave_group(router: Router, consumer: Consumer, name: str) -> None:
    """Remove one from its group; nothing happens if it is not there."""
    if name in router.shared.queues:
        share, topic_filter = split_share(name)
        subscribers = router.subscribers(topic_filter)
        subscribers.leave(share, consumer, router.shared)
        router.removed_from(topic_filter, subscribers, True)
