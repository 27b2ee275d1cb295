"""The clients that have a session: for each client id the session, connection, expiry and delayed will."""

from collections.abc import Callable, Iterator
from typing import Final, final

from mypy_extensions import i64, mypyc_attr, u8

from broker.auth.identity import Identity
from broker.auth.permissions import Permissions
from broker.disconnects import LOST
from broker.quota import Quota, Usage
from broker.routing.retained_feed import RetainedFeed
from broker.runtime.endpoint import Endpoint
from broker.runtime.timers import Timer
from broker.storage.kept_session import KeptSession
from broker.storage.kept_will import KeptWill
from config.bridge import CLIENT_ID
from config.cluster import CELL
from protocol import properties as props
from protocol.disconnect import Disconnect
from protocol.errors import ProtocolError
from session.flows import FIFO, PUBLISHING_BROKER, flow_of, from_broker, from_client
from session.host import Host
from session.limits import Limits
from session.outbound import Outbound
from session.session import Session

NEVER_EXPIRES: Final = 0xFFFFFFFF
"""Session Expiry Interval of a session that does not expire (section 3.1.2.11.2)."""


@mypyc_attr(acyclic=True)
@final
class Seen:
    """What the dashboard has seen when it last looked."""

    def __init__(self) -> None:
        self.at = 0
        """When that was, in microseconds."""
        self.received = 0
        """Messages since the session began, from the client and to it."""
        self.sent = 0
        self.dropped = 0
        """Deliveries dropped since then."""


@final
class Client:
    """The broker's record of one client id, until its session ends."""

    def __init__(self, client_id: str, limits: Limits, host: Host, now: int) -> None:  # noqa: PLR0915 - a field each
        self.session = Session(client_id, limits, host, now)
        self.connection: Endpoint | None = None
        # Booleans that follow each other share eight bytes.
        self.owned = False
        """Whether `identity` is known: it is not in a journal that an older broker has written."""
        self.rights_changed = False
        """Whether what waits was routed by other rights, or other topics were denied to all: it is looked at when the
        client connects."""
        self.counted_connected = False
        """Whether it is one of the connected ones in `usage`."""
        self.counted_kept = False
        """Whether its session is one of the kept ones in `usage`."""
        self.bridge = False
        """Whether the client is a bridge by MQTT 3.1.1 (protocol level 0x84)."""
        self.broker_id: i64 = -1
        """The id of the broker that it is (broker/routing/via.py), 0 if that is not known; -1 = it is none."""
        self.asked_to_last = False
        """Whether CONNECT asked for a Session Expiry Interval above zero, even if the broker has set it to zero."""
        self.disconnected_by: u8 = LOST
        """Why its last connection has ended (broker/disconnects.py)."""
        self.disconnected_at: i64 = 0
        """When that was, in microseconds; 0 = it has not been disconnected since the broker started."""
        self.identity: Identity | None = None
        """Who its last connection has authenticated as; None without authentication, or by a certificate."""
        self.permissions: Permissions | None = None
        """What it may do; None if there are no rules."""
        self.quota: Quota | None = None
        """How much it may use (FC-31); None if there are no quotas."""
        self.usage: Usage | None = None
        """What its user uses; None if there are no quotas."""
        self.expiry_interval = 0
        """Seconds until the session ends after its connection; 0 = at once, NEVER_EXPIRES = it does not expire."""
        self.expires_at = 0
        """When a detached session expires, in microseconds; 0 = it does not."""
        self.will: Timer | None = None
        """The timer of a delayed will."""
        self.kept: KeptSession | None = None
        """The session's part of the journal (FC-27); None = it does not survive the process."""
        self.kept_will: KeptWill | None = None
        """The will in the journal of a client whose session does not survive its connection; None = there is none."""
        self.feed: RetainedFeed | None = None
        """Delivers retained messages to new subscriptions; None until there is one."""
        self.walk = 0
        """Number of the last $SYS walk that counted this client."""
        self.seen: Seen | None = None
        """What the dashboard has seen of it; None without viewers."""
        self.place = 0
        """Its place in `Clients`."""

    def attach(self, connection: Endpoint, identity: Identity | None, expiry_interval: int, bridge: bool) -> None:
        """The client has connected."""
        self.connection = connection
        self.identity = identity
        self.owned = True
        self.expires_at = 0
        self.expiry_interval = expiry_interval
        self.bridge = bridge
        self.note_flow()

    def note_flow(self) -> None:
        """FC-33, CL-5: set the flow of what the client publishes from now on."""
        user = "" if self.identity is None else self.identity.user
        session = self.session
        flow = 0 if session.limits.fairness == FIFO else flow_of(session.client_id, user)
        broker = self.broker_id
        session.flow = from_client(flow, self.place + 1) if broker < 0 else from_broker(flow, broker)

    def note_disconnect(self, reason: int, now: int) -> None:
        """Its connection has ended."""
        self.disconnected_by = reason
        self.disconnected_at = now

    def belongs_to(self, identity: Identity | None) -> bool:
        """Whether the session may be resumed by this user: it was not another's."""
        if not self.owned:
            return True
        if self.identity is None or identity is None:
            return self.identity is None and identity is None
        return self.identity.user == identity.user

    def change_expiry(self, packet: Disconnect, longest: int) -> None:
        """Set the expiry from DISCONNECT, up to `longest`; a zero from CONNECT is final (section 3.14.2.2.2)."""
        if packet.properties is None or props.SESSION_EXPIRY_INTERVAL not in packet.properties:
            return
        wanted = props.integer(packet.properties, props.SESSION_EXPIRY_INTERVAL)
        if wanted and not self.asked_to_last:
            raise ProtocolError("DISCONNECT sets a Session Expiry Interval, but CONNECT set 0")
        self.expiry_interval = min(wanted, longest)


@final
class Clients:
    """All clients that have a session, connected or not."""

    def __init__(self) -> None:
        self.by_id: dict[str, Client] = {}
        self.online = 0
        """Number of connected clients, without bridges and cells: `mqtt.max_connections` is about those that come."""
        self.bridges = 0
        """Number of connected bridges and cells."""
        self.on_detached: Callable[[], None] | None = None
        """Called when a client is connected no longer; None = nobody needs to know."""
        self._brokers: dict[Client, None] = {}
        """Those that are, or have been, other brokers."""
        self._places: list[Client | None] = []
        self._free: list[int] = []  # places of clients that are gone

    @property
    def connected(self) -> int:
        """Number of connected clients, bridges included."""
        return self.online + self.bridges

    def note_bridge(self) -> None:
        """The client that has been counted last is a bridge."""
        self.online -= 1
        self.bridges += 1

    def note_detached(self, client: Client) -> None:
        """A client is connected no longer."""
        if client.session.client_id.startswith((CLIENT_ID, CELL)):
            self.bridges -= 1
        else:
            self.online -= 1
        if self.on_detached is not None:
            self.on_detached()

    def add(self, client: Client) -> None:
        """Register a client. Its id must not be in use."""
        self.by_id[client.session.client_id] = client
        if self._free:
            client.place = self._free.pop()
            self._places[client.place] = client
        else:
            client.place = len(self._places)
            self._places.append(client)

    def remove(self, client: Client) -> None:
        """Forget a client, whose session has ended."""
        del self.by_id[client.session.client_id]
        self._brokers.pop(client, None)
        self._places[client.place] = None
        self._free.append(client.place)

    def __len__(self) -> int:
        return len(self.by_id)

    def get(self, client_id: str) -> Client | None:
        """The client with this id; None if there is none."""
        return self.by_id.get(client_id)

    def note_broker(self, client: Client, broker_id: int) -> None:
        """The client says which broker it is; -1 = it says that it is none."""
        client.broker_id = broker_id
        if broker_id > 0:
            self._brokers[client] = None

    def publishers(self, number: int) -> list[Client]:
        """Those with this number in the flow of what they publish; none if they have gone."""
        if number >= PUBLISHING_BROKER:
            return [each for each in self._brokers if each.broker_id == number - PUBLISHING_BROKER]
        client = self._places[number - 1] if 0 < number <= len(self._places) else None
        return [] if client is None else [client]

    def outbound(self, client_id: str) -> Outbound | None:
        """The outbound side of a client's session; None if it has no session."""
        client = self.by_id.get(client_id)
        return None if client is None else client.session.outbound

    def known(self) -> list[Client]:
        """A list of all clients at this moment."""
        return list(self.by_id.values())

    def each(self) -> Iterator[Client]:
        """All clients in turn: a list of 100,000 would take 5 ms. Who comes or goes meanwhile may be left out."""
        place = 0
        while place < len(self._places):
            client = self._places[place]
            if client is not None:
                yield client
            place += 1

    def knows(self, client: Client) -> bool:
        """Whether the client's session has not ended."""
        return self.by_id.get(client.session.client_id) is client
