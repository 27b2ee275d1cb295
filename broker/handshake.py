"""CONNECT to CONNACK: who may connect, which session it gets, what it is told."""

from typing import TYPE_CHECKING, Final
from uuid import uuid4

from broker.admission import admit
from broker.clients import SECOND, Client
from protocol import properties as props
from protocol import reason_codes
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.errors import MQTTError, PacketTooLarge, UnsupportedProtocolVersion
from protocol.properties import Properties

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.connection import Connection

_V4_RETURN_CODES: Final = {reason_codes.CLIENT_IDENTIFIER_NOT_VALID: 2, reason_codes.QUOTA_EXCEEDED: 3}
"""What 3.1.1 has words for, of all that a CONNECT may be refused for here (3.1.1: table 3.1)."""


def connect(broker: "Broker", connection: "Connection", packet: Connect, now: int) -> None:
    """Answer a CONNECT and start the session. Raises MQTTError to refuse it."""
    version = packet.version
    own_properties: Properties = {}
    client_id = packet.client_id
    _check_method(packet)
    admit(broker, connection, packet)
    if not client_id:
        client_id = f"auto-{uuid4().hex}"
        own_properties[props.ASSIGNED_CLIENT_IDENTIFIER] = client_id  # [MQTT-3.1.3-7]
    expiry_interval = _expiry_interval(broker, packet)
    asked = packet.properties or {}
    if version == 5:
        broker.capabilities.tell(own_properties)
        if expiry_interval != _integer(asked, props.SESSION_EXPIRY_INTERVAL):
            own_properties[props.SESSION_EXPIRY_INTERVAL] = expiry_interval  # [MQTT-3.2.2-21]
    maximum_packet_size = _integer(asked, props.MAXIMUM_PACKET_SIZE)
    connack = Connack(False, reason_codes.SUCCESS, own_properties if version == 5 else None)
    if 0 < maximum_packet_size < len(connack.encode(version)):  # [MQTT-3.1.2-24]
        raise PacketTooLarge(f"a client that takes {maximum_packet_size} bytes at most cannot be answered")
    client, connack.session_present = _open_session(broker, client_id, packet.clean_start, now)
    client.connection = connection
    client.expires_at = 0
    client.expiry_interval = expiry_interval
    connection.client = client
    broker.online += 1
    connection.will = packet.will
    connection.keep_alive = int(packet.keep_alive * SECOND * broker.keepalive_multiplier)
    session = client.session
    session.listener = connection.listener
    transport = connection.transport
    assert transport is not None  # a connection that has received bytes
    transport.write(connack.encode(version))
    receive_maximum = _integer(asked, props.RECEIVE_MAXIMUM)
    connection.session = session  # the timers that the session asks for at once are the connection's to set
    session.connect(connection, version, receive_maximum, maximum_packet_size, now)
    connection.start(session)


def answer_refused(error: MQTTError, version: int) -> bytes:
    """The CONNACK that says why; empty where the client's version has no words for it, or is not known yet."""
    if isinstance(error, UnsupportedProtocolVersion):
        return error.answer
    if version == 5:
        return Connack(False, error.reason_code).encode(5)
    if version == 4 and error.reason_code in _V4_RETURN_CODES:
        return Connack(False, _V4_RETURN_CODES[error.reason_code]).encode(4)
    return b""


def _check_method(packet: Connect) -> None:
    if packet.properties is not None and props.AUTHENTICATION_METHOD in packet.properties:
        method = packet.properties[props.AUTHENTICATION_METHOD]
        raise MQTTError(  # [MQTT-4.12.0-1]
            reason_codes.BAD_AUTHENTICATION_METHOD, f"CONNECT asks for authentication by {method!r}; there is none here"
        )


def _open_session(broker: "Broker", client_id: str, clean_start: bool, now: int) -> tuple[Client, bool]:
    """The client's session, and whether it was kept [MQTT-3.2.2-2]. An older connection is closed first."""
    client = broker.clients.get(client_id)
    if client is not None:
        older = client.connection
        if older is not None:
            client.connection = None
            older.close(reason_codes.SESSION_TAKEN_OVER)  # [MQTT-3.1.4-3]
            broker.detach(older, client, now, not clean_start)
            client = broker.clients.get(client_id)
    if client is not None:
        if not clean_start:
            client.will = None  # [MQTT-3.1.3-9]: it came back before the delay was over
            return client, True
        broker.end_session(client, now)
    return broker.new_client(client_id, now), False


def _expiry_interval(broker: "Broker", packet: Connect) -> int:
    if packet.version == 4:
        return 0 if packet.clean_start else broker.session_expiry_interval
    asked = packet.properties or {}
    return min(_integer(asked, props.SESSION_EXPIRY_INTERVAL), broker.max_session_expiry_interval)


def _integer(properties: Properties, key: int) -> int:
    value = properties.get(key, 0)
    assert isinstance(value, int)  # the codec's type for this property
    return value
