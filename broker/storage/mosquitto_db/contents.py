"""What is in a persistence file of Mosquitto, checked: sessions, their deliveries, retained messages."""

from collections.abc import Callable
from typing import Final, NamedTuple

from broker.storage.mosquitto_db import chunks
from broker.storage.mosquitto_db.chunks import (
    Chunk,
    ClientChunk,
    DeliveryChunk,
    FileError,
    MessageChunk,
    PersistenceFile,
    SubscriptionChunk,
)
from broker.storage.owner import Owner
from protocol.errors import MQTTError
from protocol.packet_types import PUBLISH
from protocol.primitives import decode_utf8
from protocol.properties import MESSAGE_EXPIRY_INTERVAL, SUBSCRIPTION_IDENTIFIER, Properties, decode_properties
from protocol.publish_encoder import encode_identifiers
from protocol.subscribe import Subscription
from protocol.topics import parse_share, validate_topic_filter, validate_topic_name

NEVER: Final = 0xFFFFFFFF
"""The interval of a session that does not expire."""

_FIRST_SENT: Final = 2
_LAST_SENT: Final = 9
"""Between these are the states of what has a packet id: before them is QoS 0, behind them what waits."""
_RECEIVED: Final = frozenset({6, 9})
"""The states after PUBREC: PUBREL is to be sent (again), or has been sent."""

_DAMAGED: Final = "the file is damaged"


class NewBroker(NamedTuple):
    """What the new configuration says about the users of sessions."""

    has_users: bool
    """Whether clients authenticate; else their user names are not looked at."""
    listeners: dict[int, str]
    """Names of the listeners by port."""

    def listener(self, port: int) -> str:
        """The name of a listener; empty = it is not known."""
        known = self.listeners.get(port, "")
        return next(iter(self.listeners.values())) if not known and len(self.listeners) == 1 else known


class Waiting:
    """A delivery of QoS 1 or 2 to a session; `packet_id` is 0 unless it is in flight."""

    __slots__ = ("identifiers", "message", "packet_id", "qos", "received", "retain")

    def __init__(self, message: int, qos: int, retain: bool, identifiers: bytes) -> None:
        self.message = message
        self.qos = qos
        self.retain = retain
        self.identifiers = identifiers
        self.packet_id = 0
        self.received = False
        """Whether PUBREC has come."""


class KeptClient:
    """A kept session."""

    def __init__(self, client_id: str, interval: int, ends_at: int) -> None:
        self.client_id = client_id
        self.interval = interval
        """Seconds that it lasts after its connection; NEVER = it does not end."""
        self.ends_at = ends_at
        """Seconds since 1970 UTC; 0 = not known: its client was connected, or it does not end."""
        self.owner: Owner | None = None
        """None: the file does not say."""
        self.subscriptions: dict[str, Subscription] = {}
        self.inflight: dict[int, Waiting] = {}
        """By packet id, in the order in which they were sent."""
        self.queued: list[Waiting] = []
        self.incoming: dict[int, int] = {}
        """Messages of QoS 2 that it has sent and not released, by packet id."""


class MosquittoState:
    """All that a file has. Messages stay in the file: `message` reads one."""

    def __init__(self, reader: PersistenceFile, now: int, broker: NewBroker) -> None:
        """Read all of it. `now`: seconds since 1970 UTC. Raises FileError."""
        self._broker = broker
        self._reader = reader
        self.now = now
        """Seconds since 1970 UTC when it was read."""
        self._places: dict[int, Chunk] = {}
        self.sessions: dict[bytes, KeptClient] = {}
        self.retained: dict[bytes, int] = {}
        """Messages by topic."""
        self.qos0 = 0
        """Deliveries of QoS 0, which are not kept."""
        self.expired = 0
        """Messages that have expired."""
        self.dangling = 0
        """Deliveries and retained topics that name a message which is not in the file."""
        self.ended: dict[bytes, None] = {}
        """Client ids of sessions that have ended."""
        self.of_ended = 0
        """Messages that waited for them."""
        self.unknown_owners = 0
        """Sessions whose user is not known."""
        self._expired: set[int] = set()
        self._doubtful = b""
        read: dict[int, Callable[[Chunk], None]] = {
            chunks.CONFIGURATION: lambda _: None,
            chunks.MESSAGE: self._add_message,
            chunks.CLIENT: lambda chunk: self._add_client(reader.client(chunk), chunk),
            chunks.DELIVERY: lambda chunk: self._add_delivery(reader.delivery(chunk), chunk),
            chunks.SUBSCRIPTION: lambda chunk: self._add_subscription(reader.subscription(chunk), chunk),
            chunks.RETAINED: self._add_retained,
        }
        for chunk in reader.chunks():
            handle = read.get(chunk.kind)
            if handle is None:
                raise FileError(f"byte {chunk.offset}: a chunk of the unknown kind {chunk.kind}: {_DAMAGED}")
            try:
                handle(chunk)
            except MQTTError as error:
                raise FileError(f"byte {chunk.offset}: {error}: {_DAMAGED}") from error

    def message(self, number: int) -> tuple[MessageChunk, Properties | None]:
        """A message, and its properties; the Message Expiry Interval is what is left of it now."""
        message = self._reader.message(self._places[number])
        properties: Properties | None = None
        if message.properties:
            properties, end = decode_properties(message.properties, 0, len(message.properties), PUBLISH)
            if end != len(message.properties):
                raise FileError(f"byte {self._places[number].offset}: a message that is shorter than its chunk")
        if message.expires_at:
            properties = dict(properties or {})
            properties[MESSAGE_EXPIRY_INTERVAL] = min(message.expires_at - self.now, NEVER)
        return message, properties

    def _add_message(self, chunk: Chunk) -> None:
        number = self._reader.message(chunk).number
        if number in self._places:
            raise FileError(f"byte {chunk.offset}: message {number} for the second time: {_DAMAGED}")
        self._places[number] = chunk
        message, _ = self.message(number)
        validate_topic_name(message.topic)
        decode_utf8(message.publisher, "client id")
        if message.expires_at and message.expires_at <= self.now:
            self._expired.add(number)
            self.expired += 1

    def _is_live(self, number: int) -> bool:
        """Whether a message is there and has not expired."""
        if number not in self._places:
            self.dangling += 1
            return False
        return number not in self._expired

    def _add_client(self, client: ClientChunk, chunk: Chunk) -> None:
        client_id = decode_utf8(client.client_id, "client id")
        if not client_id or client.client_id in self.sessions or client.client_id in self.ended:
            raise FileError(f"byte {chunk.offset}: a client without an id, or for the second time: {_DAMAGED}")
        owner = self._owner(client)
        expired = client.expires_at and client.expires_at <= self.now
        if client.interval == 0 or expired or _is_bridge(client):
            self.ended[client.client_id] = None
            return
        session = self.sessions[client.client_id] = KeptClient(client_id, client.interval, client.expires_at)
        session.owner = owner
        self.unknown_owners += owner is None

    def _owner(self, client: ClientChunk) -> Owner | None:
        """The user and listener of a session; None = the file does not say.

        Mosquitto 2.0 does not clear the user's name between sessions: one without a user name gets that of the session
        before it, with both bytes of its length swapped, so that bytes of memory follow; the next one gets the name as
        it was. The first kind can be told by the U+0000 behind the name; behind that, the name may be nobody's.
        """
        listener = self._broker.listener(client.port)
        if not listener:
            return None
        name: str | None = None
        if self._broker.has_users:
            if client.user is None:
                return None
            user, nul, _ = client.user.partition(b"\0")
            if nul:
                self._doubtful = user
            elif user:
                if user == self._doubtful:
                    return None
                self._doubtful = b""
                name = decode_utf8(user, "user name")
        return Owner(name, frozenset(), "", listener)

    def _add_delivery(self, delivery: DeliveryChunk, chunk: Chunk) -> None:
        session = self._session_of(delivery.client_id, chunk)
        if session is None:
            self.of_ended += 1
            return
        if not self._is_live(delivery.message):
            return
        if delivery.incoming:
            if delivery.qos != 2 or not delivery.packet_id:
                raise FileError(f"byte {chunk.offset}: a client's PUBLISH of QoS {delivery.qos} waits: {_DAMAGED}")
            session.incoming[delivery.packet_id] = delivery.message
            return
        if delivery.qos == 0:
            self.qos0 += 1
            return
        waiting = Waiting(delivery.message, delivery.qos, delivery.retain, self._identifiers(delivery))
        is_sent = _FIRST_SENT <= delivery.state <= _LAST_SENT and delivery.packet_id != 0
        if is_sent and delivery.packet_id not in session.inflight:
            waiting.packet_id = delivery.packet_id
            waiting.received = delivery.qos == 2 and delivery.state in _RECEIVED
            session.inflight[delivery.packet_id] = waiting
        else:
            session.queued.append(waiting)

    def _identifiers(self, delivery: DeliveryChunk) -> bytes:
        """The subscription identifiers, encoded as in PUBLISH."""
        if not delivery.properties:
            return b""
        found, _ = decode_properties(delivery.properties, 0, len(delivery.properties), PUBLISH)
        identifiers = (found or {}).get(SUBSCRIPTION_IDENTIFIER, [])
        assert isinstance(identifiers, list)  # the codec's type for this property
        return encode_identifiers([each for each in identifiers if isinstance(each, int)])

    def _session_of(self, client_id: bytes, chunk: Chunk) -> KeptClient | None:
        """The session of a client; None = it has ended."""
        session = self.sessions.get(client_id)
        if session is None and client_id not in self.ended:
            raise FileError(f"byte {chunk.offset}: it belongs to a client that is not in the file: {_DAMAGED}")
        return session

    def _add_subscription(self, subscribed: SubscriptionChunk, chunk: Chunk) -> None:
        session = self._session_of(subscribed.client_id, chunk)
        topic_filter = decode_utf8(subscribed.topic_filter, "topic filter")
        if parse_share(topic_filter) is None:
            validate_topic_filter(topic_filter)
        options = subscribed.options
        subscription = Subscription(
            topic_filter, subscribed.qos, options & 4 != 0, options & 8 != 0, min(options >> 4 & 3, 2)
        )
        if subscribed.identifier:
            subscription.identifiers = encode_identifiers([subscribed.identifier])
        if session is not None:
            session.subscriptions[topic_filter] = subscription

    def _add_retained(self, chunk: Chunk) -> None:
        number = self._reader.retained(chunk)
        if self._is_live(number):
            self.retained[self._reader.message(self._places[number]).topic] = number


def _is_bridge(client: ClientChunk) -> bool:
    """Whether the session belongs to one of Mosquitto's own bridges: no client of Sluice will resume it.

    Mosquitto 2.0.11 saves it with an expiry of 0, and 2.0.21 as one that does not expire. A file of version 5 has no
    ports, so that the session of a client with such a name could not be told apart there.
    """
    return client.user is not None and client.port == 0 and client.client_id.startswith(b"local.")
