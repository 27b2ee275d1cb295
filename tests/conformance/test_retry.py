"""What is resent, when, and in which order (sections 4.4 and 4.6)."""

import pytest

from protocol import properties as props
from protocol.acknowledgements import Puback, Pubcomp, Pubrec, Pubrel
from protocol.publish import Publish
from protocol.subscribe import Subscription
from tests.conformance.configured import Configured
from tests.conformance.delivery import subscribe, unique
from tests.conformance.sessions import KeptSession, take
from tests.support.process import Address
from tests.support.wire import WireClient, connected

COUNT = 10
"""Messages that every server may send without an acknowledgement."""

Sent = tuple[bytes, int, int]


def sent(message: Publish) -> Sent:
    """Return what must be the same when a message is resent."""
    return message.payload, message.packet_id, message.qos


def publish_and_take(client: WireClient, publisher: WireClient, topic: str, qos: int) -> list[Publish]:
    """Return COUNT messages that have been delivered and not acknowledged."""
    for number in range(COUNT):
        publisher.publish(topic, b"%d" % number, qos)
    return take(client, COUNT)


@pytest.mark.parametrize("qos", [1, 2])
def test_sent_again_in_order(address: Address, version: int, qos: int) -> None:
    """On reconnect all unacknowledged PUBLISHes are resent, in the order first sent, with their packet ids and DUP."""
    topic = unique("retry")
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        client = session.connect()
        subscribe(client, Subscription(topic, qos))
        first = publish_and_take(client, publisher, topic, qos)
        for _ in range(2):
            client.close()
            client = session.connect()
            again = take(client, COUNT)
            assert [sent(message) for message in again] == [sent(message) for message in first]
            assert all(message.dup for message in again)
            client.expect_nothing_more()


@pytest.mark.parametrize("qos", [1, 2])
def test_acknowledged_ones_are_not(address: Address, version: int, qos: int) -> None:
    """Acknowledged ones are not resent; those between them are, in order, before anything new."""
    topic = unique("retry")
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        client = session.connect()
        subscribe(client, Subscription(topic, qos))
        first = publish_and_take(client, publisher, topic, qos)
        for message in first[::2]:
            client.finish(message)
        client.expect_nothing_more()
        client.close()
        publisher.publish(topic, b"new", qos)
        client = session.connect()
        again = take(client, COUNT // 2)
        assert [sent(message) for message in again] == [sent(message) for message in first[1::2]]
        (new,) = take(client, 1)
        assert (new.payload, new.dup) == (b"new", False)
        assert new.packet_id not in {message.packet_id for message in again}


def test_publish_and_pubrel_again(address: Address, version: int) -> None:
    """QoS 1, QoS 2 before PUBREC and QoS 2 before PUBCOMP: each exchange of a session continues where it was."""
    topic = unique("retry")
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        client = session.connect()
        subscribe(client, Subscription(topic, 2))
        for qos in (1, 2, 2):
            publisher.publish(topic, b"payload", qos)
        at_1, at_2, released = take(client, 3)
        client.send(Pubrec(released.packet_id))
        assert client.expect(Pubrel).packet_id == released.packet_id
        client.close()
        client = session.connect()
        packets = [client.receive() for _ in range(3)]
        again = [packet for packet in packets if isinstance(packet, Publish)]
        assert [sent(message) for message in again] == [sent(at_1), sent(at_2)]
        assert [packet.packet_id for packet in packets if isinstance(packet, Pubrel)] == [released.packet_id]
        client.send(Puback(at_1.packet_id), Pubrec(at_2.packet_id), Pubcomp(released.packet_id))
        assert client.expect(Pubrel).packet_id == at_2.packet_id
        client.send(Pubcomp(at_2.packet_id))
        client.expect_nothing_more()


def test_pubrels_again_in_order(address: Address, version: int) -> None:
    """PUBRELs are sent and resent in the order of their PUBRECs."""
    topic = unique("retry")
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        client = session.connect()
        subscribe(client, Subscription(topic, 2))
        ids = [message.packet_id for message in publish_and_take(client, publisher, topic, 2)]
        for packet_id in ids:
            client.send(Pubrec(packet_id))
        assert [client.expect(Pubrel).packet_id for _ in ids] == ids
        client.close()
        client = session.connect()
        assert [client.expect(Pubrel).packet_id for _ in ids] == ids


def test_pubrels_in_the_order_of_pubrecs(address: Address, version: int) -> None:
    """If the PUBRECs come in another order than the PUBLISHes, the PUBRELs are in the order of the PUBRECs."""
    topic = unique("retry")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic, 2))
        ids = [message.packet_id for message in publish_and_take(client, publisher, topic, 2)]
        ids = ids[5:] + ids[:5][::-1]
        client.send(*[Pubrec(packet_id) for packet_id in ids])
        assert [client.expect(Pubrel).packet_id for _ in ids] == ids


@pytest.mark.parametrize("qos", [1, 2])
def test_not_sent_again_unasked(address: Address, qos: int) -> None:
    """Nothing is resent while the client is connected: neither new messages nor other acknowledgements cause it."""
    topic = unique("retry")
    with connected(address, 5) as client, connected(address, 5) as publisher:
        subscribe(client, Subscription(topic, qos))
        first = publish_and_take(client, publisher, topic, qos)
        for message in first[1:]:
            client.finish(message)
        for number in range(50):
            publisher.publish(topic, b"new %d" % number, qos)
            (message,) = take(client, 1)
            assert (message.payload, message.dup) == (b"new %d" % number, False)
            client.finish(message)
        client.expect_nothing_more()


@pytest.mark.parametrize("phase", ["PUBACK", "PUBREC", "PUBCOMP"])
def test_not_sent_again_in_time(configured: Configured, phase: str) -> None:
    """In MQTT 5 nothing is resent after a time either; the same server resends to a 3.1.1 client, which is allowed."""
    topic = unique("retry")
    address = configured(session={"retry_interval": "300ms"})
    qos = 1 if phase == "PUBACK" else 2
    with (
        connected(address, 5) as client,
        connected(address, 4) as clock,
        connected(address, 4) as publisher,
    ):
        for subscriber in (client, clock):
            subscribe(subscriber, Subscription(topic, qos))
        publisher.publish(topic, b"payload", qos)
        for subscriber in (client, clock):
            (message,) = take(subscriber, 1)
            if phase == "PUBCOMP":
                subscriber.send(Pubrec(message.packet_id))
                subscriber.expect(Pubrel)
        for _ in range(2):
            clock.expect(Pubrel if phase == "PUBCOMP" else Publish)
        client.expect_nothing_more()


@pytest.mark.parametrize("code", [0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99])
@pytest.mark.parametrize("qos", [1, 2])
def test_refused_by_the_client(address: Address, qos: int, code: int) -> None:
    """After a PUBACK or PUBREC of 0x80 or above the message is not resent, also not on reconnect."""
    topic = unique("retry")
    with KeptSession(address, 5) as session, connected(address, 5) as publisher:
        client = session.connect({props.RECEIVE_MAXIMUM: 1})
        subscribe(client, Subscription(topic, qos))
        publisher.publish(topic, b"refused", qos)
        publisher.publish(topic, b"next", qos)
        (message,) = take(client, 1)
        client.send((Puback if qos == 1 else Pubrec)(message.packet_id, code))
        (message,) = take(client, 1)
        assert (message.payload, message.dup) == (b"next", False)
        client.close()
        client = session.connect()
        (message,) = take(client, 1)
        assert (message.payload, message.dup) == (b"next", True)
        client.finish(message)
        client.expect_nothing_more()


def test_dup_only_when_sent_before(address: Address, version: int) -> None:
    """A message that waited for its client, and so was never sent, has no DUP."""
    topic = unique("retry")
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        client = session.connect()
        subscribe(client, Subscription(topic, 2))
        client.close()
        for qos in (1, 2):
            publisher.publish(topic, b"waited", qos)
        client = session.connect()
        assert [message.dup for message in take(client, 2)] == [False, False]
        client.close()
        assert [message.dup for message in take(session.connect(), 2)] == [True, True]


def test_nothing_again_in_a_clean_session(address: Address, version: int) -> None:
    """After a clean start nothing of the session before is resent."""
    topic = unique("retry")
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        client = session.connect()
        subscribe(client, Subscription(topic, 2))
        for qos in (1, 2):
            publisher.publish(topic, b"payload", qos)
        take(client, 2)
        client.close()
        with connected(address, version, client_id=session.client_id) as clean:
            clean.expect_nothing_more()
