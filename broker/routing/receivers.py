"""What the subscriptions to a topic come to: the deliveries that each message on it makes."""

from typing import Final, final

from protocol.publish import Publish
from protocol.subscribe import Subscription
from session.address import Address, hold
from session.outbound import Outbound
from session.shared_queue import SharedQueue

MOST_WAITING: Final = 250_000
"""Deliveries that a mailbox takes. One session can share a filter with itself thousands of times, and so have each
message make thousands: more than it takes up before the publisher may go on."""


@final
class Route:
    """One delivery of each message: to whom, with the options of all that session's matching subscriptions together."""

    def __init__(self, outbound: Outbound, subscription: Subscription) -> None:
        self.outbound = outbound
        self.qos = subscription.qos
        self.retain_as_published = subscription.retain_as_published
        self.identifiers = subscription.identifiers
        """Subscription Identifiers, encoded; empty = none."""
        self.no_local = subscription.no_local
        """Whether the session's own messages come by `own` only."""
        self.own: Route | None = None
        """What the subscriptions without No Local come to, where there are others too [MQTT-3.8.3-3]."""

    @property
    def special(self) -> bool:
        """Whether a delivery is more than the message at a QoS."""
        return self.no_local or self.identifiers != b""

    def merge(self, subscription: Subscription) -> None:
        """Overlapping subscriptions give one delivery, at the highest QoS, with all identifiers [MQTT-3.3.4-2, -3]."""
        if subscription.no_local and not self.no_local:
            self.own = Route(self.outbound, subscription)
            self.own.copy(self)
            self.no_local = True
        elif self.no_local and not subscription.no_local:
            if self.own is None:
                self.own = Route(self.outbound, subscription)
            else:
                self.own.merge(subscription)
        self.qos = max(self.qos, subscription.qos)
        self.retain_as_published = self.retain_as_published or subscription.retain_as_published
        self.identifiers += subscription.identifiers

    def copy(self, other: "Route") -> None:
        """Take over what another route asks for, without its No Local."""
        self.qos = other.qos
        self.retain_as_published = other.retain_as_published
        self.identifiers = other.identifiers
        self.no_local = False

    def deliver(self, publish: Publish, publisher: Outbound | None) -> None:
        """Hand `publish` to the session as this route has it."""
        delivery = publish.at(min(self.qos, publish.qos), publish.retain and self.retain_as_published)
        if self.identifiers:
            delivery = delivery.identified(self.identifiers)
        outbound = self.outbound
        if len(outbound.mailbox) >= MOST_WAITING:
            outbound.counters.count_offered(delivery.qos)
            outbound.counters.count_drop("queue_full", delivery.qos)
            return
        if outbound.paced and not outbound.admits(delivery, publisher, publish.received_at):
            return  # FC-16
        outbound.mailbox.append(delivery)
        if delivery.address is not None:
            hold(delivery)  # FC-24
        if outbound.idle:
            outbound.idle = False
            outbound.host.wake()


_NO_ROUTES: Final[list[Route]] = []
_NO_GROUPS: Final[list[SharedQueue]] = []


@final
class Receivers:
    """All that a message on one topic goes to."""

    def __init__(self) -> None:
        self.routes: list[Route] = []
        """Plain ones, which only look at the message's QoS and RETAIN."""
        self.others = False
        """Whether there are any besides, or the topic is closed or limited: then none of the routes is a plain one."""
        self.closed = False
        """Whether only the broker itself may publish here."""
        self.address: Address | None = None
        """What limits the topic (FC-24)."""
        self.special = _NO_ROUTES
        self.groups = _NO_GROUPS

    def close(self) -> None:
        """Close the topic to clients, before anything is added."""
        self.closed = True
        self.others = True

    def limit(self, address: Address) -> None:
        """Limit the topic, before anything is added."""
        self.address = address
        self.others = True

    def add(self, route: Route) -> None:
        """Add a session's route."""
        if route.special or self.closed or self.address is not None:
            if not self.special:
                self.special = []
            self.special.append(route)
            self.others = True
        else:
            self.routes.append(route)

    def add_group(self, group: SharedQueue) -> None:
        """Add a group that shares a matching subscription."""
        if not self.groups:
            self.groups = []
        self.groups.append(group)
        self.others = True

    def deliver_to_others(self, publish: Publish, publisher: Outbound | None) -> None:
        """Deliver to those for whom the plain way does not serve."""
        for route in self.special:
            if not route.no_local or route.outbound is not publisher:
                route.deliver(publish, publisher)
            elif route.own is not None:
                route.own.deliver(publish, publisher)
        for group in self.groups:
            group.deliver(publish, publisher, publish.received_at)

    def size(self, publish: Publish, publisher: Outbound | None) -> int:
        """Payload bytes of all the deliveries that `publish` would make at an address."""
        count = len(self.groups)
        for route in self.special:
            if not route.no_local or route.own is not None or route.outbound is not publisher:
                count += 1
        return count * publish.size

    def __len__(self) -> int:
        return len(self.routes) + len(self.special) + len(self.groups)
