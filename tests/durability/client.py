"""An MQTT 5 client with a kept session, whose ledger outlives the broker: what it got acknowledged and received."""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.decoder import Decoder
from protocol.packet import Packet
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.support.process import Address

KEPT = 3_600
"""Seconds for which sessions are kept."""

WINDOW = 20
"""The most PUBLISHes that a client has unacknowledged."""


class LedgerError(AssertionError):
    """The broker has lost, repeated or reordered what it must not."""


@dataclass
class Outgoing:
    """A PUBLISH that has not been acknowledged completely."""

    publish: Publish
    released: bool = False
    """Whether PUBREC has come."""


@dataclass
class Ledger:
    """What one client knows for certain."""

    acknowledged: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The numbers of its messages that the broker has acknowledged, by topic."""
    came: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The numbers of the messages that have come, by topic."""


class Client:
    """Publishes and subscribes until it is stopped; it connects again whenever its connection ends."""

    qos = 2
    """At which it subscribes."""

    def __init__(self, name: str, address: Callable[[], Address], filters: list[str], topics: list[str]) -> None:
        self.name = name
        self.ledger = Ledger()
        self.publishing = bool(topics)
        self._address = address
        self._filters = filters
        self._topics = itertools.cycle(topics) if topics else iter(())
        self._numbers = itertools.count()
        self._packet_ids = itertools.cycle(range(1, 65_536))
        self._outgoing: dict[int, Outgoing] = {}
        self._incoming: set[int] = set()
        self._has_session = False
        self._subscribed = False
        self._writer: asyncio.StreamWriter | None = None
        self._is_taking_over = False
        self.takeovers = 0
        """How often it has taken its own session over."""

    @property
    def idle(self) -> bool:
        """Whether no acknowledgement is outstanding."""
        return not self._outgoing and (self._subscribed or not self._filters)

    def take_over(self) -> None:
        """Connect once more when the next packets have come: the new connection takes the session over."""
        self._is_taking_over = True

    async def run(self) -> None:
        """Connect, again after each end of the connection."""
        while True:
            try:
                await self._connections()
            except OSError:
                await asyncio.sleep(0.01)

    async def _connections(self) -> None:
        """One connection, and those that take its session over, until the last one ends."""
        open_writers: list[asyncio.StreamWriter] = []
        try:
            is_over = False
            while not is_over:
                reader, writer = await asyncio.open_connection(*self._address())
                open_writers.append(writer)
                is_over = await self._connection(reader, writer)
        finally:
            for writer in open_writers:
                writer.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Use a connection; returns whether it has ended. If not, another one is to take the session over."""
        self._writer = writer
        self._is_taking_over = False
        decoder = Decoder(version=5)
        self._send(self._connect())
        while data := await reader.read(65_536):
            decoder.feed(data)
            while (packet := decoder.next_packet()) is not None:
                self._handle(packet)
            self._publish_more()
            if self._is_taking_over:
                self.takeovers += 1
                return False
        return True

    def _connect(self) -> Connect:
        """What it connects with."""
        kept: Properties = {props.SESSION_EXPIRY_INTERVAL: KEPT, props.RECEIVE_MAXIMUM: WINDOW}
        return Connect(self.name, False, 0, properties=kept, version=5)

    def _send(self, packet: Packet) -> None:
        assert self._writer is not None
        if not self._writer.is_closing():
            self._writer.write(packet.encode(5))

    def _handle(self, packet: Packet) -> None:
        if isinstance(packet, Connack):
            self._begin(packet)
        elif isinstance(packet, Suback):
            self._subscribed = True
        elif isinstance(packet, Puback | Pubcomp):
            self._acknowledge(packet.packet_id)
        elif isinstance(packet, Pubrec):
            if packet.packet_id in self._outgoing:
                self._outgoing[packet.packet_id].released = True
            self._send(Pubrel(packet.packet_id))
        elif isinstance(packet, Pubrel):
            self._incoming.discard(packet.packet_id)
            self._send(Pubcomp(packet.packet_id))
        elif isinstance(packet, Publish):
            self._receive(packet)

    def _begin(self, packet: Connack) -> None:
        if packet.reason_code:
            raise LedgerError(f"{self.name} was refused: {packet}")
        if self._has_session and not packet.session_present:
            raise LedgerError(f"the session of {self.name} is gone")
        self._has_session = True
        for packet_id, outgoing in self._outgoing.items():
            if outgoing.released:
                self._send(Pubrel(packet_id))
            else:
                outgoing.publish.dup = True
                self._send(outgoing.publish)
        if self._filters and not self._subscribed:
            wanted = [Subscription(topic_filter, self.qos) for topic_filter in self._filters]
            self._send(Subscribe(next(self._packet_ids), wanted))

    def _acknowledge(self, packet_id: int) -> None:
        outgoing = self._outgoing.pop(packet_id, None)
        if outgoing is not None:
            publish = outgoing.publish
            self.ledger.acknowledged[publish.topic.decode()].append(int(publish.payload[:10]))

    def _receive(self, publish: Publish) -> None:
        if publish.qos != 2 or publish.packet_id not in self._incoming:
            self._note(publish)
        if publish.qos == 1:
            self._send(Puback(publish.packet_id))
        elif publish.qos == 2:
            self._incoming.add(publish.packet_id)
            self._send(Pubrec(publish.packet_id))

    def _note(self, publish: Publish) -> None:
        self.ledger.came[publish.topic.decode()].append(int(publish.payload[:10]))

    def _publish_more(self) -> None:
        while self.publishing and self._has_session and len(self._outgoing) < WINDOW:
            packet_id = next(self._packet_ids)
            if packet_id in self._outgoing:
                continue
            topic = next(self._topics)
            qos = int(topic[-1])
            retain = topic.startswith("r/")
            # Twice, so that one of the copies does not cross a page of the journal.
            payload = b"%010d of %s. " % (next(self._numbers), self.name.encode()) * 2
            publish = Publish(topic.encode(), payload, qos, retain, packet_id=packet_id)
            self._outgoing[packet_id] = Outgoing(publish)
            self._send(publish)


def check_group(publishers: list[Client], members: list[Client]) -> None:
    """Raise LedgerError unless members of the group got all that was acknowledged, at QoS 2 once."""
    once = all(member.qos == 2 for member in members)
    for publisher in publishers:
        for topic, acknowledged in publisher.ledger.acknowledged.items():
            came = [number for member in members for number in member.ledger.came[topic]]
            lost = set(acknowledged) - set(came)
            if topic.startswith("d/") and lost:
                raise LedgerError(f"{topic} to the group: {len(lost)} acknowledged messages lost: {sorted(lost)[:5]}")
            if once and topic.endswith("2") and len(set(came)) != len(came):
                raise LedgerError(f"{topic} to the group: {len(came) - len(set(came))} came twice at QoS 2")


def check_retained(publishers: list[Client], subscriber: Client) -> None:
    """Raise LedgerError unless each topic's retained message is the last one that was acknowledged."""
    for publisher in publishers:
        for topic, acknowledged in publisher.ledger.acknowledged.items():
            if topic.startswith("r/") and subscriber.ledger.came[topic][-1:] != acknowledged[-1:]:
                raise LedgerError(f"{topic}: {subscriber.ledger.came[topic]} is retained, not {acknowledged[-1]}")


def check(publishers: list[Client], subscriber: Client) -> None:
    """Raise LedgerError unless the subscriber got all that was acknowledged, in order, at QoS 2 once."""
    for publisher in publishers:
        for topic, acknowledged in publisher.ledger.acknowledged.items():
            if topic.startswith("r/"):
                continue
            came = subscriber.ledger.came[topic]
            first = list(dict.fromkeys(came))
            lost = set(acknowledged) - set(first)
            where = f"{topic} to {subscriber.name}"
            if lost:
                raise LedgerError(f"{where}: {len(lost)} acknowledged messages lost, such as {sorted(lost)[:5]}")
            if topic.endswith("2") and len(first) != len(came):
                raise LedgerError(f"{where}: {len(came) - len(first)} came twice at QoS 2")
            if first != sorted(first):
                raise LedgerError(f"{where}: out of order")
