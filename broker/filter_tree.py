"""Topic filters with wildcards as a tree of levels: from a topic name to the subscriptions that match it [MQTT-4.7]."""

from typing import final

from protocol.subscribe import Subscription
from session.outbound import Outbound


@final
class Node:
    """One level of the filters that share their beginning."""

    def __init__(self) -> None:
        self.children: dict[bytes, Node] | None = None
        self.subscribers: dict[Outbound, Subscription] | None = None


@final
class FilterTree:
    """Subscriptions by topic filter."""

    def __init__(self) -> None:
        self._root = Node()

    def add(self, topic_filter: bytes, outbound: Outbound, subscription: Subscription) -> None:
        """Add or replace the subscription of `outbound` to `topic_filter`."""
        node = self._root
        for level in topic_filter.split(b"/"):
            children = node.children
            if children is None:
                children = node.children = {}
            child = children.get(level)
            if child is None:
                child = children[level] = Node()
            node = child
        subscribers = node.subscribers
        if subscribers is None:
            subscribers = node.subscribers = {}
        subscribers[outbound] = subscription

    def remove(self, topic_filter: bytes, outbound: Outbound) -> None:
        """Remove the subscription, and the levels that it alone kept; nothing happens if there is none."""
        node = self._root
        path: list[tuple[Node, bytes]] = []
        for level in topic_filter.split(b"/"):
            child = node.children.get(level) if node.children is not None else None
            if child is None:
                return
            path.append((node, level))
            node = child
        if node.subscribers is not None:
            node.subscribers.pop(outbound, None)
            if not node.subscribers:
                node.subscribers = None
        while path and node.subscribers is None and not node.children:
            node, level = path.pop()
            if node.children is not None:
                del node.children[level]

    def match(self, topic: bytes) -> list[dict[Outbound, Subscription]]:
        """The subscribers of every filter that matches `topic`, a dictionary a filter."""
        found: list[dict[Outbound, Subscription]] = []
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
        found: list[dict[Outbound, Subscription]],
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
                found.append(rest.subscribers)  # "#" also matches the level above it [MQTT-4.7.1-2]
        if depth == len(levels):
            if node.subscribers is not None:
                found.append(node.subscribers)
            return
        child = children.get(levels[depth])
        if child is not None:
            self._match(child, levels, depth + 1, True, found)
        if wildcards:
            child = children.get(b"+")
            if child is not None:
                self._match(child, levels, depth + 1, True, found)
