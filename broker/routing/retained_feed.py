"""Delivers retained messages to a new subscription."""

from typing import Final, final

from broker.auth.authorizer import Authorizer
from broker.routing.retained import Retained
from broker.routing.retained_message import RetainedMessage
from broker.routing.router import Router
from broker.routing.topic_order import PIECE, TopicOrder, in_order
from broker.routing.topic_rules import TopicRules
from broker.storage.kept_session import KeptSession
from protocol.publish import Publish
from protocol.subscribe import Subscription
from session.session import Session
from session.source import BLOCKED, DELIVERED, EMPTY, YIELD, Consumer, Source

WORK: Final = 1_000
"""Retained messages that are processed in one turn."""
SEARCH_COST: Final = 20
"""The search for one filter's messages counts as so many messages."""


@final
class RetainedFeed(Source):
    """Delivers retained messages at the session's pace, so that none is dropped because a queue is full.

    Those that can be sent at once are offered to the mailbox, before any later message. The session pulls the rest. If
    a topic's message has been replaced by then, the old one is skipped: the session got the new one when it was
    published. A filter that is subscribed to again while it waits is served once.

    The journal has how far it has come for a kept session (FC-27), so its messages are in the order of their topics.
    """

    def __init__(
        self,
        router: Router,
        retained: Retained,
        topic_rules: TopicRules,
        session: Session,
        authorizer: Authorizer | None = None,
        kept: KeptSession | None = None,
    ) -> None:
        self._router = router
        self._retained = retained
        self._topic_rules = topic_rules
        self.authorizer = authorizer
        self._outbound = session.outbound
        self._client_id = session.client_id
        self._kept = kept
        self._wanted: dict[str, Subscription] = {}
        self._resumed: dict[str, set[bytes]] = {}
        """Filters whose delivery was interrupted or late, and topics of which the session has got what came since."""
        self._in_turn: list[str] = []
        """Filters that were wanted when it was last filled, the next one at the end."""
        self._subscription = Subscription("")
        self._found: list[RetainedMessage] = []
        self._position = 0
        self._order: TopicOrder | None = None
        """What comes behind `_found`, if that was too much to be sorted at once."""
        self._next: Publish | None = None
        self._work = 0
        self._pulled_later = False
        """Whether the session has to pull the rest."""

    def add(self, subscriptions: list[Subscription], now: int, newer: set[bytes] | None = None) -> bool:
        """Deliver the retained messages of `subscriptions`. Returns True if the session has to pull some later.

        `newer`: topics of which the session has got what was published since it subscribed.
        """
        wanted = self._wanted
        for subscription in subscriptions:
            topic_filter = subscription.topic_filter
            wanted.pop(topic_filter, None)
            self._resumed.pop(topic_filter, None)
            if self._may_match(topic_filter):
                wanted[topic_filter] = subscription
                if newer:
                    self._resumed[topic_filter] = newer
        if not self._pulled_later:
            self._begin(now)
            if not self._wanted and not self._has_found() and self._next is None:
                return False
            self._pulled_later = True
            self._outbound.pull_later(self)
        if self._kept is not None:
            self._owe(self._kept, subscriptions)
        return True

    def _may_match(self, topic_filter: str) -> bool:
        """Whether there may be messages: a filter without wildcards is a topic, and has one or none."""
        if "+" in topic_filter or "#" in topic_filter:
            return True
        return self._retained.get(topic_filter.encode()) is not None

    def _owe(self, kept: KeptSession, subscriptions: list[Subscription]) -> None:
        """FC-27: SUBACK promises what is not sent yet: it waits for the disk."""
        commit = 0
        for subscription in subscriptions:
            topic_filter = subscription.topic_filter
            if topic_filter in self._wanted or self._serves(topic_filter):
                commit = kept.owe(topic_filter) or commit
        self._outbound.sender.outbox.wait_for(commit)
        self._note_progress()

    def resume(self, subscriptions: list[Subscription], newer: set[bytes], now: int) -> None:
        """FC-27: a restart has interrupted the delivery for these; `newer`: topics that need no older message."""
        for subscription in subscriptions:
            self._wanted[subscription.topic_filter] = subscription
            self._resumed[subscription.topic_filter] = newer
        self._search(self._next_filter(), now)  # what is published from now on is newer, too
        self._pulled_later = True
        self._outbound.pull_later(self)

    def _serves(self, topic_filter: str) -> bool:
        """Whether messages of this filter are being delivered."""
        return self._has_found() and self._subscription.topic_filter == topic_filter

    def _has_found(self) -> bool:
        """Whether messages of the current filter are left."""
        return self._position < len(self._found) or self._order is not None

    def _note_progress(self) -> None:
        """Have the journal know how far the current filter has come, unless it will be served again."""
        kept, position = self._kept, self._position
        topic_filter = self._subscription.topic_filter
        if kept is None or topic_filter in self._wanted:
            return
        if not self._has_found():
            kept.paid(topic_filter)
        elif position:
            kept.fed(topic_filter, self._found[position - 1].topic)

    def forget(self, topic_filter: str) -> None:
        """Stop delivering for a subscription that has ended [MQTT-3.10.4-3]."""
        self._wanted.pop(topic_filter, None)
        if self._subscription.topic_filter == topic_filter:
            self._found = []
            self._order = None
            self._next = None

    def _begin(self, now: int) -> None:
        """Offer what the next pass can send to the mailbox."""
        self._work = WORK
        outbound = self._outbound
        for _ in range(outbound.room()):
            delivery = self._peek(now)
            if delivery is None:
                break
            self._next = None
            if not outbound.may_pull(delivery, now):
                self._position -= 1  # as in `pull`
                break
            outbound.offer(delivery, None)

    def pull(self, consumer: Consumer, now: int) -> int:
        """Deliver after what is in the mailbox: that may be older messages of the same topics."""
        result = self._pull(consumer, now)
        self._note_progress()
        return result

    def _pull(self, consumer: Consumer, now: int) -> int:
        self._work = WORK
        if self._outbound.mailbox.length():
            return BLOCKED
        result = BLOCKED
        while consumer.has_room():
            delivery = self._peek(now)
            if delivery is None:
                if self._wanted or self._has_found():
                    return YIELD
                self._pulled_later = False
                return EMPTY
            if not consumer.can_send(delivery, now):
                self._next = None  # by then it may be replaced, or not permitted
                self._position -= 1
                return result
            self._next = None
            consumer.send_pulled(delivery, None, now)
            result = DELIVERED
        return DELIVERED

    def _peek(self, now: int) -> Publish | None:
        """The next delivery; None if there is none or this turn's WORK is used up."""
        while self._next is None and self._work > 0:
            if self._position < len(self._found):
                self._next = self._delivery(self._found[self._position], now)
                self._position += 1
                self._work -= 1
            elif self._order is not None:
                self._take_piece(self._order)
            elif self._wanted:
                self._search(self._next_filter(), now)
                self._work -= SEARCH_COST
            else:
                self._found = []
                break
        return self._next

    def _next_filter(self) -> str:
        """The next of the wanted filters. To find a dictionary's first key anew passes all that were deleted before."""
        while True:
            if not self._in_turn:
                self._in_turn = list(reversed(self._wanted))
            topic_filter = self._in_turn.pop()
            if topic_filter in self._wanted:
                return topic_filter

    def _search(self, topic_filter: str, now: int) -> None:
        self._note_progress()  # all of the one before
        self._subscription = self._wanted.pop(topic_filter)
        found = self._retained.matching(topic_filter.encode(), now)
        newer = self._resumed.pop(topic_filter, None)
        if newer:
            found = [message for message in found if message.topic not in newer]
        self._position = 0
        if self._kept is not None:
            behind = self._kept.owed.get(topic_filter, b"")
            if len(found) > PIECE:
                self._order = TopicOrder(found, behind)
                found = []
            else:
                found = in_order(found, behind)
        self._found = found

    def _take_piece(self, order: TopicOrder) -> None:
        """Some work at a time on very many messages: what has been sent before is not needed any more."""
        piece = order.next_piece()
        self._work -= PIECE
        if piece is None:
            self._order = None
        elif piece:
            self._found = self._found[-1:] + piece  # `pull` goes one back, and the journal is told the last one
            self._position = len(self._found) - len(piece)

    def _delivery(self, message: RetainedMessage, now: int) -> Publish | None:
        """The delivery of a message for the subscription; None if it is not delivered."""
        subscription = self._subscription
        topic = message.topic
        if not message.current or not self._topic_rules.may_receive(topic):
            return None
        authorizer = self.authorizer
        if authorizer is not None and not authorizer.may_receive(self._outbound, topic, subscription.qos):
            return None
        if subscription.no_local and message.client_id == self._client_id:
            return None  # [MQTT-3.8.3-3]
        # A separate copy with RETAIN set (3.1.1: [MQTT-3.3.1-8]); its delay is measured from now.
        qos = min(int(message.qos), subscription.qos)
        delivery = Publish(topic, message.payload, qos, True, message.properties)
        delivery.identifiers = subscription.identifiers
        delivery.expires_at = message.expires_at
        delivery.received_at = now
        delivery.holder = self._router.address(topic)
        return delivery
