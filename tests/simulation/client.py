"""A client at packet level: it publishes, subscribes, acknowledges late, breaks off, and comes back."""

from collections.abc import Callable
from random import Random
from typing import Any

from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.decoder import Decoder
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from protocol.unsubscribe import Unsubscribe
from tests.simulation.books import FAILED, Books, Held, Sent
from tests.simulation.cell import port_of
from tests.simulation.loop import Loop
from tests.simulation.network import Network, Transport

MOST_OPEN = 10
"""PUBLISHes that wait for an acknowledgement, at most."""


class _Open:
    """One connection of a client, as its loop sees it."""

    def __init__(self, client: "SimulatedClient") -> None:
        self.client = client
        self.decoder = Decoder(version=client.version)
        self.transport: Transport

    def connection_made(self, transport: Transport) -> None:
        """Nothing to do: CONNECT has been written."""

    def data_received(self, data: bytes) -> None:
        """Handle packets, unless another connection has taken over."""
        self.decoder.feed(data)
        while self.client.open is self and (packet := self.decoder.next_packet()) is not None:
            self.client.handle(packet)

    def eof_received(self) -> bool:
        """The cell has closed."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """It is closed."""
        self.client.lost(self)

    def pause_writing(self) -> None:
        """What is written waits in the transport."""

    def resume_writing(self) -> None:
        """It waits no longer."""


class Unacknowledged:
    """A PUBLISH without its last acknowledgement."""

    def __init__(self, sent: Sent, publish: Publish) -> None:
        self.sent = sent
        self.publish = publish
        self.released = False


class SimulatedClient:
    """One client id."""

    def __init__(
        self,
        name: str,
        home: int,
        rng: Random,
        books: Books,
        network: Network,
        loop: Loop,
        note: Callable[..., None],
    ) -> None:
        self.name = name
        self.home = home
        self.version = rng.choice((4, 5))
        self.kept = rng.random() < 0.6
        self.lazy = rng.choice((0.0, 0.0, 0.2, 0.8))
        """How often it withholds an acknowledgement."""
        self.receive_maximum = rng.choice((0, 1, 3)) if self.version == 5 else 0
        self.open: _Open | None = None
        self.connected = False
        self.held: Held | None = None
        self.will: Sent | None = None
        self._former: tuple[Transport, Sent | None] | None = None
        """The last connection, if it was closed in order, and its will."""
        self.unacknowledged: dict[int, Unacknowledged] = {}
        self.owed: list[Packet] = []
        """Acknowledgements that it withholds."""
        self._received: set[int] = set()
        self._asked: dict[int, tuple[str, int]] = {}
        self._last_id = 0
        self._count = 0
        self._rng = rng
        self._books = books
        self._network = network
        self._loop = loop
        self._note = note

    # -- connections

    def connect(self, will_topic: str = "") -> None:
        """Open a connection; an older one is given up without a word."""
        connection = _Open(self)
        if self.open is not None:
            self._end_connection()
        self._look_at_former()
        try:
            transport, _ = self._network.connect(port_of(self.home), self._loop, lambda: connection)
        except OSError:
            return
        connection.transport = transport
        self.open = connection
        properties: dict[int, Any] | None = None
        if self.version == 5:
            properties = {props.SESSION_EXPIRY_INTERVAL: 3600} if self.kept else {}
            if self.receive_maximum:
                properties[props.RECEIVE_MAXIMUM] = self.receive_maximum
        will = self._new_will(will_topic) if will_topic else None
        packet = Connect(self.name, not self.kept, 0, will=will, properties=properties, version=self.version)
        self._write(packet)

    def _look_at_former(self) -> None:
        """An earlier connection that was closed in order is taken over, perhaps before its last packets are read."""
        if self._former is not None and not self._former[0].peer.lost:
            self._books.break_off(self.name)
            if self._former[1] is not None:
                self._books.send(self._former[1])

    def _new_will(self, topic: str) -> Will:
        qos = self._rng.randrange(3)
        self._count += 1
        name = f"{self.name}.will{self._count}"
        self.will = self._books.sent[name] = Sent(name, name, self.home, topic, qos, False)
        self.will.unbroken = False
        return Will(topic.encode(), name.encode(), qos)

    def _write(self, packet: Packet) -> None:
        assert self.open is not None
        self._note(self.name, "sends", packet)
        self.open.transport.write(packet.encode(self.version))

    def drop(self, rng: Random) -> None:
        """The connection breaks."""
        if self.open is not None:
            transport = self.open.transport
            self._note(self.name, "breaks off")
            if self.connected and self.will is not None and not self._crashed_since_connect():
                self.will.promised = True
            self._end_connection()
            transport.cut(rng)

    def _crashed_since_connect(self) -> bool:
        assert self.held is not None
        return any(at >= self.held.broken for at in self._books.crashes[self.home])

    def disconnect(self) -> None:
        """Close in order."""
        if self.open is not None and self.connected:
            transport = self.open.transport
            self._write(Disconnect())
            transport.close()
            self._former, self.will = (transport, self.will), None
            self._end_connection(in_order=True)

    def lost(self, connection: _Open) -> None:
        """A connection has been closed by its cell, or has broken."""
        if self.open is connection:
            self._note(self.name, "lost its connection")
            self._end_connection()

    def _end_connection(self, in_order: bool = False) -> None:
        books, held = self._books, self.held
        self.open = None
        if self.will is not None:
            books.send(self.will)
            self.will = None
        if not in_order:
            books.break_off(self.name)
        if self.connected and held is not None:
            held.broken = books.step
            held.breaks.append(books.step)
            held.ended = held.ended or not self.kept
        self.connected = False
        self.owed.clear()
        self._asked.clear()
        if not self.kept:
            self.unacknowledged.clear()
            self._received.clear()

    # -- what it sends

    def _free_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def publish(self, topic: str, qos: int, retain: bool, padding: int) -> None:
        """Publish the next message."""
        books = self._books
        self._count += 1
        name = f"{self.name}.{self._count}"
        sent = Sent(name, self.name, self.home, topic, qos, retain)
        sent.number = self._count
        sent.sends = 1
        books.send(sent)
        payload = name.encode() + b"." * padding
        publish = Publish(topic.encode(), payload, qos, retain, None, self._free_id() if qos else 0)
        if qos:
            self.unacknowledged[publish.packet_id] = Unacknowledged(sent, publish)
        self._write(publish)

    def may_publish(self) -> bool:
        """Whether not too much is unacknowledged."""
        return len(self.unacknowledged) < MOST_OPEN

    def subscribe(self, topic_filter: str, qos: int) -> None:
        """Subscribe to one filter."""
        assert self.held is not None
        self.held.asked.add(topic_filter)
        packet_id = self._free_id()
        self._asked[packet_id] = topic_filter, qos
        if topic_filter in self.held.filters:  # from now on, perhaps, it is the new one that counts
            before, at = self.held.filters[topic_filter]
            self.held.filters[topic_filter] = min(qos, before), at
        self._write(Subscribe(packet_id, [Subscription(topic_filter, qos)]))

    def unsubscribe(self) -> None:
        """End a subscription; nothing of it is owed from now on."""
        held = self.held
        assert held is not None
        if held.filters:
            topic_filter = self._rng.choice(list(held.filters))
            del held.filters[topic_filter]
            self._asked = {each: asked for each, asked in self._asked.items() if asked[0] != topic_filter}
            self._write(Unsubscribe(self._free_id(), [topic_filter]))

    def acknowledge(self, count: int) -> None:
        """Send some of the acknowledgements that it owes."""
        owed, self.owed = self.owed[:count], self.owed[count:]
        for packet in owed:
            self._write(packet)

    # -- what it gets

    def handle(self, packet: Packet) -> None:
        """A packet has come."""
        self._note(self.name, "gets", packet)
        if isinstance(packet, Publish):
            self._on_publish(packet)
        elif isinstance(packet, Pubrel):
            self._received.discard(packet.packet_id)
            self._owe(Pubcomp(packet.packet_id))
        elif isinstance(packet, Puback | Pubrec | Pubcomp):
            self._on_acknowledgement(packet)
        elif isinstance(packet, Suback):
            topic_filter, qos = self._asked.pop(packet.packet_id, ("", 0))
            qos = min([qos, *(later for name, later in self._asked.values() if name == topic_filter)])
            granted = topic_filter and packet.reason_codes[0] < FAILED
            if self.held is not None and granted and topic_filter not in self.held.filters:
                self.held.filters[topic_filter] = qos, self._books.step
        elif isinstance(packet, Connack):
            self._on_connack(packet)

    def _on_connack(self, packet: Connack) -> None:
        books, held = self._books, self.held
        if packet.reason_code:
            return
        self.connected = True
        if held is None or held.ended or not packet.session_present:
            if held is not None and not held.ended:
                books.wrong.append(f"the session of {self.name} is gone")
                held.ended = True
            held = self.held = Held(self.name, self.home, self.kept, books.step)
            books.held.append(held)
            self.unacknowledged.clear()
            self._received.clear()
        held.broken = books.step
        for packet_id, each in self.unacknowledged.items():
            if each.released:
                self._write(Pubrel(packet_id))
            else:
                each.sent.sends += 1
                publish = each.publish
                own = (publish.topic, publish.payload, publish.qos, publish.retain, None, packet_id, True)
                self._write(Publish(*own))

    def _on_publish(self, publish: Publish) -> None:
        packet_id = publish.packet_id
        if publish.qos < 2 or packet_id not in self._received:
            assert self.held is not None
            name = publish.payload.rstrip(b".").decode()
            self._books.deliver(self.held, name, publish.topic.decode(), publish.qos, publish.retain)
        if publish.qos == 1:
            self._owe(Puback(packet_id))
        elif publish.qos == 2:
            self._received.add(packet_id)
            self._owe(Pubrec(packet_id))

    def _owe(self, packet: Packet) -> None:
        if self.owed or self._rng.random() < self.lazy:
            self.owed.append(packet)
        else:
            self._write(packet)

    def _on_acknowledgement(self, packet: Puback | Pubrec | Pubcomp) -> None:
        each = self.unacknowledged.get(packet.packet_id)
        if each is None:
            self._books.wrong.append(f"{self.name} got {packet} for nothing")
            return
        if packet.reason_code >= FAILED and not each.released:
            each.sent.refused = True
            del self.unacknowledged[packet.packet_id]
            return
        if not each.sent.acknowledged:
            each.sent.acknowledged = self._books.step
            each.sent.promised = True
        if isinstance(packet, Pubrec):
            each.released = True
            self._write(Pubrel(packet.packet_id))
        else:
            del self.unacknowledged[packet.packet_id]
