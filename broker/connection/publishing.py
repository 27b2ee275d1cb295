"""What a received PUBLISH must pass before it is routed: its properties, and what this broker permits."""

from typing import TYPE_CHECKING, Final

from broker.connection.capabilities import is_text
from broker.connection.replies import PublishRefused, in_words
from broker.runtime.clock import SECOND
from protocol import properties as props
from protocol import reason_codes
from protocol.errors import MQTTError, ProtocolError, TopicAliasInvalid
from protocol.properties import Properties
from protocol.publish import Publish
from session.session import Session

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.connection.connection import Connection

EPISODE: Final = 60 * SECOND
"""Refusals that follow each other within this time, in microseconds, are one episode in the log."""


def read_properties(connection: "Connection", publish: Publish, properties: Properties, now: int) -> None:
    """Give the PUBLISH its topic, if an alias stands for it, and its expiry. Raises MQTTError."""
    if props.SUBSCRIPTION_IDENTIFIER in properties:  # [MQTT-3.3.4-6]
        raise ProtocolError("PUBLISH from a client with a Subscription Identifier")
    alias = properties.get(props.TOPIC_ALIAS)
    if isinstance(alias, int):
        _resolve_alias(connection, publish, alias)
    read_expiry(publish, properties, now)


def read_expiry(publish: Publish, properties: Properties, now: int) -> None:
    """Set when the message expires, if it does [MQTT-3.3.2-5]."""
    interval = properties.get(props.MESSAGE_EXPIRY_INTERVAL)
    if isinstance(interval, int):
        publish.expires_at = now + interval * SECOND


def _resolve_alias(connection: "Connection", publish: Publish, alias: int) -> None:
    """Remember what the alias stands for on this connection, or look that up [MQTT-3.3.2-7, -12]."""
    most = connection.broker.capabilities.topic_alias_maximum
    if alias > most:  # [MQTT-3.3.2-9]
        raise TopicAliasInvalid(f"PUBLISH with Topic Alias {alias}; the CONNACK allows up to {most}")
    aliases = connection.aliases
    if aliases is None:
        aliases = connection.aliases = {}
    if publish.topic:
        aliases[alias] = publish.topic
        return
    topic = aliases.get(alias)
    if topic is None:
        raise ProtocolError(f"PUBLISH without a topic, with Topic Alias {alias}, which no PUBLISH here has set")
    publish.topic = topic


def check(broker: "Broker", publish: Publish) -> None:
    """Raise what a PUBLISH is refused with, MQTTError or PublishRefused, if it is not supported. Once per message."""
    capabilities = broker.capabilities
    capabilities.check_message("PUBLISH", publish.qos, publish.retain)
    if capabilities.must_be_text(publish.properties) and not is_text(publish.payload):
        message = "PUBLISH with a payload that is not UTF-8, though its Payload Format Indicator says so"
        if publish.qos == 0:  # nothing else would tell
            raise MQTTError(reason_codes.PAYLOAD_FORMAT_INVALID, message)
        raise PublishRefused(reason_codes.PAYLOAD_FORMAT_INVALID, message)


def refuse(connection: "Connection", session: Session, publish: Publish, refused: PublishRefused, now: int) -> None:
    """Answer a PUBLISH that goes nowhere, count it, and log it if it is the first one for a while.

    Raises `refused` to close, if 3.1.1 clients are to be told so [MQTT-3.3.5-2].
    """
    session.outbound.counters.publish_refused += 1
    broker = connection.broker
    if session.version == 4 and broker.authorization.close_refused:
        raise refused
    if now >= session.refused_until:
        broker.report_refused("publish_refused", session, connection.listener, refused)
    session.refused_until = now + EPISODE
    session.refuse(publish, refused.reason_code, in_words(refused.message))
