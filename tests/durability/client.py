"""An MQTT 5 client with a kept session whose ledger outlives the broker: what was acknowledged, and what has come."""

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
"""PUBLISHes that a client has unacknowledged at most."""


class LedgerError(AssertionError):
    """The broker has broken a promise."""


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
    """Publishes and subscribes until it is told to stop; it connects again whenever its connection ends."""

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

    @property
    def idle(self) -> bool:
        """Whether it waits for no acknowledgement."""
        return not self._outgoing and (self._subscribed or not self._filters)

    async def run(self) -> None:
        """Connect again and again."""
        while True:
            try:
                await self._connection()
            except OSError:
                await asyncio.sleep(0.01)

    async def _connection(self) -> None:
        reader, writer = await asyncio.open_connection(*self._address())
        self._writer = writer
        decoder = Decoder(version=5)
        try:
            kept: Properties = {props.SESSION_EXPIRY_INTERVAL: KEPT, props.RECEIVE_MAXIMUM: WINDOW}
            self._send(Connect(self.name, False, 0, properties=kept, version=5))
            while data := await reader.read(65_536):
                decoder.feed(data)
                while (packet := decoder.next_packet()) is not None:
                    self._handle(packet)
                self._publish_more()
        finally:
            writer.close()

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
            wanted = [Subscription(topic_filter, 2) for topic_filter in self._filters]
            self._send(Subscribe(next(self._packet_ids), wanted))

    def _acknowledge(self, packet_id: int) -> None:
        outgoing = self._outgoing.pop(packet_id, None)
        if outgoing is not None:
            publish = outgoing.publish
            self.ledger.acknowledged[publish.topic.decode()].append(int(publish.payload[:10]))

    def _receive(self, publish: Publish) -> None:
        if publish.qos != 2 or publish.packet_id not in self._incoming:
            self.ledger.came[publish.topic.decode()].append(int(publish.payload[:10]))
        if publish.qos == 1:
            self._send(Puback(publish.packet_id))
        elif publish.qos == 2:
            self._incoming.add(publish.packet_id)
            self._send(Pubrec(publish.packet_id))

    def _publish_more(self) -> None:
        while self.publishing and self._has_session and len(self._outgoing) < WINDOW:
            packet_id = next(self._packet_ids)
            if packet_id in self._outgoing:
                continue
            topic = next(self._topics)
            qos = int(topic[-1])
            retain = topic.startswith("r/")
            # Twice, so that one of them is whole in a page of the journal.
            payload = b"%010d of %s. " % (next(self._numbers), self.name.encode()) * 2
            publish = Publish(topic.encode(), payload, qos, retain, packet_id=packet_id)
            self._outgoing[packet_id] = Outgoing(publish)
            self._send(publish)


def check_group(publishers: list[Client], members: list[Client]) -> None:
    """Raise LedgerError unless all that was acknowledged has come to a member of the group, at QoS 2 once."""
    for publisher in publishers:
        for topic, acknowledged in publisher.ledger.acknowledged.items():
            came = [number for member in members for number in member.ledger.came[topic]]
            lost = set(acknowledged) - set(came)
            if topic.startswith("d/") and lost:
                raise LedgerError(f"{topic} to the group: {len(lost)} acknowledged messages lost: {sorted(lost)[:5]}")
            if topic.endswith("2") and len(set(came)) != len(came):
                raise LedgerError(f"{topic} to the group: {len(came) - len(set(came))} came twice at QoS 2")


def check_retained(publishers: list[Client], subscriber: Client) -> None:
    """Raise LedgerError unless each topic's retained message is the last one that was acknowledged."""
    for publisher in publishers:
        for topic, acknowledged in publisher.ledger.acknowledged.items():
            if topic.startswith("r/") and subscriber.ledger.came[topic][-1:] != acknowledged[-1:]:
                raise LedgerError(f"{topic}: {subscriber.ledger.came[topic]} is retained, not {acknowledged[-1]}")


def check(publishers: list[Client], subscriber: Client) -> None:
    """Raise LedgerError unless all that was acknowledged has come to the subscriber, in order, at QoS 2 once."""
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
