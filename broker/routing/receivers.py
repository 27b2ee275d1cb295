"""The receivers of a topic: one delivery for each session and group that gets its messages."""

from typing import Final, final

from protocol.publish import Publish
from protocol.subscribe import Subscription
from session.address import Address
from session.backpressure import Backpressure
from session.cost import cost
from session.outbound import Outbound
from session.shared_queue import SharedQueue


@final
class Route:
    """One delivery of each message to one session, with the combined options of its matching subscriptions."""

    def __init__(self, outbound: Outbound, subscription: Subscription) -> None:
        self.outbound = outbound
        self.qos = subscription.qos
        self.retain_as_published = subscription.retain_as_published
        self.identifiers = subscription.identifiers
        """Subscription Identifiers, encoded; empty = none."""
        self.places = 1
        """How many deliveries the session gets of each message, if overlapping subscriptions are not merged (FC-34)."""
        self.no_local = subscription.no_local
        """Whether the session gets its own messages only by `own`."""
        self.own: Route | None = None
        """The route of the subscriptions without No Local, if there are also some with it [MQTT-3.8.3-3]."""

    @property
    def special(self) -> bool:
        """Whether a delivery depends on more than QoS and RETAIN."""
        return self.no_local or self.identifiers != b""

    def merge(self, subscription: Subscription) -> None:
        """Add an overlapping subscription: one delivery, highest QoS, all identifiers [MQTT-3.3.4-2, -3]."""
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
        """Copy the options of another route, without its No Local."""
        self.qos = other.qos
        self.retain_as_published = other.retain_as_published
        self.identifiers = other.identifiers
        self.no_local = False

    def deliver(self, publish: Publish, publisher: Outbound | None) -> None:
        """Offer `publish` to the session with this route's options."""
        delivery = publish.at(min(self.qos, publish.qos), publish.retain and self.retain_as_published)
        if self.identifiers:
            delivery = delivery.identified(self.identifiers)
        self.outbound.offer(delivery, publisher)


_NO_ROUTES: Final[list[Route]] = []
_NO_GROUPS: Final[list[SharedQueue]] = []


@final
class Receivers:
    """The sessions and groups that get the messages of one topic."""

    def __init__(self, found_in: int) -> None:
        self.found_in = found_in
        """The router's generation in which they were found; in another one they may be others."""
        self.routes: list[Route] = []
        """Plain routes: a delivery depends only on QoS and RETAIN."""
        self.others = False
        """Whether there are special routes or groups, or the topic is closed or limited, or receivers are asked.

        If one of the last three is so, no route is plain.
        """
        self.closed = False
        """Whether only the broker itself may publish to the topic."""
        self.address: Address | None = None
        """The topic's address, if it is limited (FC-24)."""
        self.backpressure = False
        """FC-34: whether receivers have to be asked: some tell publishers that they are full."""
        self.special = _NO_ROUTES
        self.groups = _NO_GROUPS

    def close(self) -> None:
        """Close the topic to clients. Call before `add`."""
        self.closed = True
        self.others = True

    def limit(self, address: Address) -> None:
        """Limit the topic. Call before `add`."""
        self.address = address
        self.others = True

    def ask(self, routes: list[Route]) -> None:
        """FC-34: ask all receivers whether they have room. Call before `add`."""
        self.backpressure = self.others = True
        places: dict[Outbound, int] = {}
        for route in routes:
            places[route.outbound] = places.get(route.outbound, 0) + 1
        for route in routes:
            route.places = places[route.outbound]

    def add(self, route: Route) -> None:
        """Add a session's route."""
        if route.special or self.closed or self.backpressure or self.address is not None:
            if not self.special:
                self.special = []
            self.special.append(route)
            self.others = True
        else:
            self.routes.append(route)

    def add_group(self, group: SharedQueue) -> None:
        """Add a group with a matching shared subscription."""
        if not self.groups:
            self.groups = []
        self.groups.append(group)
        self.others = True

    def deliver_to_others(self, publish: Publish, publisher: Outbound | None) -> None:
        """Deliver by the special routes and to the groups."""
        for route in self.special:
            if not route.no_local or route.outbound is not publisher:
                route.deliver(publish, publisher)
            elif route.own is not None:
                route.own.deliver(publish, publisher)
        for group in self.groups:
            group.deliver(publish, publisher, publish.received_at)

    def size(self, publish: Publish, publisher: Outbound | None) -> int:
        """What all deliveries cost together that `publish` would add to its address (FC-24a)."""
        count = len(self.groups)
        for route in self.special:
            if not route.no_local or route.own is not None or route.outbound is not publisher:
                count += 1
        return count * cost(publish)

    def lacking(self, publish: Publish, publisher: Outbound | None, arriving: bool, now: int) -> Backpressure | None:
        """FC-34: a receiver's queue that has no room for `publish`; None = all have room, or do not tell.

        `arriving`: it has not waited yet.
        """
        if publish.qos == 0 or not self.backpressure:
            return None
        for route in self.special:
            own = route if not route.no_local or route.outbound is not publisher else route.own
            if own is not None and own.qos and not _crosses_again(route.outbound, publisher):
                lacking = _lacking(route.outbound, publish, route.places, arriving, now)
                if lacking is not None:
                    return lacking
        for group in self.groups:
            lacking = group.lacking(publish, arriving, now)
            if lacking is not None:
                return lacking
        return None

    def rejects(self) -> bool:
        """FC-34: whether one that tells has `reject`."""
        limits = [route.outbound.sender.limits for route in self.special] + [group.limits for group in self.groups]
        return any(each.rejects for each in limits)

    def lacks_room(self, publish: Publish, publisher: Outbound, blocked: dict[bytes, Address]) -> bool:
        """FC-34: whether a PUBLISH that comes finds no room, or others wait before it (FC-9).

        `blocked`: topics of which PUBLISHes wait.
        """
        if publish.qos == 0:
            return False
        address = blocked.get(publish.topic)
        if address is not None and address.waiting:
            return True
        return self.lacking(publish, publisher, True, publish.received_at) is not None

    def __len__(self) -> int:
        return len(self.routes) + len(self.special) + len(self.groups)


def _crosses_again(outbound: Outbound, publisher: Outbound | None) -> bool:
    """CL-2: whether a link would get what comes by a link: its queue takes none of it."""
    return publisher is not None and publisher.sender.limits.of_cell and outbound.sender.limits.of_cell


def _lacking(outbound: Outbound, publish: Publish, places: int, arriving: bool, now: int) -> Backpressure | None:
    if not outbound.sender.limits.backpressure:
        return None
    return outbound.begin_backlog().lacking(publish, places, arriving, now)
