"""The client's side of a connection: CONNECT to CONNACK, SUBSCRIBE, PINGREQ, and what the remote broker refuses."""

from typing import Final, final

from broker.bridge.packet_ids import free_packet_id
from broker.bridge.suspect import Suspect
from broker.connection.peer import Peer
from broker.connection.side import Side
from broker.runtime.clock import SECOND
from broker.runtime.timers import Timer, Wheel
from protocol import packet_types, reason_codes
from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.disconnect import Disconnect
from protocol.errors import MQTTError, ProtocolError
from protocol.packet import Packet
from protocol.ping import PINGREQ_BYTES, Pingresp
from protocol.properties import Properties
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from protocol.unsuback import Unsuback
from protocol.unsubscribe import Unsubscribe
from session.session import Session

REFUSED: Final = reason_codes.UNSPECIFIED_ERROR
"""Reason codes from this one on say no."""
_FOR_CLIENTS: Final = frozenset(
    (
        reason_codes.MALFORMED_PACKET,
        reason_codes.PROTOCOL_ERROR,
        reason_codes.RECEIVE_MAXIMUM_EXCEEDED,
        reason_codes.TOPIC_ALIAS_INVALID,
        reason_codes.PACKET_TOO_LARGE,
        reason_codes.QUOTA_EXCEEDED,
        reason_codes.ADMINISTRATIVE_ACTION,
        reason_codes.PAYLOAD_FORMAT_INVALID,
    )
)
"""Reason codes of the broker that a client's DISCONNECT may have too (section 3.14.2.1)."""


class Initiator:
    """The bridge, which opens the connections."""

    def connect_packet(self) -> Connect:
        """The CONNECT to begin with."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def accepted(self, connection: Peer, connack: Connack, now: int) -> tuple[list[Subscription], list[str]]:
        """The remote broker has accepted the connection. Raises MQTTError to close.

        Returns what to subscribe to, and of what the subscriptions end.
        """
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def refused(self, session: Session, packet: Puback | Pubrec, now: int) -> None:
        """The remote broker has refused a message for good."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def failed(self, connection: Peer, error: MQTTError) -> None:
        """The remote broker has refused the connection or broken the protocol: the connection ends."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def subscribed(self, refused: list[str]) -> None:
        """Each SUBSCRIBE is answered; the filters that were refused."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def closed(self, connection: Peer, now: int) -> None:
        """A connection is closed."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC


_RETURN_CODES: Final = {
    1: reason_codes.UNSUPPORTED_PROTOCOL_VERSION,
    2: reason_codes.CLIENT_IDENTIFIER_NOT_VALID,
    3: reason_codes.SERVER_UNAVAILABLE,
    4: reason_codes.BAD_USER_NAME_OR_PASSWORD,
    5: reason_codes.NOT_AUTHORIZED,
}
"""Of a CONNACK of MQTT 3.1.1, by its return code."""


@final
class ClientSide(Side):
    """The connections of one bridge, one after the other."""

    def __init__(self, initiator: Initiator, wheel: Wheel) -> None:
        self.closed_by_other_end = "the connection was closed by the remote broker"
        self.suspect = Suspect()
        self._initiator = initiator
        self._wheel = wheel
        self.timeout = 15 * SECOND
        """Microseconds within which CONNACK has to come, and the answer to each SUBSCRIBE; 0 = any time."""
        self.keep_alive = 60 * SECOND
        """Microseconds."""
        self.leaves_will = False
        """Whether the remote broker publishes the will also if this side disconnects."""
        self.ends_session = False
        """Whether the remote broker is told to end the session, because the bridge is removed."""
        self._unanswered: dict[int, list[str]] = {}
        """Filters by the packet id of their SUBSCRIBE or UNSUBSCRIBE."""
        self._refused: list[str] = []

    def opened(self, connection: Peer) -> None:
        """Send CONNECT."""
        packet = self._initiator.connect_packet()
        connection.decoder.use(packet.version)
        connection.socket.write(packet.encode(packet.version))

    def limit_handshake(self, connection: Peer, now: int) -> None:
        """Close the connection if CONNACK does not come in time. WebSocket has to be open by then too."""
        if self.timeout:
            self._wheel.add(now + self.timeout, ConnackTimer(connection))

    def on_packet(self, connection: Peer, packet: Packet, now: int) -> None:
        """Handle a packet of the remote broker. Raises MQTTError if the connection must be closed."""
        session = connection.session
        if session is None:
            self._before_session(connection, packet, now)
        elif isinstance(packet, Puback | Pubrec):
            self._acknowledged(session, packet, now)
        elif isinstance(packet, Pubrel):
            session.inbound.release(packet.packet_id)
            if session.inbound.has_waiting():
                connection.route_parked(now)  # FC-22
        elif isinstance(packet, Pubcomp):
            session.sender.acknowledge(packet_types.PUBCOMP, packet.packet_id, packet.reason_code, now)
        elif isinstance(packet, Suback | Unsuback):
            self._answered(connection, session, packet)
        elif isinstance(packet, Disconnect):
            self._disconnected(connection, session, packet, now)
        elif isinstance(packet, Pingresp):
            kept = session.sender.kept
            if kept is not None and not self._unanswered:
                kept.release()
        elif isinstance(packet, Connack):
            raise ProtocolError("a second CONNACK")
        else:
            raise ProtocolError(f"{type(packet).__name__} must not be sent by a server")

    def _before_session(self, connection: Peer, packet: Packet, now: int) -> None:
        if not isinstance(packet, Connack):
            raise ProtocolError(f"{type(packet).__name__} before CONNACK")
        if packet.reason_code:
            code = _RETURN_CODES.get(packet.reason_code, packet.reason_code)
            raise MQTTError(code, f"CONNACK of the remote broker: {_explained(code, packet)}")
        subscriptions, ended = self._initiator.accepted(connection, packet, now)
        session = connection.session
        assert session is not None  # it is accepted
        given = props.integer(packet.properties, props.SERVER_KEEP_ALIVE) * SECOND
        PingTimer(self._wheel, connection, min(given or self.keep_alive, self.keep_alive)).start(now)
        self._refused = []
        self._unanswered = {}
        self._subscribe(connection, session, subscriptions, ended)
        if self.timeout and self._unanswered:
            AnswerTimer(self, self._wheel, connection, session).start(now)

    def _subscribe(
        self, connection: Peer, session: Session, subscriptions: list[Subscription], ended: list[str]
    ) -> None:
        """Each filter has a packet of its own: some brokers take only a few at once."""
        for topic_filter in ended:
            packet_id = free_packet_id(session, self._unanswered)
            self._unanswered[packet_id] = []
            connection.socket.write(Unsubscribe(packet_id, [topic_filter]).encode(session.version))
        for subscription in subscriptions:
            packet_id = free_packet_id(session, self._unanswered)
            self._unanswered[packet_id] = [subscription.topic_filter]
            connection.socket.write(Subscribe(packet_id, [subscription]).encode(session.version))
        if not self._unanswered:
            self._subscribed(connection, session)

    def lacks(self) -> int:
        """How many SUBSCRIBEs and UNSUBSCRIBEs of the last connection are not answered."""
        return len(self._unanswered)

    def _subscribed(self, connection: Peer, session: Session) -> None:
        """Each SUBSCRIBE is answered. A message that goes alone waits until all that went before is, too."""
        self._initiator.subscribed(self._refused)
        kept = session.sender.kept
        if kept is not None and kept.singly:
            connection.socket.write(PINGREQ_BYTES)

    def _answered(self, connection: Peer, session: Session, packet: Suback | Unsuback) -> None:
        filters = self._unanswered.pop(packet.packet_id, None)
        if filters is None:
            raise ProtocolError(f"{type(packet).__name__} for packet identifier {packet.packet_id}, which is not known")
        if isinstance(packet, Suback):
            if len(packet.reason_codes) != max(len(filters), 1):
                raise ProtocolError(f"SUBACK with {len(packet.reason_codes)} reason codes, for {len(filters)} filters")
            self._refused += [each for each, code in zip(filters, packet.reason_codes, strict=False) if code >= REFUSED]
        if not self._unanswered:
            self._subscribed(connection, session)

    def _acknowledged(self, session: Session, packet: Puback | Pubrec, now: int) -> None:
        code = packet.reason_code
        if code == reason_codes.QUOTA_EXCEEDED:  # it may have room later: the message stays in the window
            raise MQTTError(code, f"the remote broker has no room: {_explained(packet.reason_code, packet)}")
        if code >= REFUSED:
            self._initiator.refused(session, packet, now)
        session.sender.acknowledge(packet.packet_type, packet.packet_id, code, now)

    def _disconnected(self, connection: Peer, session: Session, packet: Disconnect, now: int) -> None:
        code = packet.reason_code
        refusal = self.suspect.refusal(session, code)
        if refusal is not None:
            self._acknowledged(session, refusal, now)
        why = f"DISCONNECT by the remote broker: {_explained(packet.reason_code, packet)}"
        connection.ends_by = reason_codes.UNSPECIFIED_ERROR if code >= REFUSED else code
        connection.why = why
        self._initiator.failed(connection, MQTTError(code, why))
        connection.close()

    def refuse(self, connection: Peer, error: MQTTError) -> bytes:
        """Tell the bridge; nothing answers a server before there is a session."""
        self._initiator.failed(connection, error)
        return b""

    def farewell(
        self, connection: Peer, session: Session, reason_code: int, reason: str, server_reference: str
    ) -> bytes:
        """DISCONNECT: without it the remote broker publishes the will."""
        if session.version != 5:
            return b"" if self.leaves_will else Disconnect(reason_codes.SUCCESS).encode(4)
        if reason_code in _FOR_CLIENTS:
            return Disconnect(reason_code).encode(5)
        properties: Properties | None = {props.SESSION_EXPIRY_INTERVAL: 0} if self.ends_session else None
        code = reason_codes.DISCONNECT_WITH_WILL_MESSAGE if self.leaves_will else reason_codes.SUCCESS
        return Disconnect(code, properties).encode(5)

    def closed(self, connection: Peer, now: int) -> None:
        """Tell the bridge."""
        self._initiator.closed(connection, now)


@final
class ConnackTimer(Timer):
    """Closes a connection that has no session in time."""

    def __init__(self, connection: Peer) -> None:
        self.connection = connection

    def wanted(self) -> bool:
        """False once it has a session, or is closing."""
        return self.connection.session is None and not self.connection.gate.closed

    def due(self, now: int) -> None:
        """Close it."""
        if self.wanted():
            self.connection.close(reason="no CONNACK of the remote broker within mqtt.connect_timeout")


@final
class AnswerTimer(Timer):
    """Closes a connection whose SUBSCRIBEs and UNSUBSCRIBEs are not answered in time."""

    def __init__(self, side: ClientSide, wheel: Wheel, connection: Peer, session: Session) -> None:
        self.connection = connection
        self._side = side
        self._wheel = wheel
        self._session = session
        self._seen = (0, 0)

    def wanted(self) -> bool:
        """False once all are answered, or it is closing."""
        return not self.connection.gate.closed and self._side.lacks() > 0

    def start(self, now: int) -> None:
        """What comes meanwhile, answers or the retained messages before one, begins the time anew."""
        self._seen = (self._side.lacks(), self._session.totals(now).received)
        self._wheel.add(now + self._side.timeout, self)

    def due(self, now: int) -> None:
        """Close it, unless something has come, or the answer may wait in the socket."""
        if not self.wanted():
            return
        seen = (self._side.lacks(), self._session.totals(now).received)
        if seen != self._seen or self.connection.gate.reasons:
            self.start(now)
        else:
            why = "the remote broker has not answered SUBSCRIBE or UNSUBSCRIBE within mqtt.connect_timeout"
            self.connection.close(reason=why)


@final
class PingTimer(Timer):
    """Sends PINGREQ, and closes the connection if nothing at all comes for a keep-alive."""

    def __init__(self, wheel: Wheel, connection: Peer, keep_alive: int) -> None:
        self.connection = connection
        self._wheel = wheel
        self._keep_alive = keep_alive
        self._asked_at = 0
        """When PINGREQ was sent last; 0 = not yet."""

    def wanted(self) -> bool:
        """False once it is closing."""
        return not self.connection.gate.closed

    def start(self, now: int) -> None:
        """Twice in each keep-alive."""
        self._wheel.add(now + self._keep_alive // 2, self)

    def due(self, now: int) -> None:
        """Send PINGREQ; what has been asked for before has to have come."""
        connection = self.connection
        if connection.gate.closed:
            return
        silent = connection.heard_at < self._asked_at
        if silent and not connection.gate.reasons:  # else it may wait in the socket
            connection.close(reason_codes.KEEP_ALIVE_TIMEOUT, "no packet of the remote broker within the keep-alive")
            return
        self._asked_at = now
        connection.socket.write(PINGREQ_BYTES)
        self.start(now)


def _explained(code: int, packet: Connack | Disconnect | Puback | Pubrec) -> str:
    """The name of its reason code, and its Reason String if it has one."""
    name = reason_codes.name(code, packet.packet_type)
    text = (packet.properties or {}).get(props.REASON_STRING)
    return f"{name} ({text})" if isinstance(text, str) else name
