"""Routing: from topic names to subscribed sessions, by a dictionary, a tree and a bounded cache in front of both."""

from itertools import islice
from typing import Final, final

from broker.filter_tree import FilterTree
from protocol.errors import TopicNameInvalid
from protocol.publish import Publish
from protocol.subscribe import Subscription
from session.outbound import Outbound

CACHED_TOPICS: Final = 65_536
"""Topics whose receivers are kept ready; past that those cached first make room."""
CACHED_WEIGHT: Final = 1_000_000
"""The same for how much they hold together, in receivers: wildcards and long topics need memory."""
_RECEIVER_BYTES: Final = 64
"""Bytes of a topic name that weigh as much as a receiver."""


@final
class Route:
    """One session that a topic goes to, with the options of all its matching subscriptions together."""

    def __init__(self, outbound: Outbound, subscription: Subscription) -> None:
        self.outbound = outbound
        self.qos = subscription.qos
        self.no_local = subscription.no_local
        self.retain_as_published = subscription.retain_as_published

    def merge(self, subscription: Subscription) -> None:
        """Overlapping subscriptions give one delivery, at the highest QoS [MQTT-3.3.4-2]."""
        self.qos = max(self.qos, subscription.qos)
        self.no_local = self.no_local and subscription.no_local
        self.retain_as_published = self.retain_as_published or subscription.retain_as_published


@final
class Router:
    """Who gets what."""

    def __init__(
        self, max_topic_levels: int, cached_topics: int = CACHED_TOPICS, cached_weight: int = CACHED_WEIGHT
    ) -> None:
        self.cache: dict[bytes, list[Route]] = {}
        """Topic name to its receivers; a topic that is in here is known to be a valid name."""
        self._max_topic_levels = max_topic_levels
        self._cached_topics = cached_topics
        self._most_weight = cached_weight
        self._cached_weight = 0
        self._exact: dict[bytes, dict[Outbound, Subscription]] = {}
        self._wildcard = FilterTree()

    def route(self, publish: Publish, publisher: Outbound | None) -> bool:
        """Hand `publish` to every session that is subscribed to its topic; returns whether there is any.

        Raises TopicNameInvalid for a topic with too many levels.
        """
        routes = self.cache.get(publish.topic)
        if routes is None:
            routes = self._find(publish.topic)
        qos = publish.qos
        retain = publish.retain
        for route in routes:
            delivery = publish
            outbound = route.outbound
            if route.qos < qos or retain:
                delivery = publish.at(min(route.qos, qos), retain and route.retain_as_published)
            if route.no_local and outbound is publisher:
                continue  # [MQTT-3.8.3-3]
            outbound.mailbox.append(delivery)
            if outbound.idle:
                outbound.idle = False
                outbound.host.wake()
        return len(routes) > 0

    def subscribe(self, outbound: Outbound, topic_filter: bytes, subscription: Subscription) -> None:
        """Add a subscription, or replace that of the same session and filter [MQTT-3.8.4-3]."""
        if is_wildcard(topic_filter):
            self._wildcard.add(topic_filter, outbound, subscription)
            self._forget_all()
        else:
            subscribers = self._exact.get(topic_filter)
            if subscribers is None:
                subscribers = self._exact[topic_filter] = {}
            subscribers[outbound] = subscription
            self._forget(topic_filter)  # what is cached for other topics still holds

    def unsubscribe(self, outbound: Outbound, topic_filter: bytes) -> None:
        """Remove a subscription; nothing happens if there is none."""
        if is_wildcard(topic_filter):
            self._wildcard.remove(topic_filter, outbound)
            self._forget_all()
            return
        subscribers = self._exact.get(topic_filter)
        if subscribers is None:
            return
        subscribers.pop(outbound, None)
        if not subscribers:
            del self._exact[topic_filter]
        self._forget(topic_filter)

    def _find(self, topic: bytes) -> list[Route]:
        if topic.count(b"/") >= self._max_topic_levels:
            raise TopicNameInvalid(
                f"topic of {topic.count(b'/') + 1} levels; max_topic_levels is {self._max_topic_levels}"
            )
        found: dict[Outbound, Route] = {}
        exact = self._exact.get(topic)
        if exact is not None:
            for outbound, subscription in exact.items():
                found[outbound] = Route(outbound, subscription)
        for subscribers in self._wildcard.match(topic):
            for outbound, subscription in subscribers.items():
                route = found.get(outbound)
                if route is None:
                    found[outbound] = Route(outbound, subscription)
                else:
                    route.merge(subscription)
        routes = list(found.values())
        self._remember(topic, routes)
        return routes

    def _remember(self, topic: bytes, routes: list[Route]) -> None:
        cache = self.cache
        weight = _weight(topic, routes)
        while cache and (len(cache) >= self._cached_topics or self._cached_weight + weight > self._most_weight):
            # Many at once: looking for a dictionary's first key means passing over all that were deleted before it.
            for oldest in list(islice(cache, len(cache) // 16 + 1)):
                self._forget(oldest)
        cache[topic] = routes
        self._cached_weight += weight

    def _forget(self, topic: bytes) -> None:
        routes = self.cache.pop(topic, None)
        if routes is not None:
            self._cached_weight -= _weight(topic, routes)

    def _forget_all(self) -> None:
        self.cache.clear()
        self._cached_weight = 0


def _weight(topic: bytes, routes: list[Route]) -> int:
    """What a topic in the cache counts for, in receivers."""
    return 1 + len(routes) + len(topic) // _RECEIVER_BYTES


def is_wildcard(topic_filter: bytes) -> bool:
    """Whether a valid topic filter matches more than the one topic that it spells."""
    return b"+" in topic_filter or topic_filter.endswith(b"#")
