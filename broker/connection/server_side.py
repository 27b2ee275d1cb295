"""The server's side of a connection: packets of a client, except PUBLISH, and how the connection begins and ends."""

from typing import final

from broker.connection.handshake import Handshake
from broker.connection.log import log_refused
from broker.connection.newcomers import Newcomers
from broker.connection.peer import Peer
from broker.connection.side import Side
from broker.connection.subscribing import Subscribing
from broker.connection.timers import ConnectionDeadlines
from broker.disconnects import by_client
from broker.events import Events
from broker.settings import Settings
from broker.totals import Totals
from protocol import packet_types, reason_codes
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.auth import Auth
from protocol.disconnect import Disconnect
from protocol.errors import MQTTError, ProtocolError
from protocol.packet import Packet
from protocol.ping import PINGRESP_BYTES, Pingreq
from protocol.replies import connack, disconnect
from protocol.subscribe import Subscribe
from protocol.unsubscribe import Unsubscribe
from session.session import Session, tell_refused


@final
class ServerSide(Side):
    """All connections to clients."""

    def __init__(
        self,
        settings: Settings,
        totals: Totals,
        events: Events,
        newcomers: Newcomers,
        handshakes: ConnectionDeadlines,
        handshake: Handshake,
        subscribing: Subscribing,
    ) -> None:
        self._settings = settings
        self._totals = totals
        self._events = events
        self._newcomers = newcomers
        self._handshakes = handshakes
        self._handshake = handshake
        self._subscribing = subscribing

    def opened(self, connection: Peer) -> None:
        """CONNECT has to follow in time."""
        self._newcomers.add(connection)
        timeout = self._settings.connect_timeout
        if timeout:
            self._handshakes.set(connection, connection.heard_at + timeout)

    def on_packet(self, connection: Peer, packet: Packet, now: int) -> None:
        """Handle a packet. Raises MQTTError if the connection must be closed."""
        session = connection.session
        if session is None:
            self._handshake.on_packet(connection, packet, now)
        else:
            self._on_packet(connection, session, packet, now)

    def _on_packet(  # noqa: C901 - one branch for each packet
        self, connection: Peer, session: Session, packet: Packet, now: int
    ) -> None:
        if isinstance(packet, Pubrec):
            if packet.reason_code >= reason_codes.UNSPECIFIED_ERROR:
                tell_refused(session, packet.packet_id)
            session.sender.acknowledge(packet_types.PUBREC, packet.packet_id, packet.reason_code, now)
        elif isinstance(packet, Pubrel):
            session.inbound.release(packet.packet_id)
            if session.inbound.has_waiting():
                connection.route_parked(now)  # FC-22
        elif isinstance(packet, Pubcomp):
            session.sender.acknowledge(packet_types.PUBCOMP, packet.packet_id, packet.reason_code, now)
        elif isinstance(packet, Puback):  # success is handled before
            tell_refused(session, packet.packet_id)
            session.sender.acknowledge(packet_types.PUBACK, packet.packet_id, packet.reason_code, now)
        elif isinstance(packet, Pingreq):
            session.reply(PINGRESP_BYTES)  # [MQTT-3.12.4-1]
        elif isinstance(packet, Subscribe):
            if connection.client is not None:
                self._subscribing.subscribe(connection.client, packet, now)
        elif isinstance(packet, Unsubscribe):
            if connection.client is not None:
                self._subscribing.unsubscribe(connection.client, packet)
        elif isinstance(packet, Auth):
            self._handshake.reauthenticate(connection, session, packet, now)
        elif isinstance(packet, Disconnect):
            self._on_disconnect(connection, packet)
        else:  # the decoder refuses a second CONNECT
            raise ProtocolError(f"{type(packet).__name__} must not be sent by a client")

    def _on_disconnect(self, connection: Peer, packet: Disconnect) -> None:
        if connection.client is not None:
            connection.client.change_expiry(packet, self._settings.max_session_expiry_interval)
        if packet.reason_code == reason_codes.SUCCESS:
            connection.will = None  # [MQTT-3.14.4-3]
        self._totals.disconnects_received += 1
        connection.ends_by = by_client(packet.reason_code)
        connection.why = f"DISCONNECT by the client: {reason_codes.name(packet.reason_code, packet_types.DISCONNECT)}"
        connection.close()

    def refuse(self, connection: Peer, error: MQTTError) -> bytes:
        """Count and log a refused client; CONNACK tells it, if its version has a code for the error [MQTT-4.13.1-1]."""
        self._totals.count_refused(connection.listener, error.reason_code)
        log_refused(self._events, connection, error, self._settings.max_packet_size)
        if connection.session is not None:
            return b""
        limit = max(connection.maximum_packet_size, error.maximum_packet_size)
        return connack(error, connection.decoder.version, limit)

    def farewell(
        self, connection: Peer, session: Session, reason_code: int, reason: str, server_reference: str
    ) -> bytes:
        """DISCONNECT of MQTT 5 with the reason why the client is disconnected."""
        if reason_code == reason_codes.SUCCESS or session.version != 5:
            return b""
        packet = disconnect(reason_code, reason, connection.maximum_packet_size, server_reference)
        if packet:
            self._totals.disconnects_sent += 1
        return packet

    def closed(self, connection: Peer, now: int) -> None:
        """Nothing is left to do."""
