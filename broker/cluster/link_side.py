"""Both ends of a link: CONNECT and CONNACK, then SUBSCRIBE and UNSUBSCRIBE in both directions.

Here SUBSCRIBE may come from either end: a link carries what each cell has for the other. After CONNACK each end sends
all its filters, then PINGREQ. What its session had before, and was not among them, has ended.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from broker.bridge.client_side import PingTimer
from broker.bridge.packet_ids import free_packet_id
from broker.broker import Broker
from broker.cluster.cell import number_of
from broker.cluster.own_filters import OwnFilter
from broker.connection.peer import Peer
from broker.connection.side import Side
from broker.runtime.clock import SECOND
from protocol import packet_types, reason_codes
from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.disconnect import Disconnect
from protocol.errors import MQTTError, ProtocolError
from protocol.packet import Packet
from protocol.ping import PINGREQ_BYTES, PINGRESP_BYTES, Pingreq, Pingresp
from protocol.properties import Properties
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from protocol.unsuback import Unsuback
from protocol.unsubscribe import Unsubscribe
from session.limits import PACKET_IDS
from session.session import Session, tell_refused

if TYPE_CHECKING:
    from broker.cluster.cell_link import CellLink
    from broker.cluster.link_controls import LinkControls

KEEP_ALIVE: Final = 20 * SECOND
"""Microseconds. A cell that is stalled for less loses no link."""
MOST_FILTERS: Final = 200
"""Filters of one SUBSCRIBE."""


@final
class LinkSide(Side):
    """All links of one cell."""

    def __init__(self, broker: Broker, own_id: str, find: "Callable[[int], CellLink | None]") -> None:
        """`find`: the link to the cell with this number; None = there is no such cell."""
        self.closed_by_other_end = "the link was closed by the other cell"
        self._broker = broker
        self._own_id = own_id
        self._find = find
        self._links: dict[Peer, CellLink] = {}
        self._on_closed: dict[Peer, Callable[[], None]] = {}

    def dials(self, connection: Peer, link: "CellLink", on_closed: Callable[[], None]) -> None:
        """This connection is about to be opened by this cell; `on_closed` is called when it is closed, or was not."""
        self._links[connection] = link
        self._on_closed[connection] = on_closed

    def opened(self, connection: Peer) -> None:
        """The cell that has opened it sends CONNECT."""
        link = self._links.get(connection)
        if link is not None:
            connection.decoder.use(5)
            packet = Connect(self._own_id, not link.session_present, version=5, properties=_told())
            connection.socket.write(packet.encode(5))

    def on_packet(self, connection: Peer, packet: Packet, now: int) -> None:
        """Handle a packet. Raises MQTTError if the link must be closed."""
        link, session = self._links.get(connection), connection.session
        if link is None or session is None:
            self._before_session(connection, link, packet, now)
        else:
            self._on_packet(connection, link, session, packet, now)

    def _before_session(self, connection: Peer, link: "CellLink | None", packet: Packet, now: int) -> None:
        if link is None and isinstance(packet, Connect):
            link = self._find(number_of(packet.client_id))
            if link is None:
                raise MQTTError(reason_codes.CLIENT_IDENTIFIER_NOT_VALID, f"CONNECT of {packet.client_id!r:.100}")
            self._links[connection] = link
            present = link.session_present
            connection.client_id = packet.client_id
            connection.socket.write(Connack(present, reason_codes.SUCCESS, _told()).encode(5))
            other_has_one = not packet.clean_start
        elif link is not None and isinstance(packet, Connack):
            if packet.reason_code:
                raise MQTTError(packet.reason_code, f"CONNACK: {reason_codes.name(packet.reason_code)}")
            other_has_one = packet.session_present
        else:
            raise ProtocolError(f"{type(packet).__name__} before CONNECT")
        link.attach(connection, other_has_one, now)
        PingTimer(self._broker.wheel, connection, KEEP_ALIVE).start(now)
        self._tell_all(connection, link)

    def controls(self, connection: Peer) -> "LinkControls":
        """Those of the link that a connection is of."""
        return self._links[connection].controls

    def _tell_all(self, connection: Peer, link: "CellLink") -> None:
        filters = link.own.all()
        for first in range(0, len(filters), MOST_FILTERS):
            self.subscribe(connection, link, filters[first : first + MOST_FILTERS])
        link.groups.tell_all()
        connection.socket.write(PINGREQ_BYTES)

    def subscribe(self, connection: Peer, link: "CellLink", told: list[OwnFilter]) -> None:
        """CL-1: tell the other cell of filters of this one. Here No Local says that no kept session has a filter."""
        session = connection.session
        assert session is not None  # it is attached
        packet_id = free_packet_id(session, link.unanswered)
        link.unanswered[packet_id] = told
        wanted = [Subscription(each.topic_filter, 2, not each.kept, True, 2) for each in told]
        connection.socket.write(Subscribe(packet_id, wanted).encode(5))

    def unsubscribe(self, connection: Peer, link: "CellLink", topic_filter: str) -> None:
        """The last client here with this filter has gone."""
        session = connection.session
        assert session is not None  # it is attached
        packet_id = free_packet_id(session, link.unanswered)
        link.unanswered[packet_id] = []
        connection.socket.write(Unsubscribe(packet_id, [topic_filter]).encode(5))

    def _on_packet(
        self, connection: Peer, link: "CellLink", session: Session, packet: Packet, now: int
    ) -> None:
        if isinstance(packet, Puback | Pubrec):
            if packet.reason_code >= reason_codes.UNSPECIFIED_ERROR:
                tell_refused(session, packet.packet_id)
            session.sender.acknowledge(packet.packet_type, packet.packet_id, packet.reason_code, now)
        elif isinstance(packet, Pubrel):
            session.inbound.release(packet.packet_id)
            if session.inbound.has_waiting():
                connection.route_parked(now)  # FC-22
        elif isinstance(packet, Pubcomp):
            session.sender.acknowledge(packet_types.PUBCOMP, packet.packet_id, packet.reason_code, now)
        elif isinstance(packet, Subscribe):
            link.subscribed(packet.subscriptions, now)
            codes = [each.qos for each in packet.subscriptions]
            session.reply(Suback(packet.packet_id, codes).encode(5))
        elif isinstance(packet, Unsubscribe):
            link.unsubscribed(packet.topic_filters)
            session.reply(Unsuback(packet.packet_id, [0] * len(packet.topic_filters)).encode(5))
        elif isinstance(packet, Suback | Unsuback):
            link.answered(packet.packet_id)
        elif isinstance(packet, Pingreq):
            link.end_former()
            session.reply(PINGRESP_BYTES)
        elif isinstance(packet, Disconnect):
            connection.why = f"DISCONNECT by the other cell: {reason_codes.name(packet.reason_code)}"
            connection.close()
        elif isinstance(packet, Pingresp):
            link.all_known()
        else:
            raise ProtocolError(f"{type(packet).__name__} on a link")

    def refuse(self, connection: Peer, error: MQTTError) -> bytes:
        """Log it; the link is opened again."""
        connection.why = error.message
        return b""

    def farewell(
        self, connection: Peer, session: Session, reason_code: int, reason: str, server_reference: str
    ) -> bytes:
        """Nothing: the other cell sees that it is closed."""
        return b""

    def closed(self, connection: Peer, now: int) -> None:
        """Tell the link."""
        link = self._links.pop(connection, None)
        if link is not None:
            link.closed(connection, now)
        on_closed = self._on_closed.pop(connection, None)
        if on_closed is not None:
            on_closed()


def _told() -> Properties:
    return {props.RECEIVE_MAXIMUM: PACKET_IDS}
