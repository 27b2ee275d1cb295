"""A broker with addresses that fill up, and clients in this process that fill and empty them."""

from collections.abc import Iterable
from typing import Any

from broker.addresses.full_address import Parked
from protocol.acknowledgements import Acknowledgement, Puback, Pubcomp, Pubrec, Pubrel
from protocol.packet import Packet
from protocol.properties import Properties
from protocol.publish import Publish
from session.address import Address
from session.session import Session
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.costs import held

TOPIC = "full/a"
SIZE = 100
"""Payload bytes of a message, unless it is to have another size."""
COST = held(1, SIZE, TOPIC)
"""What a delivery of it counts."""
FITTING = 10
LIMIT = FITTING * COST
"""How much the sessions may hold of each address."""
FILLING = range(1, FITTING + 1)
"""The numbers of the messages that fill an address."""


def sections(policy: str = "block", session: dict[str, object] | None = None, **rule: object) -> dict[str, Any]:
    """Configuration: topics below `full` are addresses, and sessions hold what they are given."""
    own: dict[str, object] = {"max_inflight": 4, "max_mqueue_len": "infinity", "retry_interval": "infinity"}
    return {
        "addresses": [{"match": "full/#", "max_size_bytes": LIMIT, "full_policy": policy, **rule}],
        "session": own | (session or {}),
    }


def local_broker(policy: str = "block", session: dict[str, object] | None = None, **rule: object) -> LocalBroker:
    """A broker with such addresses."""
    return LocalBroker(**sections(policy, session, **rule))


def packet(
    number: int,
    qos: int = 1,
    *,
    topic: str = TOPIC,
    size: int = SIZE,
    packet_id: int = 0,
    retain: bool = False,
    dup: bool = False,
    properties: Properties | None = None,
) -> Publish:
    """A PUBLISH that says which it is; its packet id is the number too, unless given."""
    payload = b"%d" % number
    assert len(payload) <= size
    identifier = (packet_id or number) if qos else 0
    return Publish(topic.encode(), payload.ljust(size, b"."), qos, retain, properties, identifier, dup)


def send(client: LocalClient, numbers: Iterable[int], qos: int = 1, **options: Any) -> None:
    """Send numbered PUBLISHes in one chunk."""
    client.send(*[packet(number, qos, **options) for number in numbers])


def number_of(message: Publish) -> int:
    """Which message it is."""
    return int(message.payload.rstrip(b"."))


def numbers(packets: Iterable[Packet]) -> list[int]:
    """Which messages are among the packets, in order."""
    return [number_of(packet) for packet in packets if isinstance(packet, Publish)]


def answers(packets: Iterable[Packet]) -> list[tuple[int, int]]:
    """Packet id and reason code of the PUBACKs and PUBRECs among the packets, in order."""
    return [
        (packet.packet_id, packet.reason_code)
        for packet in packets
        if isinstance(packet, Acknowledgement) and isinstance(packet, Puback | Pubrec)
    ]


def answered(client: LocalClient) -> list[int]:
    """Packet ids of the PUBLISHes that have been acknowledged since the last call, all with success."""
    found = answers(client.received())
    assert all(reason_code == 0 for _, reason_code in found), found
    return [packet_id for packet_id, _ in found]


def acknowledge(client: LocalClient, packets: Iterable[Packet]) -> None:
    """Send what the client owes for these packets, in one chunk."""
    owed: list[Packet] = []
    for received in packets:
        if isinstance(received, Publish) and received.qos:
            owed.append((Puback if received.qos == 1 else Pubrec)(received.packet_id))
        elif isinstance(received, Pubrel):
            owed.append(Pubcomp(received.packet_id))
        elif isinstance(received, Pubrec):
            owed.append(Pubrel(received.packet_id))
    if owed:
        client.send(*owed)


def take(client: LocalClient, count: int) -> list[int]:
    """Receive this many messages, acknowledged one by one, which may bring more; returns which they are."""
    found: list[int] = []
    packets: list[Packet] = []
    while len(found) < count:
        packets += client.received()
        assert packets, f"after {found} nothing comes"
        first = packets.pop(0)
        found += numbers([first])
        acknowledge(client, [first])
    while packets:
        acknowledge(client, packets)
        packets = [late for late in client.received() if not isinstance(late, Publish)]
    return found


def drain(*clients: LocalClient) -> list[list[int]]:
    """Let all clients acknowledge whatever comes, until nothing comes any more; returns the messages of each."""
    found: list[list[int]] = [[] for _ in clients]
    quiet = 0
    while quiet < 2:
        quiet += 1
        for client, own in zip(clients, found, strict=True):
            packets = client.received()
            own += numbers(packets)
            acknowledge(client, packets)
            quiet = 0 if packets else quiet
    return found


def subscriber(local: LocalBroker, qos: int = 1, version: int = 5, topic_filter: str = TOPIC) -> LocalClient:
    """A client that acknowledges nothing by itself."""
    client = local.client(version)
    client.connect(f"subscriber-{qos}-{version}-{id(client)}")
    client.subscribe(topic_filter, qos)
    return client


def publisher(local: LocalBroker, version: int = 5, client_id: str = "publisher") -> LocalClient:
    """A client that publishes."""
    client = local.client(version)
    client.connect(client_id)
    return client


def address(local: LocalBroker, topic: str = TOPIC) -> Address:
    """The topic's address."""
    found = local.broker.router.address(topic.encode())
    assert found is not None
    return found


def fill(local: LocalBroker, sender: LocalClient | None = None) -> tuple[LocalClient, LocalClient]:
    """A subscriber that acknowledges nothing, and a publisher, `sender` or a new one, that has filled the address."""
    reader = subscriber(local)
    if sender is None:
        sender = publisher(local)
    send(sender, FILLING)
    assert answered(sender) == list(FILLING)
    return reader, sender


def session(local: LocalBroker, client_id: str = "publisher") -> Session:
    """The session of a client."""
    return local.broker.clients.by_id[client_id].session


def parked(local: LocalBroker, client_id: str = "publisher") -> list[Parked]:
    """What is parked of a client."""
    return local.broker.addresses.producers.parked(session(local, client_id))
