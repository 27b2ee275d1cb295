"""Handles the packets of a client, except PUBLISH and PUBACK with a session, which the connection handles itself."""


from broker.connection.handlers import Handlers
from broker.connection.peer import Peer
from broker.disconnects import by_client
from protocol import packet_types, reason_codes
from protocol.acknowledgements import Pubcomp, Pubrec, Pubrel
from protocol.auth import Auth
from protocol.disconnect import Disconnect
from protocol.errors import ProtocolError
from protocol.packet import Packet
from protocol.ping import PINGRESP_BYTES, Pingreq
from protocol.subscribe import Subscribe
from protocol.unsubscribe import Unsubscribe
from session.session import Session


def on_packet(handlers: Handlers, connection: Peer, packet: Packet, now: int) -> None:
    """Handle a packet. Raises MQTTError if the connection must be closed."""
    session = connection.session
    if session is None:
        handlers.handshake.on_packet(connection, packet, now)
    else:
        _on_packet(handlers, connection, session, packet, now)


def _on_packet(handlers: Handlers, connection: Peer, session: Session, packet: Packet, now: int) -> None:
    if isinstance(packet, Pubrec):
        session.sender.acknowledge(packet_types.PUBREC, packet.packet_id, packet.reason_code, now)
    elif isinstance(packet, Pubrel):
        session.inbound.release(packet.packet_id)
        if session.inbound.has_waiting():
            connection.route_parked(now)  # FC-22
    elif isinstance(packet, Pubcomp):
        session.sender.acknowledge(packet_types.PUBCOMP, packet.packet_id, packet.reason_code, now)
    elif isinstance(packet, Pingreq):
        session.reply(PINGRESP_BYTES)  # [MQTT-3.12.4-1]
    elif isinstance(packet, Subscribe):
        if connection.client is not None:
            handlers.subscribing.subscribe(connection.client, packet, now)
    elif isinstance(packet, Unsubscribe):
        if connection.client is not None:
            handlers.subscribing.unsubscribe(connection.client, packet)
    elif isinstance(packet, Auth):
        handlers.handshake.reauthenticate(connection, session, packet, now)
    elif isinstance(packet, Disconnect):
        _on_disconnect(handlers, connection, packet)
    else:  # the decoder refuses a second CONNECT
        raise ProtocolError(f"{type(packet).__name__} must not be sent by a client")


def _on_disconnect(handlers: Handlers, connection: Peer, packet: Disconnect) -> None:
    if connection.client is not None:
        connection.client.change_expiry(packet, handlers.settings.max_session_expiry_interval)
    if packet.reason_code == reason_codes.SUCCESS:
        connection.will = None  # [MQTT-3.14.4-3]
    handlers.totals.disconnects_received += 1
    connection.ends_by = by_client(packet.reason_code)
    connection.why = f"DISCONNECT by the client: {reason_codes.name(packet.reason_code, packet_types.DISCONNECT)}"
    connection.close()
