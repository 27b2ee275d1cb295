"""PUBLISHes that come over links: the cell of the publisher has checked them."""

from collections.abc import Callable
from typing import final

from broker.cluster.controls import CONTROLS, DOLLAR
from broker.cluster.link_controls import LinkControls
from broker.cluster.retained_order import RetainedOrder
from broker.connection.peer import Peer
from broker.connection.publishing import Publishing
from broker.connection.side import PublishHandler
from broker.events import Events
from broker.routing.messages import Messages
from broker.routing.router import MATCHED
from protocol import reason_codes
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.replies import PublishRefused
from session.session import Session


@final
class FromCells(PublishHandler):
    """Handles what comes over all links."""

    def __init__(
        self,
        publishing: Publishing,
        messages: Messages,
        events: Events,
        order: RetainedOrder,
        controls: Callable[[Peer], LinkControls],
    ) -> None:
        """`controls`: of the link that a connection is of."""
        self._publishing = publishing
        self._messages = messages
        self._events = events
        self._order = order
        self._controls = controls

    def read_properties(self, connection: Peer, publish: Publish, properties: Properties, now: int) -> None:
        """As of a client."""
        self._publishing.read_properties(connection, publish, properties, now)

    def publish(self, connection: Peer, session: Session, publish: Publish, now: int) -> None:
        """Route and acknowledge a PUBLISH, or do what it asks for."""
        if publish.topic[0] == DOLLAR and publish.topic.startswith(CONTROLS):
            self._controls(connection).read(connection, session, publish, now)
            return
        if publish.retain and not self._order.admits(publish):
            publish.retain = False  # a newer one is stored: clients that are subscribed get this one
        try:
            verdict = self._messages.publish(publish, session, connection.gate)
        except PublishRefused as refused:
            self._go_on(session, publish, refused, now)
        else:
            session.inbound.answer(publish, verdict == MATCHED, now)

    def _go_on(self, session: Session, publish: Publish, refused: PublishRefused, now: int) -> None:
        """Clients may not publish to this topic, but the other cell may, and a bridge's state has been let in there."""
        if refused.reason_code == reason_codes.NOT_AUTHORIZED:
            verdict = self._messages.publish_late(publish, session.client_id, session.outbound, now)
            session.inbound.answer(publish, verdict == MATCHED, now)
            return
        session.inbound.count_refused()
        self._events.publish_refused(session, refused, now)
        session.inbound.refuse(publish, refused.reason_code)
