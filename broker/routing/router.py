"""Routing: finds the subscribers of a topic in a bounded cache, else in a dictionary and a filter tree."""

from itertools import islice
from typing import Final, final

from broker.addresses.book import AddressBook
from broker.auth.authorizer import Authorizer
from broker.auth.topic_rules import TopicRules
from broker.connection.replies import not_permitted
from broker.routing.filter_tree import FilterTree, Subscribers
from broker.routing.receivers import Receivers, Route
from broker.routing.shared_groups import SharedGroups, split_share
from protocol.errors import TopicNameInvalid
from protocol.publish import Publish
from protocol.subscribe import Subscription
from session.address import Address
from session.outbound import Outbound

NOBODY: Final = 0
"""The topic has no subscription."""
MATCHED: Final = 1
"""The message has been offered to each subscription."""
FULL: Final = 2
"""The topic's address is full: the message is not routed (FC-24)."""

CACHED_TOPICS: Final = 65_536
"""Topics whose receivers are cached; past that the oldest are evicted."""
CACHED_WEIGHT: Final = 1_000_000
"""The limit of the cache in receivers: wildcards and long topics need memory."""
_RECEIVER_BYTES: Final = 64
"""Bytes of a topic name that count as one receiver."""


@final
class Router:
    """Keeps the subscriptions and delivers messages to the sessions that match."""

    def __init__(  # noqa: PLR0913, PLR0917 - one per part, made in one place
        self,
        max_topic_levels: int,
        merge: bool = True,
        cached_topics: int = CACHED_TOPICS,
        cached_weight: int = CACHED_WEIGHT,
        topic_rules: TopicRules | None = None,
        shared: SharedGroups | None = None,
        addresses: AddressBook | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self.cache: dict[bytes, Receivers] = {}
        """Receivers by topic name; a cached topic is a valid name."""
        self._max_topic_levels = max_topic_levels
        self._topic_rules = TopicRules() if topic_rules is None else topic_rules
        self.shared = SharedGroups() if shared is None else shared
        self.addresses = AddressBook([]) if addresses is None else addresses
        self._authorizer = authorizer
        """None = all clients may receive the same."""
        self._merge = merge
        """Whether overlapping subscriptions of a session give one delivery; otherwise one each [MQTT-3.3.4-2]."""
        self._cached_topics = cached_topics
        self._most_weight = cached_weight
        self._cached_weight = 0
        self._exact: dict[bytes, Subscribers] = {}
        self._wildcard = FilterTree()

    def route(self, publish: Publish, publisher: Outbound | None) -> int:
        """Offer `publish` to every session that is subscribed to its topic; returns NOBODY, MATCHED or FULL.

        `publisher` is None for the broker itself. Raises TopicNameInvalid for a topic with too many levels, and
        PublishRefused where clients may not publish.
        """
        receivers = self.cache.get(publish.topic)
        if receivers is None:
            receivers = self._find(publish.topic)
        routes = receivers.routes
        qos = publish.qos
        retain = publish.retain
        for route in routes:
            delivery = publish
            if route.qos < qos or retain:
                delivery = publish.at(min(route.qos, qos), retain and route.retain_as_published)
            route.outbound.offer(delivery, publisher)
        if receivers.others:
            if publisher is not None:
                if receivers.closed:
                    raise not_permitted(publish.topic)
                address = receivers.address
                if address is not None and (
                    address.waiting  # FC-25: first in, first out
                    or not address.fits(receivers.size(publish, publisher))  # FC-24
                ):
                    return FULL
            publish.holder = receivers.address
            receivers.deliver_to_others(publish, publisher)
            return MATCHED if receivers.address is None or len(receivers) > 0 else NOBODY
        return MATCHED if routes else NOBODY

    def route_late(self, publish: Publish, publisher: Outbound | None) -> int:
        """Route without the checks for permission and for room in the address; returns NOBODY or MATCHED."""
        receivers = self._receivers(publish.topic)
        publish.holder = receivers.address
        receivers.deliver_to_others(publish, publisher)
        return MATCHED if len(receivers) > 0 else NOBODY

    def size(self, publish: Publish, publisher: Outbound | None) -> int:
        """Payload bytes that a message would add to its address."""
        return self._receivers(publish.topic).size(publish, publisher)

    def address(self, topic: bytes) -> Address | None:
        """The address of a topic; None if the topic has no limit."""
        return self.addresses.find(topic, self.cache)

    def restore_address(self, topic: bytes) -> Address:
        """The address of a topic that had pages before the process began (FC-26)."""
        return self.addresses.restore(topic, self.cache)

    def subscribe(self, outbound: Outbound, subscription: Subscription) -> None:
        """Add a subscription; it replaces one of the same session and filter [MQTT-3.8.4-3]."""
        share, topic_filter = split_share(subscription.topic_filter)
        if is_wildcard(topic_filter):
            self._wildcard.at(topic_filter).add(share, outbound, subscription, self.shared)
            self._forget_all()
            return
        subscribers = self._exact.get(topic_filter)
        if subscribers is None:
            subscribers = self._exact[topic_filter] = Subscribers()
        subscribers.add(share, outbound, subscription, self.shared)
        self._forget(topic_filter)  # the cache entries of other topics stay valid

    def unsubscribe(self, outbound: Outbound, subscribed: str) -> None:
        """Remove the subscription with the filter `subscribed`; nothing happens if there is none."""
        share, topic_filter = split_share(subscribed)
        wildcard = is_wildcard(topic_filter)
        subscribers = self._wildcard.get(topic_filter) if wildcard else self._exact.get(topic_filter)
        if subscribers is None:
            return
        subscribers.remove(share, outbound, self.shared)
        if wildcard:
            if subscribers.empty():
                self._wildcard.forget(topic_filter)
            self._forget_all()
        else:
            if subscribers.empty():
                del self._exact[topic_filter]
            self._forget(topic_filter)

    def forget_topics(self) -> None:
        """Find the receivers of each topic anew: permissions have changed."""
        self._forget_all()

    def _receivers(self, topic: bytes) -> Receivers:
        receivers = self.cache.get(topic)
        return self._find(topic) if receivers is None else receivers

    def _find(self, topic: bytes) -> Receivers:
        if topic.count(b"/") >= self._max_topic_levels:
            raise TopicNameInvalid(
                f"PUBLISH to a topic of {topic.count(b'/') + 1} levels; at most {self._max_topic_levels} are accepted"
            )
        receivers = Receivers()
        if not self._topic_rules.may_publish(topic):
            receivers.close()
        address = self.address(topic)
        if address is not None:
            receivers.limit(address)
        if self._topic_rules.may_receive(topic):
            self._fill(receivers, topic)
        self._remember(topic, receivers)
        return receivers

    def _fill(self, receivers: Receivers, topic: bytes) -> None:
        matching = self._wildcard.match(topic)
        exact = self._exact.get(topic)
        if exact is not None:
            matching.append(exact)
        for route in self._routes(matching, topic):
            receivers.add(route)
        for subscribers in matching:
            if subscribers.groups is not None:
                for group in subscribers.groups.values():
                    receivers.add_group(group)

    def _routes(self, matching: list[Subscribers], topic: bytes) -> list[Route]:
        """The routes: one per session (`_merge`), or one per subscription, of clients that may receive the topic."""
        routes: list[Route] = []
        found: dict[Outbound, Route] = {}
        authorizer = self._authorizer
        for subscribers in matching:
            for outbound, subscription in subscribers.sessions.items():
                if authorizer is not None and not authorizer.may_receive(outbound, topic, subscription.qos):
                    continue
                route = found.get(outbound)
                if route is not None and self._merge:
                    route.merge(subscription)
                else:
                    route = found[outbound] = Route(outbound, subscription)
                    routes.append(route)
        return routes

    def _remember(self, topic: bytes, receivers: Receivers) -> None:
        cache = self.cache
        weight = _weight(topic, receivers)
        while cache and (len(cache) >= self._cached_topics or self._cached_weight + weight > self._most_weight):
            # Evict many at once: the search for a dictionary's first key passes all keys deleted before it.
            for oldest in list(islice(cache, len(cache) // 16 + 1)):
                self._forget(oldest)
        cache[topic] = receivers
        self._cached_weight += weight

    def _forget(self, topic: bytes) -> None:
        receivers = self.cache.pop(topic, None)
        if receivers is not None:
            self._cached_weight -= _weight(topic, receivers)

    def _forget_all(self) -> None:
        self.cache.clear()
        self._cached_weight = 0


def _weight(topic: bytes, receivers: Receivers) -> int:
    """The weight of a cached topic, in receivers."""
    return 1 + len(receivers) + len(topic) // _RECEIVER_BYTES


def is_wildcard(topic_filter: bytes) -> bool:
    """Whether a valid topic filter has a wildcard."""
    return b"+" in topic_filter or topic_filter.endswith(b"#")
