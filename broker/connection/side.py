"""What a connection does on its side of MQTT: the server's (server_side.py), or a client's (broker/bridge).

Only CONNECT to CONNACK, SUBSCRIBE and PINGREQ differ. PUBLISH and its acknowledgements are the same in both directions.
"""

from broker.connection.peer import Peer
from protocol.errors import MQTTError
from protocol.packet import Packet
from protocol.properties import Properties
from protocol.publish import Publish
from session.session import Session


class Side:
    """Handles what belongs to one side. All connections of a broker to its clients share one."""

    closed_by_other_end: str = "the connection was closed by the client"
    """Why a connection ends whose other end says nothing, for the log."""

    def opened(self, connection: Peer) -> None:
        """The socket is open."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def on_packet(self, connection: Peer, packet: Packet, now: int) -> None:
        """Handle a packet that is no PUBLISH, and no PUBACK of success. Raises MQTTError to close the connection."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def refuse(self, connection: Peer, error: MQTTError) -> bytes:
        """Log an error of the other end, and return what tells it before there is a session; empty = nothing does."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def farewell(
        self, connection: Peer, session: Session, reason_code: int, reason: str, server_reference: str
    ) -> bytes:
        """The DISCONNECT that ends a session's connection; empty = none is sent."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def closed(self, connection: Peer, now: int) -> None:
        """The socket is closed, by either end, and the session is detached."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC


class PublishHandler:
    """Handles received PUBLISHes."""

    def read_properties(self, connection: Peer, publish: Publish, properties: Properties, now: int) -> None:
        """Resolve the topic alias and set the expiry, before the session accepts the PUBLISH. Raises MQTTError."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def publish(self, connection: Peer, session: Session, publish: Publish, now: int) -> None:
        """Route and acknowledge a PUBLISH that the session has accepted. Raises MQTTError to close."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC
