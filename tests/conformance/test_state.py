"""Session state: its parts, and how long it is kept (section 4.1)."""

import pytest

from protocol import properties as props
from protocol.acknowledgements import Pubcomp, Pubrec, Pubrel
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.subscribe import Subscription
from tests.conformance.delivery import messages, payloads, subscribe, unique
from tests.conformance.sessions import PAST, KeptSession, let_pass, take
from tests.support.process import Address
from tests.support.wire import WireClient, connected

# -- its parts


def test_subscriptions(address: Address, version: int) -> None:
    """Subscriptions and their granted QoS are kept from one connection to the next."""
    base = unique("state")
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        client = session.connect()
        subscribe(client, *[Subscription(f"{base}/{qos}/+", qos) for qos in range(3)])
        client.unsubscribe(f"{base}/0/+")
        for _ in range(2):
            client.close()
            client = session.connect()
            for qos in range(3):
                publisher.publish(f"{base}/{qos}/a", b"%d" % qos, 2)
            found = messages(client, publisher, 2)
            assert sorted((message.payload, message.qos) for message in found) == [(b"1", 1), (b"2", 2)]


@pytest.mark.parametrize("leave", ["DISCONNECT", "close", "reset"])
def test_waiting_messages(address: Address, version: int, leave: str) -> None:
    """QoS 1 and 2 messages for a client that is away wait for it, whichever way it disconnected."""
    topic = unique("state")
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        client = session.connect()
        subscribe(client, Subscription(topic, 2))
        {"DISCONNECT": client.disconnect, "close": client.close, "reset": client.reset}[leave]()
        publisher.publish(topic, b"one", 1)
        publisher.publish(topic, b"two", 2)
        found = messages(session.connect(), publisher, 2)
        assert [(message.payload, message.qos) for message in found] == [(b"one", 1), (b"two", 2)]


def test_unacknowledged_messages(address: Address, version: int) -> None:
    """Messages that are not acknowledged, and PUBRELs without PUBCOMP, are kept."""
    topic = unique("state")
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        client = session.connect()
        subscribe(client, Subscription(topic, 2))
        for qos in (1, 2):
            publisher.publish(topic, b"%d" % qos, qos)
        first, second = take(client, 2)
        client.close()
        client = session.connect()
        again = take(client, 2)
        assert [message.packet_id for message in again] == [first.packet_id, second.packet_id]
        client.send(Pubrec(second.packet_id))
        assert client.expect(Pubrel).packet_id == second.packet_id
        client.finish(first)
        client.expect_nothing_more()
        client.close()
        assert session.connect().expect(Pubrel).packet_id == second.packet_id


def test_received_qos_2(address: Address, version: int) -> None:
    """Packet identifiers of QoS 2 messages that wait for PUBREL are kept."""
    topic = unique("state")
    again = Publish(topic.encode(), b"payload", 2, packet_id=9, dup=True)
    with KeptSession(address, version) as session, connected(address, version) as client:
        subscribe(client, Subscription(topic, 0))
        publisher = session.connect()
        publisher.send(Publish(topic.encode(), b"payload", 2, packet_id=9))
        publisher.expect(Pubrec)
        publisher.close()
        publisher = session.connect()
        publisher.send(again)
        assert publisher.expect(Pubrec).packet_id == 9
        publisher.send(Pubrel(9))
        assert publisher.expect(Pubcomp).reason_code == 0
        assert payloads(messages(client, publisher)) == [b"payload"]


# -- how long it is kept


def check_alive(client: WireClient, publisher: WireClient, topic: str) -> None:
    """The client's subscription to `topic` exists."""
    publisher.publish(topic, b"payload", 1)
    assert payloads(messages(client, publisher, 1)) == [b"payload"]


def test_as_long_as_the_connection(address: Address, version: int) -> None:
    """A session that does not outlive its connection exists as long as that, with all its parts."""
    topic = unique("state")
    with connected(address, version) as client, connected(address, version) as publisher:
        subscribe(client, Subscription(topic, 2))
        publisher.publish(topic, b"first", 2)
        (message,) = take(client, 1)
        for number in range(50):
            with connected(address, version) as other:
                subscribe(other, Subscription(topic, 0))
                publisher.publish(topic, b"%d" % number, 1)
                assert other.receive_message().payload == b"%d" % number
            assert client.receive_message().payload == b"%d" % number
        client.finish(message)
        check_alive(client, publisher, topic)


def test_not_ended_while_connected(address: Address, version: int) -> None:
    """The Session Expiry Interval begins at the end of a connection, and stops when the client is back.

    3.1.1 has none: nothing ends a session while its client is there.
    """
    topic = unique("state")
    with KeptSession(address, version, expiry=1) as session, connected(address, version) as publisher:
        client = session.connect()
        subscribe(client, Subscription(topic, 2))
        client.close()
        client = session.connect()
        publisher.publish(topic, b"first", 2)
        (message,) = take(client, 1)
        let_pass(PAST)
        client.finish(message)
        check_alive(client, publisher, topic)
        client.close()
        check_alive(session.connect(), publisher, topic)


@pytest.mark.parametrize("expiry", [None, 0], ids=["absent", "0"])
def test_ended_with_the_connection(address: Address, expiry: int | None) -> None:
    """Without a Session Expiry Interval, or with 0, the session ends with its connection, and so do all its parts."""
    topic, client_id = unique("state"), unique("client")
    told: Properties | None = None if expiry is None else {props.SESSION_EXPIRY_INTERVAL: expiry}
    with WireClient(address, 5) as client, WireClient(address, 5) as again, connected(address, 5) as publisher:
        client.connect(client_id, clean_start=False, properties=told)
        subscribe(client, Subscription(topic, 2))
        publisher.publish(topic, b"first", 2)
        take(client, 1)
        client.disconnect()
        publisher.publish(topic, b"second", 2)
        connack = again.connect(client_id, clean_start=False, properties=told)
        assert (connack.reason_code, connack.session_present) == (0, False)
        publisher.publish(topic, b"third", 2)
        assert messages(again, publisher, 2) == []


def test_clean_session_ends_with_the_connection(address: Address) -> None:
    """In 3.1.1 a session of a clean session connection ends with it [MQTT-3.1.2-6]."""
    topic, client_id = unique("state"), unique("client")
    with WireClient(address, 4) as client, KeptSession(address, 4) as session, connected(address, 4) as publisher:
        session.client_id = client_id
        client.connect(client_id)
        subscribe(client, Subscription(topic, 2))
        client.disconnect()
        publisher.publish(topic, b"second", 2)
        assert messages(session.connect(), publisher, 2) == []


def test_ended_when_its_interval_has_passed(address: Address) -> None:
    """When the Session Expiry Interval has passed, the session has ended, and so have all its parts."""
    topic = unique("state")
    with KeptSession(address, 5, expiry=1) as session, connected(address, 5) as publisher:
        client = session.connect()
        subscribe(client, Subscription(topic, 2))
        publisher.publish(topic, b"first", 2)
        take(client, 1)
        client.close()
        publisher.publish(topic, b"second", 2)
        let_pass(PAST)
        client, present = session.try_connect()
        assert not present
        publisher.publish(topic, b"third", 2)
        assert messages(client, publisher, 2) == []
