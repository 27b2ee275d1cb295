"""Finds the sessions and groups that get a message which waits for them in another journal than theirs."""

from collections.abc import Iterable
from typing import NamedTuple, final

from broker.resharding.moves import MovedQueue
from broker.routing.filter_tree import FilterTree, Subscribers
from broker.storage.saved_message import SavedMessage, Target
from protocol.subscribe import Subscription
from protocol.topics import split_share


class MovedSubscription(NamedTuple):
    """A queue with one of its subscriptions."""

    queue: MovedQueue
    subscription: Subscription
    client_id: str
    """Empty = it is that of a group."""


@final
class Routes:
    """The subscriptions of some queues."""

    def __init__(self, merge: bool) -> None:
        """`merge`: whether overlapping subscriptions of a session give one delivery; otherwise one each."""
        self._merge = merge
        self._filters = FilterTree()
        self._subscribed: dict[Subscribers, list[MovedSubscription]] = {}
        """What is subscribed to each filter of the tree, in which nobody else subscribes."""

    def add_session(self, queue: MovedQueue) -> None:
        """Add the subscriptions of a session."""
        saved = queue.saved
        assert saved is not None  # it is no group
        for name, subscription in saved.subscriptions.items():
            share, topic_filter = split_share(name)
            if not share:
                self._add(topic_filter, MovedSubscription(queue, subscription, saved.client_id))

    def add_group(self, queue: MovedQueue) -> None:
        """Add that of a group: its members look at QoS and RETAIN themselves."""
        _, topic_filter = split_share(queue.group)
        self._add(topic_filter, MovedSubscription(queue, Subscription(queue.group, 2, False, True), ""))

    def _add(self, topic_filter: bytes, subscribed: MovedSubscription) -> None:
        self._subscribed.setdefault(self._filters.at(topic_filter), []).append(subscribed)

    def targets(self, message: SavedMessage, target: Target, publisher: str = "") -> dict[int, list[Target]]:
        """The deliveries of a message by the cells they are for; `target`: that for which it has waited.

        `publisher`: a client that gets it by no subscription with No Local.
        """
        found: dict[int, list[Target]] = {}
        for queue, most, as_published, identifiers in self._receivers(message.topic, publisher):
            qos = min(most, target.qos)
            if qos:  # a journal keeps no other ones
                retain = target.retain and as_published
                own = Target(queue.number, queue.add(), qos, retain, identifiers, 0, target.flow)
                found.setdefault(queue.cell, []).append(own)
        return found

    def _receivers(self, topic: bytes, publisher: str) -> Iterable[tuple[MovedQueue, int, bool, bytes]]:
        """Queues, and the combined options of their matching subscriptions [MQTT-3.3.4-2, -3]."""
        matching = [each for found in self._filters.match(topic) for each in self._subscribed[found]]
        merged: dict[object, tuple[MovedQueue, int, bool, bytes]] = {}
        for position, (queue, own, client_id) in enumerate(matching):
            if own.no_local and publisher and client_id == publisher:
                continue
            key: object = queue if self._merge else position
            _, qos, retain, identifiers = merged.get(key, (queue, 0, False, b""))
            merged[key] = (
                queue, max(qos, own.qos), retain or own.retain_as_published, identifiers + own.identifiers
            )  # fmt: skip
        return merged.values()
