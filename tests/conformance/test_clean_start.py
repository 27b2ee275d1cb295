"""Sessions that CONNECT resumes, begins or discards, and Session Present in CONNACK (sections 3.1.2.4, 3.2.2)."""

import pytest

from protocol import properties as props
from protocol.publish import Publish
from tests.conformance.connecting import connect, refusal, refused
from tests.conformance.delivery import messages, payloads, unique
from tests.conformance.sessions import LONG, KeptSession, let_pass
from tests.support.process import Address
from tests.support.wire import WireClient, connected


@pytest.fixture
def topic() -> str:
    """A topic that no other test uses."""
    return unique("topic")


def clean(address: Address, version: int, session: KeptSession) -> WireClient:
    """A client that has discarded this session."""
    client = WireClient(address, version)
    connack = client.connect(session.client_id, clean_start=True)
    assert (connack.reason_code, connack.session_present) == (0, False)
    return client


# -- resumed


def test_first_session(address: Address, version: int) -> None:
    """If there is no session, one begins, and CONNACK has Session Present 0."""
    with KeptSession(address, version) as session:
        client, present = session.try_connect()
        assert not present
        client.expect_nothing_more()


def test_resumed(address: Address, version: int, topic: str) -> None:
    """A kept session still has its subscriptions after a reconnect, and CONNACK has Session Present 1."""
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        session.connect().subscribe(topic)
        session.connect().disconnect()
        client = session.connect()
        publisher.publish(topic, b"x")
        assert client.expect(Publish).payload == b"x"


@pytest.mark.parametrize("qos", [1, 2])
def test_messages_wait(address: Address, version: int, topic: str, qos: int) -> None:
    """Messages that arrive while the session's client is away are delivered when it is back."""
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        client = session.connect()
        client.subscribe(topic, qos=qos)
        client.disconnect()
        for number in range(3):
            publisher.publish(topic, bytes([number]), qos)
        assert payloads(messages(session.connect(), publisher, qos)) == [b"\0", b"\1", b"\2"]


def test_sessions_go_by_client_id(address: Address, version: int, topic: str) -> None:
    """Another client id has another session; client ids that differ in case are different."""
    with KeptSession(address, version) as one, KeptSession(address, version) as other:
        other.client_id = one.client_id.upper()
        one.connect().subscribe(topic)
        client, present = other.try_connect()
        assert not present
        with connected(address, version) as publisher:
            publisher.publish(topic, b"x")
            assert messages(client, publisher) == []


# -- discarded


def test_clean_start_discards(address: Address, version: int, topic: str) -> None:
    """A clean start discards subscriptions and waiting messages of the session before."""
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        client = session.connect()
        client.subscribe(topic, qos=1)
        client.disconnect()
        publisher.publish(topic, b"waiting", 1)
        with clean(address, version, session) as fresh:
            publisher.publish(topic, b"new", 1)
            assert messages(fresh, publisher) == []


def test_clean_start_takes_over(address: Address, version: int, topic: str) -> None:
    """A clean start that takes over a connection discards its session too."""
    with KeptSession(address, version) as session, connected(address, version) as publisher:
        older = session.connect()
        older.subscribe(topic, qos=1)
        with clean(address, version, session) as fresh:
            older.expect_close()
            publisher.publish(topic, b"new", 1)
            assert messages(fresh, publisher) == []


def test_clean_session_is_not_kept(address: Address, version: int, topic: str) -> None:
    """A session of a clean start (in MQTT 5 also without an expiry interval) ends with its connection."""
    name = unique("c")
    with connected(address, version, client_id=name) as client:
        client.subscribe(topic, qos=1)
        client.send(b"\xe0\0")
        client.expect_close()
    with WireClient(address, version) as client, connected(address, version) as publisher:
        assert not client.connect(name, clean_start=False).session_present
        publisher.publish(topic, b"x", 1)
        assert messages(client, publisher) == []
    connected(address, version, client_id=name).disconnect()


def test_retained_outlive_the_session(address: Address, version: int, topic: str) -> None:
    """A retained message is not part of a session: it stays when its publisher's session ends."""
    with KeptSession(address, version) as session:
        session.connect().publish(topic, b"retained", 1, retain=True)
        clean(address, version, session).disconnect()
    with connected(address, version) as client, connected(address, version) as publisher:
        client.subscribe(topic)
        assert payloads(messages(client, publisher)) == [b"retained"]
        publisher.publish(topic, b"", retain=True)


# -- the Session Expiry Interval (MQTT 5)


def test_kept_for_its_expiry_interval(address: Address, topic: str) -> None:
    """A session with an expiry interval is kept when its connection breaks, with or without clean start."""
    with KeptSession(address, 5) as session:
        client = WireClient(address, 5)
        client.connect(session.client_id, properties={props.SESSION_EXPIRY_INTERVAL: LONG})
        client.subscribe(topic, qos=1)
        client.reset()
        with connected(address, 5) as publisher:
            publisher.publish(topic, b"x", 1)
        client, present = session.try_connect()
        assert present
        assert client.receive_message().payload == b"x"


def test_kept_from_disconnect_on(address: Address) -> None:
    """DISCONNECT can change the expiry interval: a longer one keeps the session longer, 0 ends it."""
    with KeptSession(address, 5, expiry=1) as session:
        session.connect().disconnect(0, {props.SESSION_EXPIRY_INTERVAL: LONG})
        let_pass(3)
        later, present = session.try_connect()
        assert present
        later.disconnect(0, {props.SESSION_EXPIRY_INTERVAL: 0})
        _, present = session.try_connect()
        assert not present


def test_not_kept_from_disconnect_on(address: Address) -> None:
    """DISCONNECT with an expiry interval for a session without one is a protocol error (section 3.14.2.2.2)."""
    name = unique("c")
    with connected(address, 5, client_id=name) as client:
        client.send(b"\xe0\x07\0\x05\x11\0\0\0\x3c")
        last = client.expect_close()
        assert last is None or getattr(last, "reason_code", 0) == 0x82, last
    with WireClient(address, 5) as client:
        assert not client.connect(name, clean_start=False).session_present


# -- Session Present in a refusal


def test_session_present_is_0_when_refused(address: Address, version: int) -> None:
    """A CONNACK that refuses has Session Present 0, although there is a session."""
    with KeptSession(address, version) as session:
        session.connect().disconnect()
        with WireClient(address, version) as client:
            connack = refused(client, refusal(version, session.client_id, flags=0))
            assert connack is None or not connack.session_present
        session.connect().disconnect()


def test_reserved_acknowledge_flags(address: Address, version: int) -> None:
    """The reserved bits of the first byte of CONNACK are 0."""
    with KeptSession(address, version) as session:
        session.connect().close()
        properties = b"\x11\0\0\2\x58" if version == 5 else b""
        for expected in (1, 0):
            with WireClient(address, version) as client:
                flags = 0 if expected else 2
                client.send(connect(version, session.client_id, flags=flags, properties=properties))
                assert client.socket.recv(100)[2] == expected
