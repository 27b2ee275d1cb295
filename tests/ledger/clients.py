"""The clients of the ledger: they never block, and keep the state of their sessions when a connection ends."""

import random
import socket
from collections import deque
from typing import Any, Final

from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.bench.flow_clients import LATE, STAMP, FlowClient
from tests.ledger.books import IN_DOUBT, REFUSED, TAKEN, Books, Page
from tests.support.process import Address

KEPT: Final = 3_600
"""Seconds for which sessions are kept."""
AT_ONCE: Final = 32
"""PUBLISHes in one turn."""
REFUSING: Final = 0x80
SUMMED: Final = "sluice-summed-"
SIZES: Final = (0, 16, 100, 700)
"""Bytes of payloads besides the number."""
SUBSCRIBING: Final = 1
"""The packet id of SUBSCRIBE; PUBLISHes have others."""


class Client:
    """A session, and its connection if it has one."""

    def __init__(self, name: str, address: Address) -> None:
        self.name = name
        self.line: FlowClient | None = None
        self.ready = False
        """Whether CONNACK has come."""
        self.leaving = False
        self.wanted = True
        """Whether it is to be connected."""
        self.anew = False
        """Whether it begins a new session when it connects next."""
        self.subscribed = False
        """Whether SUBACK has come."""
        self._address = address
        self._has_session = False

    def connect(self) -> None:
        """Connect to the session, or begin a new one."""
        anew, self.anew = self.anew, False
        properties: Properties = {props.SESSION_EXPIRY_INTERVAL: KEPT}
        if anew:
            self._has_session = False
        self.ready = self.leaving = False
        self.line = FlowClient(self._address, Connect(self.name, anew, 0, properties=properties, version=5))
        self.line.start()

    def leave(self, disconnect: bool) -> None:
        """End the connection, with DISCONNECT or without. What was sent before still arrives."""
        line = self.line
        if line is not None and not self.leaving and not line.stuck:
            self.leaving = True
            if disconnect:
                line.write(Disconnect().encode(5))
            if not line.stuck:
                line.socket.shutdown(socket.SHUT_WR)

    def lost(self) -> None:
        """The connection has ended."""
        if self.line is not None:
            self.line.wire.close()
        self.line = None
        self.ready = False

    def on_readable(self) -> None:
        """Handle the packets that have arrived; ConnectionError if the connection has ended."""
        assert self.line is not None
        for packet in self.line.read():
            if self.leaving:
                continue  # it is gone, and acknowledges nothing more
            if isinstance(packet, Connack):
                self._begin(packet)
            else:
                self.handle(packet)

    def _begin(self, connack: Connack) -> None:
        if connack.reason_code:
            raise ConnectionError(f"{self.name} was refused with 0x{connack.reason_code:02x}")
        if self._has_session and not connack.session_present:
            raise AssertionError(f"the session of {self.name} is gone")
        self.ready = self._has_session = True
        self.begin(connack.session_present)

    def send(self, *packets: Packet) -> None:
        """Send packets."""
        if self.line is not None and not self.leaving:
            self.line.write(b"".join(packet.encode(5) for packet in packets))

    def begin(self, present: bool) -> None:
        """The client is connected; `present`: to a session that was there."""
        raise NotImplementedError  # abstract: publishers, receivers and who is told differ here

    def handle(self, packet: object) -> None:
        """A packet has come."""
        raise NotImplementedError  # abstract: publishers, receivers and who is told differ here

    def turn(self, now: float) -> None:
        """Do what is due."""


class Publisher(Client):
    """Publishes to its topics in turn, as fast as its window allows. It sends QoS 2 again when it has reconnected."""

    def __init__(
        self, name: str, address: Address, books: Books, topics: list[bytes], window: int, rng: random.Random
    ) -> None:
        super().__init__(name, address)
        self.going = False
        self.sizes: tuple[int, ...] = SIZES
        self.expiring = 0.0
        """That share of its messages expires after a second."""
        self.outgoing: dict[int, tuple[int, Publish]] = {}
        """Number and PUBLISH by packet id, until the exchange has ended; a PUBLISH that is answered has DUP cleared."""
        self._released: set[int] = set()
        self._books = books
        self._topics = topics
        self._window = window
        self._rng = rng
        self._packet_id = SUBSCRIBING

    def begin(self, present: bool) -> None:
        """Send again what is not acknowledged."""
        for packet_id, (number, publish) in self.outgoing.items():
            if packet_id in self._released:
                self.send(Pubrel(packet_id))
            else:
                self._books.repeated(number)
                publish.dup = True
                self.send(publish)

    def lost(self) -> None:
        """The connection has ended: QoS 1 is given up."""
        super().lost()
        for packet_id, (number, publish) in list(self.outgoing.items()):
            if publish.qos == 1:
                self._books.answered(number, IN_DOUBT)
                del self.outgoing[packet_id]

    def handle(self, packet: object) -> None:
        """An answer has come."""
        if isinstance(packet, Puback):
            self._answered(packet.packet_id, packet.reason_code)
            del self.outgoing[packet.packet_id]
        elif isinstance(packet, Pubrec):
            self._answered(packet.packet_id, packet.reason_code)
            if packet.reason_code >= REFUSING:
                del self.outgoing[packet.packet_id]
            else:
                self._released.add(packet.packet_id)
                self.send(Pubrel(packet.packet_id))
        elif isinstance(packet, Pubcomp):
            self._released.discard(packet.packet_id)
            self.outgoing.pop(packet.packet_id, None)
        else:
            raise ConnectionError(f"{self.name} has got {packet!r}")

    def _answered(self, packet_id: int, reason_code: int) -> None:
        number = self.outgoing[packet_id][0]
        self._books.answered(number, REFUSED if reason_code >= REFUSING else TAKEN)

    def turn(self, now: float) -> None:
        """Publish what may be sent."""
        if not self.going or not self.ready or self.leaving or self.line is None or self.line.stuck:
            return
        packets = [self._next() for _ in range(min(AT_ONCE, self._window - len(self.outgoing)))]
        if packets:
            self.send(*packets)

    def _next(self) -> Publish:
        rng = self._rng
        topic = rng.choice(self._topics)
        number = self._books.add(topic)
        while True:
            self._packet_id = self._packet_id % 65_535 + 1
            if self._packet_id not in self.outgoing and self._packet_id != SUBSCRIBING:
                break
        properties: Properties | None = {props.MESSAGE_EXPIRY_INTERVAL: 1} if rng.random() < self.expiring else None
        payload = STAMP.pack(number) + bytes(rng.choice(self.sizes))
        publish = Publish(topic, payload, rng.randint(1, 2), packet_id=self._packet_id, properties=properties)
        self.outgoing[self._packet_id] = number, publish
        return publish


class Receiver(Client):
    """Acknowledges `per_second` deliveries a second: 0 = none, infinity = at once."""

    def __init__(self, name: str, address: Address, books: Books, page: Page, filters: list[str]) -> None:
        super().__init__(name, address)
        self.page = page
        self.per_second = float("inf")
        self._books = books
        self._filters = filters
        self._waiting: deque[Publish] = deque()
        self._incoming: set[int] = set()
        """Packet ids of QoS 2 between PUBREC and PUBREL."""
        self._free_at = 0.0

    def begin(self, present: bool) -> None:
        """Subscribe, unless it has."""
        if not present:
            self._incoming.clear()
            self.subscribed = False
        if not self.subscribed:
            self.send(Subscribe(SUBSCRIBING, [Subscription(each, self.page.qos) for each in self._filters]))

    def lost(self) -> None:
        """The connection has ended: what is not acknowledged comes again."""
        super().lost()
        self._waiting.clear()

    def handle(self, packet: object) -> None:
        """A packet has come."""
        if isinstance(packet, Publish):
            self._waiting.append(packet)
        elif isinstance(packet, Pubrel):
            self._incoming.discard(packet.packet_id)
            self.send(Pubcomp(packet.packet_id))
        else:
            self.subscribed = True

    def turn(self, now: float) -> None:
        """Acknowledge what is due."""
        answers: list[Packet] = []
        waiting = self._waiting
        while waiting and self.per_second and self._free_at <= now and not self.leaving:
            answers.append(self._acknowledge(waiting.popleft()))
            self._free_at = max(self._free_at, now - LATE) + 1 / self.per_second
        if answers:
            self.send(*answers)

    def _acknowledge(self, publish: Publish) -> Packet:
        number = STAMP.unpack_from(publish.payload)[0]
        if publish.qos == 1:
            self._books.came(self.page, number, 1, publish.dup)
            return Puback(publish.packet_id)
        if publish.packet_id not in self._incoming:
            self._incoming.add(publish.packet_id)
            self._books.came(self.page, number, 2, publish.dup)
        return Pubrec(publish.packet_id)


class Told(Client):
    """Gets the drop events, and keeps them in the books."""

    def __init__(self, name: str, address: Address, books: Books, topic_filter: str) -> None:
        super().__init__(name, address)
        self._books = books
        self._filter = topic_filter
        self._handled: dict[int, tuple[bytes, object]] = {}
        """The last event of each packet id: it comes again if its acknowledgement was lost."""

    def begin(self, present: bool) -> None:
        """Subscribe, unless it has."""
        if not present:
            self.send(Subscribe(SUBSCRIBING, [Subscription(self._filter, 1)]))

    def handle(self, packet: object) -> None:
        """An event has come: note it, and acknowledge it."""
        if not isinstance(packet, Publish):
            self.subscribed = True
            return
        assert packet.properties is not None
        pairs: Any = packet.properties[props.USER_PROPERTY]
        if packet.qos:
            self.send(Puback(packet.packet_id))
            event = packet.payload, pairs
            if packet.dup and self._handled.get(packet.packet_id) == event:
                return
            self._handled[packet.packet_id] = event
        self._note(dict(pairs), packet)

    def _note(self, said: dict[str, str], event: Publish) -> None:
        loser = said.get("sluice-client-id") or said.get("sluice-group") or ""
        if "sluice-topic" in said:
            self._books.told(loser, STAMP.unpack_from(event.payload)[0], said["sluice-reason"])
        for key, value in said.items():
            if key.startswith(SUMMED):
                self._books.summed(loser, key.removeprefix(SUMMED), int(value))
