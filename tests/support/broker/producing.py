"""Clients that publish and subscribe over connections that close and reopen, and the checks of what they receive."""

from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connect import Connect
from protocol.packet import Packet
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.full import number_of, packet
from tests.support.broker.local import LocalBroker, LocalClient

FAILED = 0x80


class Kept:
    """One client whose session is kept."""

    def __init__(self, local: LocalBroker, name: str, version: int) -> None:
        self.local = local
        self.name = name
        self.version = version
        self.client: LocalClient = self._connect()

    def _connect(self) -> LocalClient:
        client = self.local.client(self.version)
        properties: Properties | None = {props.SESSION_EXPIRY_INTERVAL: 100_000} if self.version == 5 else None
        client.send(Connect(self.name, False, properties=properties, version=self.version))
        return client  # what comes with the CONNACK is for `read`

    def read(self) -> int:
        """Take what has come; returns how much that was."""
        raise NotImplementedError

    def drop(self) -> None:
        """The connection breaks, and whatever is on its way to the client is lost."""
        if not self.client.gone:
            self.client.drop()
            self.client.received()

    def come_back(self) -> None:
        """Connect again, if the connection has gone."""
        raise NotImplementedError


class Publishing(Kept):
    """Publishes, and sends again what has no answer whenever it comes back."""

    def __init__(self, local: LocalBroker, name: str, version: int) -> None:
        super().__init__(local, name, version)
        self.promised: set[int] = set()
        """Messages of QoS 1 and 2 that have been acknowledged with success."""
        self.refused: set[int] = set()
        self._waiting: dict[int, Publish] = {}
        """By packet id, in the order in which they were sent first."""
        self._released: dict[int, Publish] = {}
        self._packet_id = 0

    def publish(self, topic: str, numbers: list[int], qos: int) -> None:
        """Send messages in one chunk."""
        sent: list[Packet] = []
        for number in numbers:
            self._packet_id = self._packet_id % 65_535 + 1
            publish = packet(number, qos, topic=topic, packet_id=self._packet_id)
            if qos:
                self._waiting[self._packet_id] = publish
            sent.append(publish)
        self.client.send(*sent)

    def read(self) -> int:
        """Take what has come, and answer it; returns how much that was."""
        packets = self.client.received()
        for received in packets:
            if isinstance(received, Puback):
                self._take(self._waiting.pop(received.packet_id), received.reason_code)
            elif isinstance(received, Pubrec):
                self._on_pubrec(received)
            elif isinstance(received, Pubcomp):
                self._released.pop(received.packet_id)
        return len(packets)

    def _on_pubrec(self, received: Pubrec) -> None:
        publish = self._waiting.pop(received.packet_id)
        self._take(publish, received.reason_code)
        if received.reason_code < FAILED:
            self._released[received.packet_id] = publish
            self.client.send(Pubrel(received.packet_id))

    def _take(self, publish: Publish, reason_code: int) -> None:
        (self.refused if reason_code >= FAILED else self.promised).add(number_of(publish))

    def come_back(self) -> None:
        """Connect again, if the connection has gone, and send what has no answer again, in order."""
        if not self.client.gone:
            return
        self.read()  # what came before the broker closed
        self.client = self._connect()
        again: list[Packet] = [Pubrel(packet_id) for packet_id in self._released]
        for publish in self._waiting.values():
            publish.dup = True
            again.append(publish)
        if again:
            self.client.send(*again)

    @property
    def idle(self) -> bool:
        """Whether it waits for nothing."""
        return not self._waiting and not self._released


class Subscribing(Kept):
    """Receives, and acknowledges when it is told to."""

    def __init__(self, local: LocalBroker, name: str, version: int, topic_filter: str, qos: int) -> None:
        super().__init__(local, name, version)
        self.got: list[Publish] = []
        """First deliveries, in order."""
        self._seen: set[int] = set()
        self._owed: list[Packet] = []
        self._received: set[int] = set()
        """QoS 2 packet ids between PUBLISH and PUBREL."""
        self.client.send(Subscribe(1, [Subscription(topic_filter, qos)]))

    def read(self) -> int:
        """Take what has come, and note what is owed for it; returns how much that was."""
        packets = self.client.received()
        for received in packets:
            if isinstance(received, Publish):
                self._on_publish(received)
            elif isinstance(received, Pubrel):
                self._received.discard(received.packet_id)
                self._owed.append(Pubcomp(received.packet_id))
        return len(packets)

    def _on_publish(self, publish: Publish) -> None:
        number = number_of(publish)
        if publish.qos:
            self._owed.append((Puback if publish.qos == 1 else Pubrec)(publish.packet_id))
        if publish.qos == 2:
            if publish.packet_id in self._received:
                return
            self._received.add(publish.packet_id)
            assert number not in self._seen, f"{number} came twice at QoS 2"
        if number not in self._seen:
            self._seen.add(number)
            self.got.append(publish)

    def acknowledge(self, count: int) -> None:
        """Send the first of what is owed."""
        owed, self._owed = self._owed[:count], self._owed[count:]
        if owed:
            self.client.send(*owed)

    def come_back(self) -> None:
        """Connect again, if the connection has gone: what is owed on the old one will be asked for again."""
        if self.client.gone:
            self.read()
            self._owed = []
            self.client = self._connect()
