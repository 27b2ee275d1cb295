"""The retained messages that new subscriptions bring."""

from typing import TYPE_CHECKING, Final, final

from protocol.publish import Publish
from protocol.subscribe import Subscription
from session.address import hold
from session.outbound import Outbound
from session.session import Session
from session.source import BREATHER, EMPTY, FED, PASSED_OVER, Source

if TYPE_CHECKING:
    from broker.broker import Broker

WORK: Final = 1_000
"""Retained messages that are looked at in one turn."""
SEARCH_COST: Final = 20
"""Of those, what looking for one filter's counts for."""


@final
class RetainedFeed(Source):
    """Hands them over as the session can take them: however many there are, none is dropped for want of room.

    What can be sent at once goes by the mailbox, ahead of all that is published later. The rest is pulled. By then a
    topic may have another message, which the session has got as it was published; then the old one is left out. A
    filter that is subscribed to again before its turn has come is served once.
    """

    def __init__(self, broker: "Broker", session: Session) -> None:
        self._broker = broker
        self._outbound = session.outbound
        self._client_id = session.client_id
        self._wanted: dict[str, Subscription] = {}
        self._subscription = Subscription("")
        self._found: list[Publish] = []
        self._position = 0
        self._next: Publish | None = None
        self._work = 0
        self._missed = False
        """Whether the session is going to pull."""

    def add(self, subscriptions: list[Subscription], now: int) -> bool:
        """Subscriptions are new, or as good as new. Returns whether not all has been handed over at once."""
        wanted = self._wanted
        for subscription in subscriptions:
            wanted.pop(subscription.topic_filter, None)
            wanted[subscription.topic_filter] = subscription
        if not self._missed:
            self._begin(now)
            if self._wanted or self._position < len(self._found) or self._next is not None:
                self._missed = True
                self._outbound.miss(self)
        return self._missed

    def forget(self, topic_filter: str) -> None:
        """A subscription has ended [MQTT-3.10.4-3]."""
        self._wanted.pop(topic_filter, None)
        if self._subscription.topic_filter == topic_filter:
            self._found = []
            self._position = 0
            self._next = None

    def _begin(self, now: int) -> None:
        """Put into the mailbox what the next pass is going to send."""
        self._work = WORK
        outbound = self._outbound
        for _ in range(outbound.room()):
            delivery = self._peek(now)
            if delivery is None:
                break
            self._next = None
            outbound.mailbox.append(delivery)
            if delivery.address is not None:
                hold(delivery)  # FC-24
        if outbound.mailbox:
            outbound.wake()

    def pull(self, outbound: Outbound, now: int) -> int:
        """Behind what is in the mailbox, which may be older messages of the same topics."""
        self._work = WORK
        if outbound.mailbox_len():
            return PASSED_OVER
        result = PASSED_OVER
        while outbound.has_room():
            delivery = self._peek(now)
            if delivery is None:
                if self._wanted or self._position < len(self._found):
                    return BREATHER
                self._missed = False
                return EMPTY
            if not outbound.can_take(delivery, now):
                return result
            self._next = None
            outbound.take(delivery, now)
            result = FED
        return FED

    def _peek(self, now: int) -> Publish | None:
        """The next delivery; None: there is none, or no work left in this turn."""
        while self._next is None and self._work > 0:
            if self._position < len(self._found):
                self._next = self._delivery(self._found[self._position], now)
                self._position += 1
                self._work -= 1
            elif self._wanted:
                self._search(next(iter(self._wanted)), now)
                self._work -= SEARCH_COST
            else:
                self._found = []
                self._position = 0
                break
        return self._next

    def _search(self, topic_filter: str, now: int) -> None:
        self._subscription = self._wanted.pop(topic_filter)
        self._found = self._broker.retained.matching(topic_filter.encode(), now)
        self._position = 0

    def _delivery(self, publish: Publish, now: int) -> Publish | None:
        """A message as it goes out for the subscription; None if it does not."""
        broker = self._broker
        subscription = self._subscription
        if not broker.retained.holds(publish) or not broker.authorization.may_receive(publish.topic):
            return None
        if subscription.no_local and broker.retained.publisher(publish.topic) == self._client_id:
            return None  # [MQTT-3.8.3-3]
        # A copy of its own, with RETAIN set (3.1.1: [MQTT-3.3.1-8]): the time that it takes is counted from now.
        qos = min(publish.qos, subscription.qos)
        delivery = Publish(publish.topic, publish.payload, qos, True, publish.properties)
        delivery.identifiers = subscription.identifiers
        delivery.expires_at = publish.expires_at
        delivery.received_at = now
        delivery.address = broker.router.address(publish.topic)
        return delivery
