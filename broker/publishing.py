"""What a received PUBLISH must pass before it is routed: its properties, and what this broker permits."""

from typing import TYPE_CHECKING

from protocol import properties as props
from protocol import reason_codes
from protocol.errors import ProtocolError, TopicAliasInvalid
from protocol.properties import Properties
from protocol.publish import Publish
from session.session import Session

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.connection import Connection

_SECOND = 1_000_000


def read_properties(connection: "Connection", publish: Publish, properties: Properties, now: int) -> None:
    """Give the PUBLISH its topic, if an alias stands for it, and its expiry. Raises MQTTError."""
    if props.SUBSCRIPTION_IDENTIFIER in properties:
        raise ProtocolError("PUBLISH from a client with a Subscription Identifier [MQTT-3.3.4-6]")
    alias = properties.get(props.TOPIC_ALIAS)
    if isinstance(alias, int):
        _resolve_alias(connection, publish, alias)
    read_expiry(publish, properties, now)


def read_expiry(publish: Publish, properties: Properties, now: int) -> None:
    """Set when the message expires, if it does [MQTT-3.3.2-5]."""
    interval = properties.get(props.MESSAGE_EXPIRY_INTERVAL)
    if isinstance(interval, int):
        publish.expires_at = now + interval * _SECOND


def _resolve_alias(connection: "Connection", publish: Publish, alias: int) -> None:
    """Remember what the alias stands for on this connection, or look that up [MQTT-3.3.2-7, -12]."""
    most = connection.broker.capabilities.topic_alias_maximum
    if alias > most:
        raise TopicAliasInvalid(f"PUBLISH with Topic Alias {alias}; the CONNACK allows up to {most} [MQTT-3.3.2-9]")
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


def refusal(broker: "Broker", publish: Publish) -> int:
    """The reason code that a PUBLISH is refused with; 0 = it may be routed. Raises MQTTError to close."""
    return reason_codes.SUCCESS


def refuse(connection: "Connection", session: Session, publish: Publish, reason_code: int) -> None:
    """Answer a PUBLISH that is not routed. Raises MQTTError to close instead [MQTT-3.3.5-2]."""
    session.refuse(publish, reason_code)
