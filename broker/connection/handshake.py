"""CONNECT to CONNACK: who may connect, who that is, which session it gets, what it is told."""

from typing import TYPE_CHECKING
from uuid import uuid4

from broker.auth.topic_rules import RECEIVE_MAXIMUM
from broker.connection.admission import admit, check_rate
from broker.connection.log import log_connected
from broker.connection.replies import fits
from broker.runtime.clock import SECOND
from broker.sessions import Client
from protocol import properties as props
from protocol import reason_codes
from protocol.auth import Auth
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.disconnect import Disconnect
from protocol.errors import PacketTooLarge, ProtocolError
from protocol.packet import Packet
from protocol.properties import Properties

if TYPE_CHECKING:
    from broker.auth.exchange import Authentication
    from broker.auth.method import Answer
    from broker.broker import Broker
    from broker.connection.connection import Connection


def shake_hands(broker: "Broker", connection: "Connection", packet: Packet, now: int) -> None:
    """Do what a client asks for that has no session yet. Raises MQTTError to refuse the client."""
    if isinstance(packet, Connect):
        _on_connect(broker, connection, packet, now)
    elif isinstance(packet, Auth):
        authentication = connection.authentication
        assert authentication is not None  # without it, CONNECT has been answered
        _go_on(broker, connection, authentication, authentication.go_on(packet), now)
    elif isinstance(packet, Disconnect):
        connection.close(reason="DISCONNECT by the client before CONNACK")
    else:
        raise ProtocolError(f"{type(packet).__name__} before CONNACK")  # [MQTT-3.1.2-30]


def _on_connect(broker: "Broker", connection: "Connection", packet: Connect, now: int) -> None:
    broker.totals.connects += 1
    connection.client_id = packet.client_id
    connection.maximum_packet_size = props.integer(packet.properties, props.MAXIMUM_PACKET_SIZE)
    check_rate(broker, connection, now)
    admit(broker, connection, packet)
    authentication = broker.access.ask(packet, connection.listener)
    if authentication is None:
        _accept(broker, connection, packet, {}, now)
        return
    connection.authentication = authentication
    _go_on(broker, connection, authentication, authentication.begin(), now)


def _go_on(
    broker: "Broker", connection: "Connection", authentication: "Authentication", answer: "Answer", now: int
) -> None:
    """Answer a step of the exchange: with AUTH, or if it was the last, with all that CONNECT has been waiting for."""
    packet = authentication.connect
    assert packet is not None  # it waits until there is a session
    if answer.user is None:
        connection.write(authentication.reply(answer, connection.maximum_packet_size))
        return
    admit(broker, connection, packet)  # others have come in since
    authentication.connect = None
    _accept(broker, connection, packet, authentication.properties(answer), now)


def _accept(broker: "Broker", connection: "Connection", packet: Connect, own_properties: Properties, now: int) -> None:
    """Answer a CONNECT and start the session; `own_properties` are the first of the CONNACK's."""
    version = packet.version
    client_id = packet.client_id
    if not client_id:
        client_id = f"auto-{uuid4().hex}"
        own_properties[props.ASSIGNED_CLIENT_IDENTIFIER] = client_id  # [MQTT-3.1.3-7]
        connection.client_id = client_id
    expiry_interval = _expiry_interval(broker, packet)
    keep_alive = broker.capabilities.keep_alive(packet)
    asked = packet.properties or {}
    asked_expiry = props.integer(asked, props.SESSION_EXPIRY_INTERVAL)
    if version == 5:
        broker.capabilities.tell(own_properties, asked, client_id)
        if keep_alive != packet.keep_alive:
            own_properties[props.SERVER_KEEP_ALIVE] = keep_alive  # [MQTT-3.2.2-21]
        if expiry_interval != asked_expiry:
            own_properties[props.SESSION_EXPIRY_INTERVAL] = expiry_interval  # section 3.2.2.3.2
    maximum_packet_size = connection.maximum_packet_size
    connack = Connack(False, reason_codes.SUCCESS, own_properties if version == 5 else None)
    if maximum_packet_size:  # 0: any size
        _fit(connack, own_properties, maximum_packet_size)
    client, connack.session_present = _open_session(broker, client_id, packet.clean_start, now)
    client.connection = connection
    client.expires_at = 0
    client.expiry_interval = expiry_interval
    client.bridge = packet.bridge
    client.asked_to_last = asked_expiry > 0
    connection.client = client
    broker.online += 1
    broker.totals.most_online = max(broker.totals.most_online, broker.online)
    connection.will = packet.will
    connection.keep_alive = int(keep_alive * SECOND * broker.keepalive_multiplier)
    session = client.session
    session.listener = connection.listener
    connection.write(connack.encode(version))
    receive_maximum = RECEIVE_MAXIMUM if packet.bridge else props.integer(asked, props.RECEIVE_MAXIMUM)
    connection.session = session  # the timers that the session asks for at once are the connection's to set
    aliases = props.integer(asked, props.TOPIC_ALIAS_MAXIMUM)
    session.connect(connection, version, receive_maximum, maximum_packet_size, now, aliases)
    session.outbound.outbox.problem_information = asked.get(props.REQUEST_PROBLEM_INFORMATION) != 0  # [MQTT-3.1.2-29]
    connection.start(session)
    if broker.debug:
        log_connected(connection, packet, expiry_interval, connack.session_present)


def _fit(connack: Connack, own_properties: Properties, maximum_packet_size: int) -> None:
    """Leave out what need not be said to a client that takes small packets only [MQTT-3.1.2-24]."""
    if not fits(connack.encode(5), maximum_packet_size):
        own_properties.pop(props.RESPONSE_INFORMATION, None)
        if not fits(connack.encode(5), maximum_packet_size):
            raise PacketTooLarge(f"a client that takes {maximum_packet_size} bytes at most cannot be answered")


def _open_session(broker: "Broker", client_id: str, clean_start: bool, now: int) -> tuple[Client, bool]:
    """The client's session, and whether it was kept [MQTT-3.2.2-2, -3]. An older connection is closed first."""
    client = broker.clients.get(client_id)
    if client is not None and client.connection is not None:
        client.connection.read_to_end()  # it may have said DISCONNECT
        client = broker.clients.get(client_id)
    if client is not None:
        older = client.connection
        if older is not None:
            client.connection = None
            # [MQTT-3.1.4-3]
            older.close(reason_codes.SESSION_TAKEN_OVER, "another connection has come with this client id")
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
    asked = props.integer(packet.properties, props.SESSION_EXPIRY_INTERVAL)
    return min(asked, broker.max_session_expiry_interval)
