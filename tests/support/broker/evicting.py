"""Messages for a client that is away, more than memory takes (FC-30), and what it gets when it is back."""

from collections.abc import Callable

from broker.storage.storage import Storage
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.connect import Connect
from protocol.publish import Publish
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.broker.stored import KEPT, on_disk

FULL = 1
"""Bytes of memory that any delivery exceeds."""

BODY = bytes(1000)
MANY = 60
"""Messages of such a body, of which the first few fit into what a queue may always keep."""

NO_LIMIT = {"max_mqueue_len": 0}


def publish(local: LocalBroker, storage: Storage, publisher: LocalClient, numbers: range, qos: int = 1) -> None:
    """Publish messages to `t` that begin with their numbers."""
    for number in numbers:
        publisher.send(Publish(b"t", b"%06d" % number + BODY, qos, packet_id=number % 60_000 + 1))
        if qos == 2:
            publisher.send(Pubrel(number % 60_000 + 1))
    on_disk(local, storage)
    publisher.received()


def come_back(local: LocalBroker, client_id: str) -> LocalClient:
    """A client that connects to its session."""
    client = local.client()
    client.send(Connect(client_id, False, 0, properties=KEPT, version=5))
    return client


def take(local: LocalBroker, storage: Storage, client: LocalClient, done: Callable[[list[int]], bool]) -> list[int]:
    """Acknowledge what comes until `done`; returns the numbers in the order in which they came first."""
    came: list[int] = []
    for _ in range(2_000):
        for packet in client.received():
            if isinstance(packet, Publish):
                came.append(int(packet.payload[:6]))
                if packet.qos:
                    client.send(Puback(packet.packet_id) if packet.qos == 1 else Pubrec(packet.packet_id))
            elif isinstance(packet, Pubrel):
                client.send(Pubcomp(packet.packet_id))
        if done(came):
            return list(dict.fromkeys(came))
        local.run(lambda: None)
        on_disk(local, storage)
    raise AssertionError(f"{len(came)} came: {came}")


def on_disk_only(storage: Storage) -> int:
    """How many deliveries are on disk only."""
    return sum(frame.evicted for frame in storage.journal.frames.values())
