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

    def __init__(self, max_topic_levels: int, cached_topics: int = CACHED_TOPICS) -> None:
        self.cache: dict[bytes, list[Route]] = {}
        """Topic name to its receivers; a topic that is in here is known to be a valid name."""
        self._max_topic_levels = max_topic_levels
        self._cached_topics = cached_topics
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
            self.cache.clear()
        else:
            subscribers = self._exact.get(topic_filter)
            if subscribers is None:
                subscribers = self._exact[topic_filter] = {}
            subscribers[outbound] = subscription
            self.cache.pop(topic_filter, None)  # what is cached for other topics still holds

    def unsubscribe(self, outbound: Outbound, topic_filter: bytes) -> None:
        """Remove a subscription; nothing happens if there is none."""
        if is_wildcard(topic_filter):
            self._wildcard.remove(topic_filter, outbound)
            self.cache.clear()
            return
        subscribers = self._exact.get(topic_filter)
        if subscribers is None:
            return
        subscribers.pop(outbound, None)
        if not subscribers:
            del self._exact[topic_filter]
        self.cache.pop(topic_filter, None)

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
        cache = self.cache
        if len(cache) >= self._cached_topics:
            # Many at once: looking for a dictionary's first key means passing over all that were deleted before it.
            for oldest in list(islice(cache, self._cached_topics // 16 + 1)):
                del cache[oldest]
        cache[topic] = routes
        return routes


def is_wildcard(topic_filter: bytes) -> bool:
    """Whether a valid topic filter matches more than the one topic that it spells."""
    return b"+" in topic_filter or topic_filter.endswith(b"#")
