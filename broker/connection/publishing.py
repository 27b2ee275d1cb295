"""Handles a received PUBLISH: topic alias, properties, checks, routing, acknowledgement."""

from typing import final

from broker.addresses.policy import Addresses
from broker.auth.authorizer import Authorizer
from broker.connection.aliases import ReceivedAliases
from broker.connection.capabilities import Capabilities, is_text
from broker.connection.peer import Peer
from broker.connection.side import PublishHandler
from broker.events import Events
from broker.quotas.retained_guard import RetainedGuard
from broker.routing.messages import Messages, read_expiry
from broker.routing.router import FULL, MATCHED
from broker.routing.topic_rules import TopicRules
from broker.routing.via import Via
from broker.storage.commits import Commits
from protocol import properties as props
from protocol import reason_codes
from protocol.errors import MQTTError, ProtocolError, TopicAliasInvalid
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.replies import PublishRefused, not_permitted, shortened, topic_name
from session.session import Session


@final
class Publishing(PublishHandler):
    """Handles PUBLISHes of all connections."""

    def __init__(  # noqa: PLR0913, PLR0917 - one per part, made in one place
        self,
        messages: Messages,
        addresses: Addresses,
        capabilities: Capabilities,
        topic_rules: TopicRules,
        events: Events,
        via: Via,
        commits: Commits | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self._messages = messages
        self._addresses = addresses
        self._capabilities = capabilities
        self._selective: bool = capabilities.selective
        """Whether the capabilities concern a PUBLISH without properties too."""
        self._topic_rules = topic_rules
        self._events = events
        self._via = via
        self._commits = commits
        self.authorizer = authorizer
        self._guard: RetainedGuard | None = None
        self.checks_all = False
        """Whether a PUBLISH without properties has to be checked too."""
        self.guard_retained(None)

    def authorize(self, authorizer: Authorizer) -> None:
        """From now on there are rules."""
        self.authorizer = authorizer
        self.guard_retained(self._guard)

    def guard_retained(self, guard: RetainedGuard | None) -> None:
        """Have this guard decide what may be retained (FC-31, FC-32); None = everything may."""
        self._guard = guard
        parts = (self.authorizer, self._commits, guard)
        self.checks_all = self._selective or any(part is not None for part in parts)

    def publish(self, connection: Peer, session: Session, publish: Publish, now: int) -> None:
        """Route and acknowledge a PUBLISH that the session has accepted. Raises MQTTError to close."""
        try:
            if self.checks_all or publish.properties is not None:
                self.check(connection, session, publish)
            verdict = self._messages.publish(publish, session, connection.gate)
        except PublishRefused as refused:
            self._refuse(session, publish, refused, now)
            return
        if verdict == FULL:
            self._addresses.overflow(connection.gate, session, publish, now)
        else:
            session.inbound.answer(publish, verdict == MATCHED, now)

    def read_properties(self, connection: Peer, publish: Publish, properties: Properties, now: int) -> None:
        """Resolve the topic alias and set the expiry. Raises MQTTError."""
        if props.SUBSCRIPTION_IDENTIFIER in properties:  # [MQTT-3.3.4-6]
            raise ProtocolError("PUBLISH from a client with a Subscription Identifier")
        alias = properties.get(props.TOPIC_ALIAS)
        if isinstance(alias, int):
            self._resolve_alias(connection, publish, alias)
        read_expiry(publish, properties, now)

    def _resolve_alias(self, connection: Peer, publish: Publish, alias: int) -> None:
        """Set the topic alias on this connection, or look it up [MQTT-3.3.2-7, -12]."""
        most = self._capabilities.topic_alias_maximum
        if alias > most:  # [MQTT-3.3.2-9]
            raise TopicAliasInvalid(f"PUBLISH with Topic Alias {alias}; at most {most} is allowed")
        aliases = connection.aliases
        if aliases is None:
            aliases = connection.aliases = ReceivedAliases()
        if publish.topic:
            aliases.set(alias, publish.topic)
            return
        topic = aliases.topics.get(alias)
        if topic is None:
            raise ProtocolError(f"PUBLISH without a topic, with Topic Alias {alias}, which no PUBLISH here has set")
        publish.topic = topic

    def check(self, connection: Peer, session: Session, publish: Publish) -> None:
        """Raise MQTTError or PublishRefused if the PUBLISH is not supported, not permitted, or there is no room."""
        if self._selective or publish.properties is not None:
            self._check_message(publish)
        if publish.properties is not None and self._via.is_loop(publish.properties):
            message = f"PUBLISH to {topic_name(publish.topic)!r} has been here before: bridges form a ring"
            raise PublishRefused(reason_codes.SUCCESS, message)
        if self.authorizer is not None:
            client = connection.client
            permissions = None if client is None else client.permissions
            topic = publish.topic
            # The decoder gives the same object for the same topic, and `is` costs less.
            if (
                permissions is not None
                and topic is not permissions.last
                and topic != permissions.last
                and not permissions.may_publish(topic, publish.qos, publish.retain)
            ):
                raise not_permitted(topic)
        if self._guard is not None and publish.retain:
            refusal = self._guard.refusal(publish, self._messages.retained.get(publish.topic), connection.client)
            if refusal:
                raise _no_room(session, publish, refusal)
        if self._commits is not None:
            self._check_disk(self._commits, session, publish)

    def _check_message(self, publish: Publish) -> None:
        capabilities = self._capabilities
        capabilities.check_message("PUBLISH", publish.qos, publish.retain)
        if capabilities.must_be_text(publish.properties) and not is_text(publish.payload):
            message = "PUBLISH with a payload that is not UTF-8, though its Payload Format Indicator says so"
            if publish.qos == 0:  # no acknowledgement for the reason code
                raise MQTTError(reason_codes.PAYLOAD_FORMAT_INVALID, message)
            raise PublishRefused(reason_codes.PAYLOAD_FORMAT_INVALID, message)

    def _check_disk(self, commits: Commits, session: Session, publish: Publish) -> None:
        """FC-29: refuse a PUBLISH while the disk is full."""
        if (publish.qos or publish.retain) and not commits.has_room():
            raise _no_room(session, publish, "PUBLISH while the journal, or its disk, is full")

    def _refuse(self, session: Session, publish: Publish, refused: PublishRefused, now: int) -> None:
        """Acknowledge and count a PUBLISH that is not routed, and log it if it is the first one for a while.

        Raises `refused` to close the connection of a 3.1.1 client, if configured [MQTT-3.3.5-2].
        """
        session.inbound.count_refused()
        if session.version == 4 and self._topic_rules.close_refused:
            raise refused
        self._events.publish_refused(session, refused, now)
        session.inbound.refuse(publish, refused.reason_code, shortened(refused.message))


def _no_room(session: Session, publish: Publish, message: str) -> MQTTError:
    """The refusal of a PUBLISH for which there is no room: at QoS 1 and 2 of 3.1.1 the connection is closed."""
    if session.version == 4 and publish.qos:
        session.inbound.count_refused()
        return MQTTError(reason_codes.QUOTA_EXCEEDED, message)
    return PublishRefused(reason_codes.QUOTA_EXCEEDED, message)
