"""Who is let in: what a CONNECT must satisfy before anybody looks at who sent it."""

from typing import TYPE_CHECKING

from broker.connection.capabilities import is_text
from broker.connection.replies import Redirected
from protocol import reason_codes
from protocol.connect import Connect, Will
from protocol.errors import MQTTError, TopicNameInvalid

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.connection.connection import Connection


def check_rate(broker: "Broker", connection: "Connection", now: int) -> None:
    """Raise MQTTError if clients come from this one's address faster than `max_connection_rate` allows."""
    rate = broker.connection_rate
    if rate is None or connection.transport is None:
        return
    peer = connection.transport.get_extra_info("peername")
    if not rate.admit(peer[0] if peer else "", now):
        raise MQTTError(reason_codes.CONNECTION_RATE_EXCEEDED, "too many connections a second from one address")


def admit(broker: "Broker", connection: "Connection", packet: Connect) -> None:
    """Raise MQTTError if this client cannot be let in."""
    capabilities = broker.capabilities
    if capabilities.server_reference:
        raise Redirected(capabilities.redirection, capabilities.server_reference)
    client_id = packet.client_id
    if not client_id and packet.version == 4 and not packet.clean_start:  # 3.1.1: [MQTT-3.1.3-8]
        raise MQTTError(reason_codes.CLIENT_IDENTIFIER_NOT_VALID, "CONNECT without client id and clean session")
    if len(client_id.encode()) > broker.max_clientid_len:
        raise MQTTError(
            reason_codes.CLIENT_IDENTIFIER_NOT_VALID,
            f"client id of {len(client_id.encode())} bytes; at most {broker.max_clientid_len} are accepted",
        )
    if packet.will is not None:
        _check_will(broker, packet.will, client_id)
    if broker.max_connections and broker.online >= broker.max_connections:
        known = broker.clients.get(client_id)
        if known is None or known.connection is None:  # a take-over is not one more
            raise MQTTError(
                reason_codes.QUOTA_EXCEEDED, f"{broker.max_connections} clients are connected; no more are let in"
            )


def _check_will(broker: "Broker", will: Will, client_id: str) -> None:
    """What a PUBLISH is refused for a will is refused for at once: nobody could be told when it is published."""
    topic = will.topic
    if topic.count(b"/") >= broker.max_topic_levels:
        raise TopicNameInvalid(
            f"will topic of {topic.count(b'/') + 1} levels; at most {broker.max_topic_levels} are accepted"
        )
    broker.capabilities.check_message("will", will.qos, will.retain)
    authorization = broker.authorization
    if not authorization.may_publish(topic) and not authorization.may_tell_state(
        client_id, topic, will.payload, will.retain
    ):
        raise MQTTError(reason_codes.NOT_AUTHORIZED, f"will topic {topic.decode()!r:.100} is not permitted")
    if broker.capabilities.must_be_text(will.properties) and not is_text(will.payload):
        raise MQTTError(
            reason_codes.PAYLOAD_FORMAT_INVALID,
            "will with a payload that is not UTF-8, though its Payload Format Indicator says so",
        )
