"""What clients know of a broker by the bytes on its sockets: the ledger with which a restart is compared.

All of it comes from the record of the broker's own calls, so at each point of the record it is exactly what has been
acknowledged before that point. Clients here have MQTT 5 sessions; a topic belongs to one publisher, and a payload is
sent once.
"""

from dataclasses import dataclass, field
from itertools import chain

from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.decoder import Decoder
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe
from protocol.unsuback import Unsuback
from protocol.unsubscribe import Unsubscribe
from tests.durability.client import LedgerError
from tests.durability.shim import Event

REFUSED = 0x80
"""The lowest reason code of what is refused."""

Name = tuple[str, bytes]
"""A message: topic and payload."""


def matches(topic_filter: str, topic: str) -> bool:
    """Whether a filter matches; a shared one is given without `$share/group/`."""
    wanted, levels = topic_filter.split("/"), topic.split("/")
    for position, level in enumerate(wanted):
        if level == "#":
            return True
        if position >= len(levels) or level not in {"+", levels[position]}:
            return False
    return len(wanted) == len(levels)


def split(topic_filter: str) -> tuple[str, str]:
    """The group, if the filter is shared, and the rest."""
    if not topic_filter.startswith("$share/"):
        return "", topic_filter
    _, group, rest = topic_filter.split("/", 2)
    return group, rest


@dataclass
class Message:
    """A PUBLISH that the broker has received."""

    topic: str
    payload: bytes
    qos: int
    publisher: str
    acknowledged: bool = False
    owed: set[str] = field(default_factory=set)
    """Sessions, and groups as `$share/group`, that had subscribed before it arrived, and still have."""


@dataclass
class Session:
    """One client's session; None = requested, but not acknowledged."""

    name: str
    kept: bool | None = False
    subscriptions: dict[str, bool | None] = field(default_factory=dict)
    outgoing: dict[int, Publish] = field(default_factory=dict)
    """What it has published and is not acknowledged completely, by packet id, in order."""
    received: set[int] = field(default_factory=set)
    """Those of them for which PUBREC has been sent."""
    released: set[int] = field(default_factory=set)
    """Those of them for which PUBREL has come."""
    used: set[int] = field(default_factory=set)
    """Packet ids of QoS 2 that were used and are free again."""
    came: dict[str, list[bytes]] = field(default_factory=dict)
    """What a client that keeps to the standard has received, in order; at QoS 2 each once."""
    incoming: dict[int, Name] = field(default_factory=dict)
    """QoS 2 that has been received and still waits for PUBREL."""
    sent: dict[int, Name] = field(default_factory=dict)
    """What was sent to it and not confirmed by PUBACK or PUBREC."""
    confirmed: set[Name] = field(default_factory=set)
    will: Publish | None = None
    """The will of its client, while that is connected."""

    def get(self, publish: Publish) -> None:
        """A PUBLISH is sent to it."""
        name = publish.topic.decode(), publish.payload
        if publish.qos:
            self.sent[publish.packet_id] = name
        if publish.qos == 2:
            if publish.packet_id in self.incoming:
                return
            self.incoming[publish.packet_id] = name
        self.came.setdefault(name[0], []).append(name[1])

    def confirm(self, packet_id: int) -> None:
        """Its PUBACK, or PUBREC, has come."""
        name = self.sent.pop(packet_id, None)
        if name is not None:
            self.confirmed.add(name)


class Connection:
    """Both directions of one connection."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.connect: Connect | None = None
        self.asked: dict[int, list[str]] = {}
        """Filters of SUBSCRIBE and UNSUBSCRIBE that are not acknowledged."""
        self.incoming = Decoder()
        self.outgoing = Decoder(version=5)
        self.leaving = b""
        """What is being sent; the next event says how much of it was sent."""


class Outside:
    """Follows a record, event by event."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.messages: dict[Name, Message] = {}
        self.retained: dict[str, list[bytes]] = {}
        """What a topic may retain: the last message that was acknowledged, and those that came after it."""
        self.told = False
        """Whether clients have learnt something by the last event."""
        self.arrived: list[bytes] = []
        """Payloads of new PUBLISHes that came with the last event."""
        self.acknowledged: list[bytes] = []
        """Payloads that the last event acknowledged by PUBACK or PUBREC."""
        self._connections: dict[int, Connection] = {}

    def follow(self, event: Event) -> bool:
        """Apply an event; returns whether it was about a client."""
        self.told = False
        self.arrived = []
        self.acknowledged = []
        if event.kind == "p":
            self._begin()
        elif event.kind == "a":
            self._connections[event.number] = Connection()
        elif event.kind in "<>=" and event.number in self._connections:
            self._exchange(event, self._connections[event.number])
        else:
            return False
        return True

    def _begin(self) -> None:
        """A process begins: the connections of the one before it have ended."""
        self._connections = {}
        for session in self.sessions.values():
            session.will = None  # whether it has been published is in the record of the next process

    def _exchange(self, event: Event, connection: Connection) -> None:
        if event.kind == "<":
            connection.incoming.feed(event.data)
            while (packet := connection.incoming.next_packet()) is not None:
                self._from_client(connection, packet)
            return
        if event.kind == "=":  # what could not be sent is sent again
            left = max(0, int.from_bytes(event.data, "little", signed=True))
            connection.leaving = connection.leaving[left:]
            return
        # Bytes count as sent when writing begins; what was not written comes again at the head of the next write.
        data = event.data[len(connection.leaving) :]
        connection.leaving = event.data
        connection.outgoing.feed(data)
        while (packet := connection.outgoing.next_packet()) is not None:
            self.told = True
            self._to_client(connection, packet)

    # -- from clients

    def _from_client(self, connection: Connection, packet: Packet) -> None:
        session = connection.session
        if isinstance(packet, Connect):
            self._connect(connection, packet)
        elif session is None:
            raise AssertionError(packet)
        elif isinstance(packet, Publish):
            self._publish(session, packet)
        elif isinstance(packet, Subscribe | Unsubscribe):
            self._change(connection, session, packet)
        elif isinstance(packet, Puback | Pubrec):
            session.confirm(packet.packet_id)
        elif isinstance(packet, Pubrel):
            session.released.add(packet.packet_id)
        elif isinstance(packet, Disconnect):
            session.will = None
            if (packet.properties or {}).get(props.SESSION_EXPIRY_INTERVAL) == 0:
                self._end(session, None)

    def _connect(self, connection: Connection, packet: Connect) -> None:
        session = self.sessions.setdefault(packet.client_id, Session(packet.client_id))
        if packet.clean_start:
            session = self._end(session, None)
        elif not session.kept:
            session.kept = None
        connection.session, connection.connect = session, packet
        connection.outgoing.version = packet.version

    def _end(self, session: Session, kept: bool | None) -> Session:
        """The session is to end, or has ended: its client forgets all of it."""
        for topic_filter in session.subscriptions:
            self._unsubscribe(session, topic_filter)
        for message in self.messages.values():
            message.owed.discard(session.name)
        new = self.sessions[session.name] = Session(session.name, kept, session.subscriptions)
        return new

    def _publish(self, session: Session, publish: Publish) -> None:
        topic = publish.topic.decode()
        if publish.qos:
            session.outgoing[publish.packet_id] = publish
        if publish.payload:
            self._offer(Message(topic, publish.payload, publish.qos, session.name))
        if publish.retain:
            self.retained.setdefault(topic, [b""]).append(publish.payload)

    def _offer(self, new: Message) -> None:
        message = self.messages.setdefault((new.topic, new.payload), new)
        if message is new:
            self.arrived.append(new.payload)
        for session in self.sessions.values():
            for topic_filter, state in session.subscriptions.items():
                group, rest = split(topic_filter)
                if state and session.kept and matches(rest, new.topic):
                    message.owed.add(f"$share/{group}" if group else session.name)

    def _change(self, connection: Connection, session: Session, packet: Subscribe | Unsubscribe) -> None:
        if isinstance(packet, Subscribe):
            filters = [each.topic_filter for each in packet.subscriptions]
            for topic_filter in filters:
                session.subscriptions.setdefault(topic_filter, None)
        else:
            filters = packet.topic_filters
            for topic_filter in filters:
                self._unsubscribe(session, topic_filter)
        connection.asked[packet.packet_id] = filters

    def _unsubscribe(self, session: Session, topic_filter: str) -> None:
        session.subscriptions[topic_filter] = None
        for message in self.messages.values():
            if matches(topic_filter, message.topic):
                message.owed.discard(session.name)

    # -- to clients

    def _to_client(self, connection: Connection, packet: Packet) -> None:
        session = connection.session
        assert session is not None
        if isinstance(packet, Connack):
            self._connected(connection, session, packet)
        elif isinstance(packet, Suback):
            for topic_filter, code in zip(connection.asked.pop(packet.packet_id), packet.reason_codes, strict=True):
                if code < REFUSED:  # else it is as it was before
                    session.subscriptions[topic_filter] = True
        elif isinstance(packet, Unsuback):
            session.subscriptions.update(dict.fromkeys(connection.asked.pop(packet.packet_id), False))
        elif isinstance(packet, Publish):
            session.get(packet)
        elif isinstance(packet, Puback | Pubrec):
            self._acknowledge(session, packet)
        elif isinstance(packet, Pubcomp):
            session.outgoing.pop(packet.packet_id, None)
            session.received.discard(packet.packet_id)
            session.released.discard(packet.packet_id)
            session.used.add(packet.packet_id)
        elif isinstance(packet, Pubrel):
            session.incoming.pop(packet.packet_id, None)

    def _connected(self, connection: Connection, session: Session, packet: Connack) -> None:
        connect = connection.connect
        assert connect is not None
        if session.kept and not packet.session_present:
            raise LedgerError(f"the session of {session.name} is gone")
        if not packet.session_present:
            session.subscriptions = dict.fromkeys(session.subscriptions, False)
        session.kept = bool((connect.properties or {}).get(props.SESSION_EXPIRY_INTERVAL)) and packet.reason_code == 0
        will = connect.will
        session.will = Publish(will.topic, will.payload, will.qos) if will is not None else None

    def _acknowledge(self, session: Session, packet: Puback | Pubrec) -> None:
        publish = session.outgoing.get(packet.packet_id)
        if publish is None:
            return
        topic = publish.topic.decode()
        if packet.reason_code >= REFUSED:
            del session.outgoing[packet.packet_id]
            if publish.retain:
                self.retained[topic].remove(publish.payload)
            return
        if publish.payload:
            self.messages[topic, publish.payload].acknowledged = True
            self.acknowledged.append(publish.payload)
        if publish.retain:
            allowed = self.retained[topic]
            while publish.payload in allowed[1:]:
                del allowed[0]
        if isinstance(packet, Puback):
            del session.outgoing[packet.packet_id]
        else:
            session.received.add(packet.packet_id)

    # -- what follows

    def members(self, group: str) -> list[Session]:
        """The members of a group."""
        return [
            session
            for session in self.sessions.values()
            if session.kept and any(state and split(each)[0] == group for each, state in session.subscriptions.items())
        ]

    def receivers(self, owed: str) -> list[Session]:
        """The session, or the members of the group, that have to get a message."""
        return self.members(owed.split("/")[1]) if owed.startswith("$share/") else [self.sessions[owed]]

    def filters(self) -> set[str]:
        """All filters that were ever subscribed to."""
        return set(chain.from_iterable(session.subscriptions for session in self.sessions.values()))
