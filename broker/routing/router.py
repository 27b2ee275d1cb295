"""Routing: finds the subscribers of a topic in one dictionary, else in a filter tree.

The dictionary has the topics of all subscriptions without wildcards, and the cached topics, whose number is bounded. A
topic that only one session gets, by a subscription to just that topic, needs no cache: the dictionary says so. Else
a cached topic costs least, but to find its receivers, to remember them and to forget others for them costs more than a
delivery. So a message whose receivers are one or two sessions is offered to them as they are found, and of the topics
for which this is done, one in CACHED_ONE_IN is cached: those with many messages soon are.
"""

from typing import Final, final

from broker.auth.authorizer import Authorizer
from broker.routing.address_book import AddressBook
from broker.routing.filter_tree import FilterTree, Subscribers
from broker.routing.other_cells import OtherCells
from broker.routing.receivers import Receivers, Route
from broker.routing.shared_queues import SharedQueues
from broker.routing.topic_cache import CACHED_TOPICS, CACHED_WEIGHT, TopicCache
from broker.routing.topic_rules import TopicRules
from broker.runtime.timers import Wheel
from protocol.errors import TopicNameInvalid
from protocol.publish import Publish
from protocol.subscribe import Subscription
from protocol.topics import split_share
from session.address import Address
from session.outbound import Outbound

NOBODY: Final = 0
"""The topic has no subscription."""
MATCHED: Final = 1
"""The message has been offered to each subscription."""
FULL: Final = 2
"""The topic's address is full (FC-24), or a receiver's queue (FC-34): the message is not routed."""
CLOSED: Final = 3
"""Clients may not publish to the topic: the message is not routed."""

CACHED_ONE_IN: Final = 16
"""Of so many messages that are routed without the cache, one has its topic cached."""
_MOST_DIRECT: Final = 2
"""The most filters that may match a topic whose messages are routed without the cache."""
_LOOK_UP: Final = -1
"""The message is to be routed through the cache."""
_NO_LINKS: Final[list[Outbound]] = []
_OF_LINK: Final = Subscription("", 2, False, True, 2)
"""What links ask for."""


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
        shared: SharedQueues | None = None,
        addresses: AddressBook | None = None,
        authorizer: Authorizer | None = None,
        cached_one_in: int = CACHED_ONE_IN,
        wheel: Wheel | None = None,
    ) -> None:
        self.topics: dict[bytes, Subscribers] = {}
        """The topics that have subscriptions to just them, or are cached. They are valid names."""
        self.cached = TopicCache(self.topics, cached_topics, cached_weight, wheel)
        self._max_topic_levels = max_topic_levels
        self._topic_rules = TopicRules() if topic_rules is None else topic_rules
        self.shared = SharedQueues() if shared is None else shared
        self.addresses = AddressBook([]) if addresses is None else addresses
        self.backpressure = False
        """FC-34: whether any queue tells publishers that it is full. What goes to those is routed by the cache."""
        self.authorizer = authorizer
        """None = all clients may receive the same."""
        self.cells: OtherCells | None = None
        """None = there is one cell."""
        self._merge = merge
        """Whether overlapping subscriptions of a session give one delivery; otherwise one each [MQTT-3.3.4-2]."""
        self._direct = 0
        """Messages that have been routed without the cache since one was not."""
        self._cached_one_in = cached_one_in
        self._wildcard = FilterTree()
        self._generation = 1
        """A new one begins with each change after which any topic may have other receivers."""

    def route(self, publish: Publish, publisher: Outbound | None) -> int:
        """Offer `publish` to every session that is subscribed to its topic; returns NOBODY, MATCHED, FULL or CLOSED.

        `publisher` is None for the broker itself. For that, and for what comes over links, which its cell has
        acknowledged, nothing is full or closed. Raises TopicNameInvalid for a topic with too many levels.
        """
        subscribers = self.topics.get(publish.topic)
        receivers: Receivers | None = None
        if subscribers is not None:
            if subscribers.alone_in == self._generation:
                _offer_alone(publish, publisher, subscribers)
                return MATCHED
            receivers = subscribers.receivers
        if receivers is None or receivers.found_in != self._generation:
            verdict = self._route_directly(publish, publisher, subscribers)
            if verdict != _LOOK_UP:
                return verdict
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
            if publisher is not None and not publisher.sender.limits.of_cell:
                if receivers.closed:
                    return CLOSED
                address = receivers.address
                if address is not None and (
                    address.waiting  # FC-25: first in, first out
                    or not address.fits(receivers.size(publish, publisher))  # FC-24
                ):
                    return FULL
                if receivers.backpressure and receivers.lacks_room(publish, publisher, self.addresses.blocked):
                    return FULL
            publish.holder = receivers.address
            receivers.deliver_to_others(publish, publisher)
            return MATCHED if len(receivers) > 0 else NOBODY
        return MATCHED if routes else NOBODY

    def _route_directly(self, publish: Publish, publisher: Outbound | None, exact: Subscribers | None) -> int:
        """Route without the cache, if all there is to do is to offer `publish`: NOBODY, MATCHED or _LOOK_UP."""
        topic = publish.topic
        is_open = self._is_open(topic)
        matching = self._wildcard.match(topic) if is_open else []
        links = _NO_LINKS if self.cells is None else self.cells.links_of(topic)
        if exact is not None and not exact.empty():
            if is_open and not matching and not links and self._leave_alone(topic, exact):
                _offer_alone(publish, publisher, exact)
                return MATCHED
            matching.append(exact)
        self._direct += 1
        if self._direct >= self._cached_one_in:
            self._direct = 0
            return _LOOK_UP
        if not is_open or len(matching) + len(links) > _MOST_DIRECT:
            return _LOOK_UP
        if links and (self.backpressure or matching):
            return _LOOK_UP
        before: Outbound | None = None
        for subscribers in matching:
            if not subscribers.is_simple() or subscribers.only is before:  # or they have to be merged
                return _LOOK_UP
            if self.backpressure and subscribers.tells():
                return _LOOK_UP
            before = subscribers.only
        verdict = NOBODY
        for subscribers in matching:
            if self._offer(publish, publisher, subscribers):
                verdict = MATCHED
        for link in links:
            link.offer(publish, publisher)
            verdict = MATCHED
        return verdict

    def _is_open(self, topic: bytes) -> bool:
        """Whether it is neither closed, hidden nor limited, has not too many levels, and nothing waits (FC-34)."""
        rules = self._topic_rules
        return (
            not (self.backpressure and topic in self.addresses.blocked)
            and topic.count(b"/") < self._max_topic_levels
            and rules.may_publish(topic)
            and rules.may_receive(topic)
            and self.address(topic) is None
        )

    def _leave_alone(self, topic: bytes, subscribers: Subscribers) -> bool:
        """From now on just offer each message to the only session of an open topic that no other filter matches.

        Returns False if that is not all there is to do.
        """
        outbound, subscription = subscribers.only, subscribers.subscription
        if not subscribers.is_simple() or outbound is None or subscription is None:
            return False
        if self.backpressure and subscribers.tells():
            return False
        authorizer = self.authorizer
        if authorizer is not None and not authorizer.may_receive(outbound, topic, subscription.qos):
            return False
        subscribers.alone_in = self._generation
        subscribers.qos = subscription.qos
        subscribers.retain_as_published = subscription.retain_as_published
        return True

    def _offer(self, publish: Publish, publisher: Outbound | None, subscribers: Subscribers) -> bool:
        """Offer `publish` to the only session of a filter; False if its client may not receive it."""
        outbound = subscribers.only
        subscription = subscribers.subscription
        assert outbound is not None  # it is simple
        assert subscription is not None
        authorizer = self.authorizer
        if authorizer is not None and not authorizer.may_receive(outbound, publish.topic, subscription.qos):
            return False
        if subscription.qos < publish.qos or publish.retain:
            qos = min(subscription.qos, publish.qos)
            publish = publish.at(qos, publish.retain and subscription.retain_as_published)
        outbound.offer(publish, publisher)
        return True

    def route_late(self, publish: Publish, publisher: Outbound | None) -> int:
        """Route without the checks for permission and for room in the address; returns NOBODY or MATCHED."""
        receivers = self.late_receivers(publish.topic)
        publish.holder = receivers.address
        receivers.deliver_to_others(publish, publisher)
        return MATCHED if len(receivers) > 0 else NOBODY

    def address(self, topic: bytes) -> Address | None:
        """The address of a topic; None if the topic has no limit."""
        return self.addresses.find(topic, self.cached.receivers)

    def restore_address(self, topic: bytes) -> Address:
        """The address of a topic that had pages before the process began (FC-26)."""
        self.cached.forget(topic)
        return self.addresses.restore(topic, self.cached.receivers)

    def subscribe(self, outbound: Outbound, subscription: Subscription) -> None:
        """Add a subscription; it replaces one of the same session and filter [MQTT-3.8.4-3]."""
        share, topic_filter = split_share(subscription.topic_filter)
        cells = self.cells
        if cells is not None and not cells.subscribes(outbound, subscription, not self.has_clients(topic_filter)):
            return
        subscribers = self.subscribers(topic_filter)
        subscribers.add(share, outbound, subscription, self.shared)
        alone = self.cells is None and self._wildcard.is_empty() and not is_wildcard(topic_filter)
        if alone and self._is_open(topic_filter):  # else its first message finds out
            self._leave_alone(topic_filter, subscribers)

    def subscribers(self, topic_filter: bytes) -> Subscribers:
        """Those of just this filter, to add one: who gets the messages of its topics is found anew."""
        if is_wildcard(topic_filter):
            self.forget_topics()
            return self._wildcard.at(topic_filter)
        self.cached.forget(topic_filter)  # what is known of other topics stays valid
        subscribers = self.topics.get(topic_filter)
        if subscribers is None:
            subscribers = self.topics[topic_filter] = Subscribers()
        return subscribers

    def unsubscribe(self, outbound: Outbound, subscribed: str) -> None:
        """Remove the subscription with the filter `subscribed`; nothing happens if there is none."""
        share, topic_filter = split_share(subscribed)
        if share and self.cells is not None and self.cells.leaves(outbound, subscribed):
            return
        subscribers = self._subscribers(topic_filter)
        if subscribers is not None:
            before = subscribers.of_clients()
            subscribers.remove(share, outbound, self.shared)
            self.removed_from(topic_filter, subscribers, before)

    def removed_from(self, topic_filter: bytes, subscribers: Subscribers, of_clients: bool) -> None:
        """Some of this filter have gone; `of_clients`: what `Subscribers.of_clients` said before."""
        if self.cells is not None and of_clients and not subscribers.of_clients():
            self.cells.ended(topic_filter)
        if is_wildcard(topic_filter):
            if subscribers.empty():
                self._wildcard.forget(topic_filter)
            self.forget_topics()
        else:
            self.cached.forget(topic_filter)

    def _subscribers(self, topic_filter: bytes) -> Subscribers | None:
        """Those of just this filter; None = there have been none."""
        return self._wildcard.get(topic_filter) if is_wildcard(topic_filter) else self.topics.get(topic_filter)

    def merge_overlapping(self, merge: bool) -> None:
        """The configuration of overlapping subscriptions has changed."""
        self._merge = merge
        self.forget_topics()

    def receivers(self, topic: bytes) -> Receivers:
        """Who gets the messages of a topic. Raises TopicNameInvalid for one with too many levels."""
        receivers = self.cached.receivers.get(topic)
        return self._find(topic) if receivers is None else receivers

    def late_receivers(self, topic: bytes) -> Receivers:
        """Who gets a message that waited: its topic may have too many levels for those that come since a restart."""
        if topic.count(b"/") >= self._max_topic_levels:
            return self._uncached(topic)  # and not cached: `route` would find it there
        return self.receivers(topic)

    def _find(self, topic: bytes) -> Receivers:
        if topic.count(b"/") >= self._max_topic_levels:
            raise TopicNameInvalid(
                f"PUBLISH to a topic of {topic.count(b'/') + 1} levels; at most {self._max_topic_levels} are accepted"
            )
        receivers = self._uncached(topic)
        self.cached.remember(topic, receivers)
        return receivers

    def _uncached(self, topic: bytes) -> Receivers:
        receivers = Receivers(self._generation)
        if not self._topic_rules.may_publish(topic):
            receivers.close()
        address = self.address(topic)
        if address is not None:
            receivers.limit(address)
        if self._topic_rules.may_receive(topic):
            self._fill(receivers, topic)
        return receivers

    def _fill(self, receivers: Receivers, topic: bytes) -> None:
        matching = self._wildcard.match(topic)
        exact = self.topics.get(topic)
        if exact is not None:
            matching.append(exact)
        routes = self._routes(matching, topic)
        groups = [group for each in matching if each.groups is not None for group in each.groups.values()]
        if self.backpressure and (
            topic in self.addresses.blocked
            or any(route.outbound.sender.limits.backpressure for route in routes)
            or any(group.limits.backpressure for group in groups)
        ):
            receivers.ask(routes)  # also while others wait: FC-9
        for route in routes:
            receivers.add(route)
        for group in groups:
            receivers.add_group(group)

    def _routes(self, matching: list[Subscribers], topic: bytes) -> list[Route]:
        """One per session (`_merge`) or link, or one per subscription, of clients that may receive the topic."""
        routes: list[Route] = []
        found: dict[Outbound, Route] = {}
        authorizer = self.authorizer
        for subscribers in matching:
            for outbound, subscription in subscribers.each():
                if authorizer is not None and not authorizer.may_receive(outbound, topic, subscription.qos):
                    continue
                route = found.get(outbound)
                if route is not None and (self._merge or outbound.sender.limits.of_cell):
                    route.merge(subscription)
                else:
                    route = found[outbound] = Route(outbound, subscription)
                    routes.append(route)
        for link in [] if self.cells is None else self.cells.links_of(topic):
            if link not in found:
                routes.append(Route(link, _OF_LINK))
        return routes

    def has_clients(self, topic_filter: bytes) -> bool:
        """Whether a session or group has just this filter, links to other cells left out."""
        subscribers = self._subscribers(topic_filter)
        return subscribers is not None and subscribers.of_clients()

    def forget_topics(self) -> None:
        """Find the receivers of each topic anew: permissions, or subscriptions with wildcards, have changed."""
        self._generation += 1
        self.cached.forget_all()


def _offer_alone(publish: Publish, publisher: Outbound | None, subscribers: Subscribers) -> None:
    """Offer `publish` to the only session that gets the messages of its topic."""
    outbound = subscribers.only
    assert outbound is not None  # it is alone
    if subscribers.qos < publish.qos or publish.retain:
        qos = min(subscribers.qos, publish.qos)
        publish = publish.at(qos, publish.retain and subscribers.retain_as_published)
    outbound.offer(publish, publisher)


def is_wildcard(topic_filter: bytes) -> bool:
    """Whether a valid topic filter has a wildcard."""
    return b"+" in topic_filter or topic_filter.endswith(b"#")
