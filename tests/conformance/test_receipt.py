"""A message that the server has accepted reaches every subscriber (section 4.5)."""

from contextlib import ExitStack

import pytest

from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.packet import Packet
from protocol.publish import Publish
from protocol.subscribe import Subscription
from tests.conformance.delivery import messages, payloads, subscribe, unique
from tests.conformance.sessions import KeptSession
from tests.support.process import Address
from tests.support.wire import WireClient, connected

CLIENTS = 20


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_every_subscriber(address: Address, version: int, qos: int) -> None:
    """Every client with a matching subscription gets it once, in both versions, and no other client does."""
    base = unique("receipt")
    matching = [f"{base}/a/b", f"{base}/a/+", f"{base}/+/b", f"{base}/#", f"{base}/a/b/#", f"{base}/a/#"]
    others = [f"{base}/a", f"{base}/a/b/c", f"{base}/+", f"{base}/b/+", f"{base}/a/b/", f"{base}/A/b", f"{base}/a/b/+"]
    with ExitStack() as stack, connected(address, version) as publisher:
        clients: list[tuple[str, WireClient]] = []
        for number, topic_filter in enumerate([*matching, *others] * 2):
            client = stack.enter_context(connected(address, 4 + number % 2))
            subscribe(client, Subscription(topic_filter, qos))
            clients.append((topic_filter, client))
        publisher.publish(f"{base}/a/b", b"payload", qos)
        for topic_filter, client in clients:
            expected = [b"payload"] if topic_filter in matching else []
            assert payloads(messages(client, publisher, qos)) == expected, topic_filter


def test_many_subscribers(address: Address, version: int) -> None:
    """Each of many subscribers gets each of many messages."""
    topic = unique("receipt")
    expected = [b"%d" % number for number in range(50)]
    with ExitStack() as stack, connected(address, version) as publisher:
        clients = [stack.enter_context(connected(address, version)) for _ in range(CLIENTS)]
        for client in clients:
            subscribe(client, Subscription(topic, 1))
        for payload in expected:
            publisher.publish(topic, payload, 1)
        for client in clients:
            assert payloads(messages(client, publisher, 1)) == expected


@pytest.mark.parametrize("qos", [1, 2])
def test_who_is_away(address: Address, version: int, qos: int) -> None:
    """It is added to the session of every subscriber, connected or not."""
    topic = unique("receipt")
    with ExitStack() as stack, connected(address, version) as publisher:
        sessions = [stack.enter_context(KeptSession(address, version)) for _ in range(4)]
        clients = [session.connect() for session in sessions]
        for client in clients:
            subscribe(client, Subscription(topic, qos))
        for client in clients[:3]:
            client.close()
        publisher.publish(topic, b"first", qos)
        clients[0] = sessions[0].connect()
        publisher.publish(topic, b"second", qos)
        clients[1] = sessions[1].connect()
        clients[2] = sessions[2].connect()
        for client in clients:
            assert payloads(messages(client, publisher, qos)) == [b"first", b"second"]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_its_publisher_too(address: Address, version: int, qos: int) -> None:
    """A publisher that is a subscriber gets its own message."""
    topic = unique("receipt")
    expected: set[type[Packet]] = {Publish} | ({Puback if qos == 1 else Pubrec} if qos else set())
    with connected(address, version) as client:
        subscribe(client, Subscription(topic, 0))
        client.send(Publish(topic.encode(), b"own", qos, packet_id=1 if qos else 0))
        packets = [client.receive()]
        if qos == 2:  # a server may wait for PUBREL before it delivers
            client.send(Pubrel(1))
            expected.add(Pubcomp)
        packets += [client.receive() for _ in range(len(expected) - 1)]
        assert {type(packet) for packet in packets} == expected
        client.expect_nothing_more()


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 65_536, 300_000])
def test_whole_payload(address: Address, version: int, size: int) -> None:
    """The payload is delivered byte for byte, whatever its length."""
    topic = unique("receipt")
    payload = bytes(number * 7 % 256 for number in range(size))
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic, 2))
        for qos in range(3):
            publisher.publish(topic, payload, qos)
            assert client.receive_message().payload == payload
