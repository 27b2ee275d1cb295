"""One client's connection, as the files that handle its packets see it.

`Connection` is the only implementation. It imports the handlers; they import this.
"""

from mypy_extensions import i64

from broker.auth.authenticators.turn import Turn
from broker.auth.exchange import Authentication
from broker.clients import Client
from broker.connection.aliases import ReceivedAliases
from broker.runtime.endpoint import Endpoint
from broker.runtime.read_gate import ReadGate, Resumer
from protocol.connect import Will
from protocol.decoder import Decoder
from protocol.errors import MQTTError
from session.session import Session


class Peer(Endpoint):
    """A client, its connection and its session."""

    def __init__(self, decoder: Decoder, resumer: Resumer, listener: str) -> None:
        super().__init__()
        # Attributes used for each chunk and packet come first: with many connections each cache line counts.
        self.decoder = decoder
        self.session: Session | None = None
        """The session whose data is written; None before CONNACK, and when it is detached."""
        self.heard_at: i64 = 0
        self.gate = ReadGate(self, resumer)
        self.listener = listener
        self.peer = ""
        """The peer address, for the log; without a proxy empty while there is a transport that knows it."""
        self.why = ""
        """Why the connection ends; empty until then."""
        self.client: Client | None = None
        self.client_id = ""
        """From CONNECT, or assigned by the broker; empty before that."""
        self.authentication: Authentication | None = None
        """The authentication exchange; None without an Authentication Method, or before CONNECT."""
        self.turn: Turn | None = None
        """The turn of its login, while that is decided about or waits for it."""
        self.will: Will | None = None
        self.aliases: ReceivedAliases | None = None
        """The client's topic aliases; None until the first."""
        self.maximum_packet_size = 0
        """The client's Maximum Packet Size; 0 = none, or before CONNECT."""

    def start(self, session: Session, keep_alive: int) -> None:
        """The handshake is done: run the session. Close after `keep_alive` microseconds without a packet; 0 = never."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC

    def fail(self, error: MQTTError) -> None:
        """Send the error's reason code, if the client's version has one, and close [MQTT-4.13.1-1]."""
        raise NotImplementedError  # abstract: mypyc's native classes have no ABC
