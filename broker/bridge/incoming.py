"""PUBLISHes of the remote broker: their topics here, the rights of the bridge's user, and what is refused."""

from typing import final

from broker.addresses.policy import Addresses
from broker.bridge.status import Status
from broker.bridge.topics import Topics
from broker.connection.peer import Peer
from broker.connection.publishing import Publishing
from broker.connection.side import PublishHandler
from broker.events import Events
from broker.routing.messages import Messages
from broker.routing.router import FULL, MATCHED
from protocol import properties as props
from protocol import reason_codes
from protocol.errors import MQTTError
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.replies import PublishRefused, topic_name
from session.session import Session


@final
class Incoming(PublishHandler):
    """Handles what comes in by one bridge. `publishing` checks it as it checks what clients publish."""

    def __init__(
        self, publishing: Publishing, messages: Messages, addresses: Addresses, events: Events, status: Status
    ) -> None:
        self._publishing = publishing
        self._messages = messages
        self._addresses = addresses
        self._events = events
        self._status = status
        self.topics = Topics([], 0)

    def read_properties(self, connection: Peer, publish: Publish, properties: Properties, now: int) -> None:
        """As of a client; a server may send Subscription Identifiers, which end here."""
        properties.pop(props.SUBSCRIPTION_IDENTIFIER, None)
        self._publishing.read_properties(connection, publish, properties, now)

    def publish(self, connection: Peer, session: Session, publish: Publish, now: int) -> None:
        """Route and acknowledge a PUBLISH. Raises MQTTError to close: then the remote broker keeps it."""
        topic = publish.topic
        name = self.topics.incoming.name(topic)
        try:
            if name is not topic:
                self._rename(publish, name)
            if publish.properties is not None:
                self._map_response(publish, publish.properties)
            if self._publishing.checks_all or publish.properties is not None:
                self._publishing.check(connection, session, publish)
            verdict = self._messages.publish(publish, session, connection.gate)
        except PublishRefused as refused:
            self._refuse(session, publish, refused, now)
            return
        if verdict == FULL:
            self._addresses.overflow(connection.gate, session, publish, now)
        else:
            session.inbound.answer(publish, verdict == MATCHED, now)

    def _rename(self, publish: Publish, name: bytes) -> None:
        if not name:
            message = f"PUBLISH to {topic_name(publish.topic)!r}, for which the bridge has not subscribed"
            raise PublishRefused(reason_codes.TOPIC_NAME_INVALID, message)
        publish.rename(name)

    def _map_response(self, publish: Publish, properties: Properties) -> None:
        response = properties.get(props.RESPONSE_TOPIC)
        if isinstance(response, str):
            name = self.topics.incoming_responses.name(response.encode())
            if name and name.decode() != response:
                properties[props.RESPONSE_TOPIC] = name.decode()
                publish.frame5 = publish.rest5 = None

    def _refuse(self, session: Session, publish: Publish, refused: PublishRefused, now: int) -> None:
        """Acknowledge what is not routed: the remote broker would send it again and again. What lacks room may wait."""
        if refused.reason_code == reason_codes.QUOTA_EXCEEDED and publish.qos:
            raise MQTTError(refused.reason_code, refused.message)
        if refused.reason_code == reason_codes.SUCCESS:
            self._status.loops += 1
        else:
            self._status.refused_in += 1
        session.inbound.count_refused()
        self._events.publish_refused(session, refused, now)
        session.inbound.refuse(publish, refused.reason_code)
