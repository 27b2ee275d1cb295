"""The order of messages (section 4.6)."""

from collections.abc import Iterable

import pytest

from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.packet import Packet
from protocol.ping import Pingreq, Pingresp
from protocol.publish import Publish
from protocol.subscribe import Subscription
from tests.conformance.delivery import messages, subscribe, unique
from tests.conformance.sessions import KeptSession
from tests.support.process import Address
from tests.support.wire import WireClient, connected

COUNT = 200
"""Messages of each publisher: more than any window, so that some have to wait."""
BURST = 20
"""Messages that are published without waiting for acknowledgements: fewer than any Receive Maximum."""

LARGE = 8_000
"""Bytes of a payload: large enough that a server may not write all deliveries of the window at once."""


def publish_all(publishers: list[WireClient], topics: list[str], qos: int) -> None:
    """Each publishes COUNT numbered messages in turn to each topic, in bursts that overlap with the others'."""
    for start in range(0, COUNT, BURST):
        for number, publisher in enumerate(publishers):
            for count in range(start, start + BURST):
                topic = topics[count % len(topics)].encode()
                publisher.send(Publish(topic, b"%d %d" % (number, count), qos, packet_id=1 + count % BURST))
        for publisher in publishers:
            for count in range(BURST if qos else 0):
                answer: Packet = publisher.receive()
                assert isinstance(answer, (Puback, Pubrec))
                assert answer.packet_id == 1 + count, "answered in the order of the PUBLISHes"
            if qos == 0:
                publisher.expect_nothing_more()  # the server has read them
            if qos == 2:
                publisher.send(*[Pubrel(1 + count) for count in range(BURST)])
                assert [publisher.expect(Pubcomp).packet_id for _ in range(BURST)] == list(range(1, BURST + 1))


def check_order(found: Iterable[Publish], publishers: int) -> None:
    """All messages came, and within each topic those of each publisher are in order."""
    seen: dict[tuple[bytes, int], list[int]] = {}
    for message in found:
        publisher, count = map(int, message.payload.split())
        seen.setdefault((message.topic, publisher), []).append(count)
    assert all(counts == sorted(counts) for counts in seen.values())
    for publisher in range(publishers):
        everything = [count for (_, who), counts in seen.items() if who == publisher for count in counts]
        assert sorted(everything) == list(range(COUNT))


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_order_of_each_publisher(address: Address, version: int, qos: int) -> None:
    """Messages of one client, topic and QoS are delivered in the order they were received, to every subscriber."""
    base = unique("order")
    topics = [f"{base}/{name}" for name in "ab"]
    with (
        connected(address, version) as one,
        connected(address, version) as another,
        connected(address, version) as first,
        connected(address, version) as second,
    ):
        for client in (one, another):
            subscribe(client, Subscription(f"{base}/+", qos))
        publish_all([first, second], topics, qos)
        for client in (one, another):
            check_order(messages(client, first, qos), 2)


@pytest.mark.parametrize("granted", [0, 1])
def test_order_at_a_lower_qos(address: Address, version: int, granted: int) -> None:
    """The same for messages that are published at QoS 2 and delivered at a lower QoS."""
    topic = unique("order")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic, granted))
        publish_all([publisher], [topic], 2)
        check_order(messages(client, publisher, granted), 1)


@pytest.mark.parametrize("qos", [1, 2])
def test_order_of_what_waited(address: Address, version: int, qos: int) -> None:
    """The same for messages that waited for a client that was away, and those that came after them."""
    topic = unique("order")
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        client = session.connect()
        subscribe(client, Subscription(topic, qos))
        client.close()
        publish_all([publisher], [topic], qos)
        client = session.connect()
        check_order(messages(client, publisher, qos), 1)
        publish_all([publisher], [topic], qos)
        check_order(messages(client, publisher, qos), 1)


def test_order_of_what_comes_while_others_wait(address: Address, version: int) -> None:
    """The same when a client acknowledges many large messages at once and publishes to itself in the same write."""
    topic = unique("order")
    sent, found = 0, []
    unacknowledged: list[Publish] = []
    with connected(address, version) as client:
        subscribe(client, Subscription(topic, 1))
        for count in [60] + [3] * 10:
            batch = [
                Publish(topic.encode(), (b"%d " % number).ljust(LARGE, b"x"), 1, packet_id=1 + number % 100)
                for number in range(sent, sent + count)
            ]
            sent += count
            client.send(*batch, *[Puback(message.packet_id) for message in unacknowledged], Pingreq())
            unacknowledged = []
            while not isinstance(packet := client.receive(), Pingresp):
                if isinstance(packet, Publish):
                    unacknowledged.append(packet)
                    found.append(packet)
        client.send(*[Puback(message.packet_id) for message in unacknowledged])
        with connected(address, version) as publisher:
            found += messages(client, publisher, 1)
        assert [int(message.payload.split()[0]) for message in found] == list(range(sent))


@pytest.mark.parametrize("qos", [1, 2])
def test_order_across_reconnects(address: Address, version: int, qos: int) -> None:
    """With reconnects in between, resent messages come first in their order, then new ones in theirs."""
    topic = unique("order")
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        client = session.connect()
        subscribe(client, Subscription(topic, qos))
        client.close()
        publish_all([publisher], [topic], qos)
        for start in range(0, COUNT, BURST):
            client = session.connect()
            found = receive_and_finish(client, BURST)
            assert found == list(range(start, start + len(found)))
            client.close()
        session.connect().expect_nothing_more()


def receive_and_finish(client: WireClient, count: int) -> list[int]:
    """Acknowledge the first `count` messages completely; returns the numbers of all that came until then."""
    found: list[int] = []
    finished = 0
    while True:
        packet = client.receive()
        if isinstance(packet, Publish):
            found.append(int(packet.payload.split()[1]))
            if len(found) <= count:
                client.send((Puback if packet.qos == 1 else Pubrec)(packet.packet_id))
                finished += packet.qos == 1
        elif isinstance(packet, Pubrel):
            client.send(Pubcomp(packet.packet_id))
            finished += 1
        else:
            assert isinstance(packet, Pingresp), packet
            return found  # the server has read what was sent before the ping
        if finished == count:
            finished = 0
            client.send(Pingreq())
