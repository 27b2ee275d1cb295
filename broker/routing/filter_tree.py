"""Topic filters with wildcards as a tree of levels: finds the subscribers of all filters that match a topic
(section 4.7).
"""

from typing import Final, final

from broker.routing.receivers import Receivers
from broker.routing.shared_queues import SharedQueues
from protocol.subscribe import Subscription
from session.outbound import Outbound
from session.overflow import drop_all
from session.shared_queue import SharedQueue
from session.source import Consumer

NOT_SHARED: Final = ""
"""The share name of a subscription that is not shared: a real one is never empty [MQTT-4.8.2-1]."""


@final
class Subscribers:
    """The subscriptions to one topic filter. Millions of filters have one: only for more there are dictionaries."""

    def __init__(self) -> None:
        # What a message to a topic of one session needs comes first: with millions of topics each cache line counts.
        self.only: Outbound | None = None
        """The session, if there is exactly one and never were more."""
        self.alone_in = 0
        """The router's generation in which a message to this topic is just to be offered to `only`; 0 = none."""
        self.qos = 0
        """Its subscription's, once it is alone."""
        self.retain_as_published = False
        """The same."""
        self.receivers: Receivers | None = None
        """The receivers of this topic, while the router has them cached."""
        self.subscription: Subscription | None = None
        """Its subscription."""
        self.sessions: dict[Outbound, Subscription] | None = None
        """All of them, once there have been two at a time."""
        self.groups: dict[str, SharedQueue] | None = None
        """By share name; None until there is one."""

    def has(self, outbound: Outbound) -> bool:
        """Whether a session has a subscription that is not shared."""
        return self.only is outbound if self.sessions is None else outbound in self.sessions

    def of_clients(self) -> bool:
        """Whether there is one that is not of a link to another cell."""
        if self.groups or (self.only is not None and not self.only.sender.limits.of_cell):
            return True
        return self.sessions is not None and any(not each.sender.limits.of_cell for each in self.sessions)

    def add(self, share: str, outbound: Outbound, subscription: Subscription, shared: SharedQueues) -> None:
        """Add a subscription; it replaces one of the same session and share name."""
        if share == NOT_SHARED:
            sessions = self.sessions
            if sessions is not None:
                sessions[outbound] = subscription
            elif self.only is None or self.only is outbound:
                self.only = outbound
                self.subscription = subscription
            else:
                assert self.subscription is not None  # it is that of `only`
                self.sessions = {self.only: self.subscription, outbound: subscription}
                self.only = self.subscription = None
            return
        self.group(share, subscription.topic_filter, shared).add(outbound, subscription)

    def group(self, share: str, name: str, shared: SharedQueues) -> SharedQueue:
        """The group with this share name, of `$share/group/filter`; it is created if there is none."""
        if self.groups is None:
            self.groups = {}
        group = self.groups.get(share)
        if group is None:
            group = self.groups[share] = shared.queue(name)
        return group

    def remove(self, share: str, outbound: Outbound, shared: SharedQueues) -> None:
        """Remove a subscription; nothing happens if there is none."""
        if share == NOT_SHARED:
            if self.sessions is not None:
                self.sessions.pop(outbound, None)
            elif self.only is outbound:
                self.only = self.subscription = None
            return
        self.leave(share, outbound, shared)

    def leave(self, share: str, consumer: Consumer, shared: SharedQueues) -> None:
        """A member leaves a group; nothing happens if there is none."""
        group = None if self.groups is None else self.groups.get(share)
        if group is not None:
            group.remove(consumer)
            self.end_unused(share, shared)

    def end_unused(self, share: str, shared: SharedQueues) -> None:
        """End a group if it has no members."""
        if self.groups is not None and share in self.groups and not self.groups[share].members:
            group = self.groups.pop(share)
            drop_all(group.mqueue, group.counters)
            shared.close(group)

    def empty(self) -> bool:
        """Whether there are no subscriptions."""
        return self.only is None and not self.sessions and not self.groups

    def is_simple(self) -> bool:
        """Whether a message is to be offered to one session, by its QoS and RETAIN only."""
        subscription = self.subscription
        return (
            subscription is not None
            and self.groups is None
            and not subscription.no_local
            and subscription.identifiers == b""
        )

    def tells(self) -> bool:
        """FC-34: whether the queue of a session or group tells publishers that it is full."""
        if self.only is not None and self.only.sender.limits.backpressure:
            return True
        if self.sessions is not None and any(each.sender.limits.backpressure for each in self.sessions):
            return True
        return self.groups is not None and any(group.limits.backpressure for group in self.groups.values())

    def each(self) -> list[tuple[Outbound, Subscription]]:
        """The subscriptions that are not shared."""
        if self.sessions is not None:
            return list(self.sessions.items())
        if self.only is None or self.subscription is None:
            return []
        return [(self.only, self.subscription)]


@final
class Node:
    """One level of all filters that have the same levels before it."""

    def __init__(self) -> None:
        self.children: dict[bytes, Node] | None = None
        self.subscribers: Subscribers | None = None

    def is_unused(self) -> bool:
        """Whether no filter uses this level."""
        return self.subscribers is None and not self.children


@final
class FilterTree:
    """Subscribers by topic filter."""

    def __init__(self) -> None:
        self._root = Node()

    def is_empty(self) -> bool:
        """Whether there are no filters."""
        return not self._root.children

    def at(self, topic_filter: bytes) -> Subscribers:
        """The subscribers of a filter; an entry is created if there is none."""
        node = self._root
        for level in topic_filter.split(b"/"):
            children = node.children
            if children is None:
                children = node.children = {}
            child = children.get(level)
            if child is None:
                child = children[level] = Node()
            node = child
        if node.subscribers is None:
            node.subscribers = Subscribers()
        return node.subscribers

    def get(self, topic_filter: bytes) -> Subscribers | None:
        """The subscribers of a filter; None if there are none."""
        node = self._root
        for level in topic_filter.split(b"/"):
            child = node.children.get(level) if node.children is not None else None
            if child is None:
                return None
            node = child
        return node.subscribers

    def forget(self, topic_filter: bytes) -> None:
        """Remove a filter without subscribers and the levels that only it used. It must exist."""
        node = self._root
        path: list[tuple[Node, bytes]] = []
        for level in topic_filter.split(b"/"):
            assert node.children is not None
            path.append((node, level))
            node = node.children[level]
        node.subscribers = None
        for parent, level in reversed(path):
            if not node.is_unused():
                break
            assert parent.children is not None
            del parent.children[level]
            node = parent

    def match(self, topic: bytes) -> list[Subscribers]:
        """The subscribers of every filter that matches `topic`."""
        found: list[Subscribers] = []
        if self._root.children:
            levels = topic.split(b"/")
            self._match(self._root, levels, 0, not topic.startswith(b"$"), found)
        return found

    def _match(
        self,
        node: Node,
        levels: list[bytes],
        depth: int,
        wildcards: bool,
        found: list[Subscribers],
    ) -> None:
        """`wildcards` is False at the first level of a `$` topic only [MQTT-4.7.2-1]."""
        children = node.children
        if children is None:
            if depth == len(levels) and node.subscribers is not None:
                found.append(node.subscribers)
            return
        if wildcards:
            rest = children.get(b"#")
            if rest is not None and rest.subscribers is not None:
                found.append(rest.subscribers)  # "#" also matches the level above it (section 4.7.1.2)
        if depth == len(levels):
            if node.subscribers is not None:
                found.append(node.subscribers)
            return
        child = children.get(levels[depth])
        if child is not None:
            self._match(child, levels, depth + 1, True, found)
        if wildcards:
            plus = children.get(b"+")
            if plus is not None and plus is not child:  # the same if `topic` is a filter with "+" at this level
                self._match(plus, levels, depth + 1, True, found)
