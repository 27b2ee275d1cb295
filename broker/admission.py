"""Who is let in: what a CONNECT must satisfy before anybody looks at who sent it."""

from typing import TYPE_CHECKING

from protocol import reason_codes
from protocol.connect import Connect
from protocol.errors import MQTTError, TopicNameInvalid

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.connection import Connection


def slow_down(broker: "Broker", connection: "Connection", now: int) -> None:
    """Raise MQTTError if clients come from this one's address faster than `max_connection_rate` allows."""
    rate = broker.connection_rate
    if rate is None or connection.transport is None:
        return
    peer = connection.transport.get_extra_info("peername")
    if not rate.admit(peer[0] if peer else "", now):
        raise MQTTError(reason_codes.CONNECTION_RATE_EXCEEDED, "more connections a second than max_connection_rate")


def admit(broker: "Broker", connection: "Connection", packet: Connect) -> None:
    """Raise MQTTError if this client cannot be let in."""
    client_id = packet.client_id
    if not client_id and packet.version == 4 and not packet.clean_start:  # 3.1.1: [MQTT-3.1.3-8]
        raise MQTTError(reason_codes.CLIENT_IDENTIFIER_NOT_VALID, "CONNECT without client id and clean session")
    if len(client_id.encode()) > broker.max_clientid_len:
        raise MQTTError(
            reason_codes.CLIENT_IDENTIFIER_NOT_VALID,
            f"client id of {len(client_id.encode())} bytes; max_clientid_len is {broker.max_clientid_len}",
        )
    will = packet.will
    if will is not None and will.topic.count(b"/") >= broker.max_topic_levels:
        raise TopicNameInvalid(f"will topic has too many levels; max_topic_levels is {broker.max_topic_levels}")
    if broker.max_connections and broker.online >= broker.max_connections:
        known = broker.clients.get(client_id)
        if known is None or known.connection is None:  # a take-over is not one more
            raise MQTTError(reason_codes.QUOTA_EXCEEDED, f"max_connections is {broker.max_connections}")
