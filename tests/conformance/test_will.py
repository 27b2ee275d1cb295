"""The will: kept with the connection or session, and published when that ends (sections 3.1.2.5 and 3.1.3.2)."""

import time

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.connect import Will
from protocol.properties import Properties
from protocol.publish import Publish
from tests.conformance import by_hand
from tests.conformance.connecting import connect, refusal, refused, will
from tests.conformance.delivery import messages, payloads, unique
from tests.conformance.keep_alive import PATIENCE
from tests.conformance.sessions import LONG, let_pass
from tests.support.process import Address
from tests.support.wire import WireClient, connected

WILL_FLAGS = 0x06
"""Will and clean start."""

COARSE = 1.0
"""Seconds that a server may be early if its clock counts whole seconds."""


@pytest.fixture
def topic() -> str:
    """The will's topic."""
    return unique("will")


def with_will(address: Address, version: int, topic: str, name: str = "", **options: object) -> WireClient:
    """A client that has the will "gone" on this topic."""
    client = WireClient(address, version)
    wanted = Will(topic.encode(), b"gone")
    connack = client.connect(name or unique("c"), will=wanted, **options)  # type: ignore[arg-type]
    assert connack.reason_code == 0, connack
    return client


def delayed(topic: str, delay: int) -> Will:
    """A will "gone" that is delayed for so many seconds."""
    return Will(topic.encode(), b"gone", 0, False, {props.WILL_DELAY_INTERVAL: delay})


def expiring(seconds: int) -> Properties:
    """CONNECT properties of a session that is kept for so long."""
    return {props.SESSION_EXPIRY_INTERVAL: seconds}


def left(address: Address, version: int, topic: str) -> list[Publish]:
    """Return the messages that are retained on this topic, and remove them."""
    with connected(address, version) as client, connected(address, version) as publisher:
        client.subscribe(topic)
        found = messages(client, publisher)
        publisher.publish(topic, b"", retain=True)
    return found


# -- published at the end


@pytest.mark.parametrize("end", ["closed", "reset", "protocol error", "second connect"])
def test_published(address: Address, version: int, topic: str, end: str) -> None:
    """A connection that ends without DISCONNECT publishes its will, whichever side closed it."""
    with connected(address, version) as watcher:
        watcher.subscribe(topic)
        with with_will(address, version, topic) as client:
            if end == "closed":
                client.close()
            elif end == "reset":
                client.reset()
            elif end == "protocol error":
                client.send(by_hand.subscribe(version, 1, [(topic, 0)], first=0x80))  # without its flags
            else:
                client.send(connect(version, unique("c")))
            message = watcher.expect(Publish)
        assert (message.topic, message.payload) == (topic.encode(), b"gone")


def test_published_after_keep_alive(address: Address, version: int, topic: str) -> None:
    """A client that is silent beyond its keep-alive is disconnected, and its will is published."""
    with connected(address, version) as watcher, with_will(address, version, topic, keep_alive=1):
        watcher.timeout = PATIENCE
        watcher.subscribe(topic)
        assert watcher.expect(Publish).payload == b"gone"


def test_published_at_take_over(address: Address, version: int, topic: str) -> None:
    """A take-over publishes the will of the older connection."""
    name = unique("c")
    with connected(address, version) as watcher, with_will(address, version, topic, name):
        watcher.subscribe(topic)
        with connected(address, version, client_id=name):
            assert watcher.expect(Publish).payload == b"gone"


@pytest.mark.parametrize("payload", [b"", b"\0\1\xfe\xff", b"x" * 65_535])
def test_payload(address: Address, version: int, topic: str, payload: bytes) -> None:
    """The payload may be any bytes, or empty."""
    with connected(address, version) as watcher:
        watcher.subscribe(topic)
        with WireClient(address, version) as client:
            client.connect(unique("c"), will=Will(topic.encode(), payload))
        assert watcher.expect(Publish).payload == payload


def test_published_once(address: Address, version: int, topic: str) -> None:
    """A published will is removed: the next connection has none unless its CONNECT has one."""
    name = unique("c")
    with connected(address, version) as watcher, connected(address, version) as publisher:
        watcher.subscribe(topic)
        with_will(address, version, topic, name).close()
        assert watcher.expect(Publish).payload == b"gone"
        connected(address, version, client_id=name).close()
        with connected(address, version, client_id=name):
            assert messages(watcher, publisher) == []


def test_no_will(address: Address, version: int, topic: str) -> None:
    """A client without a will publishes none, whatever the connection before it had."""
    name = unique("c")
    with connected(address, version) as watcher, connected(address, version) as publisher:
        watcher.subscribe(topic)
        client = with_will(address, version, topic, name)
        client.send(b"\xe0\0")
        client.expect_close()
        client.close()
        connected(address, version, client_id=name).reset()
        with connected(address, version, client_id=name):
            assert messages(watcher, publisher) == []


def test_not_of_the_refused(address: Address, version: int, topic: str) -> None:
    """The will of a client that is refused is not published."""
    with connected(address, version) as watcher, connected(address, version) as publisher:
        watcher.subscribe(topic)
        with WireClient(address, version) as client:
            refused(client, refusal(version, unique("c"), will(version, topic, b"gone"), flags=WILL_FLAGS))
        assert messages(watcher, publisher) == []


# -- discarded by DISCONNECT


@pytest.mark.parametrize("data", [b"\xe0\0", b"\xe0\1\0", b"\xe0\2\0\0"])
def test_discarded(address: Address, version: int, topic: str, data: bytes) -> None:
    """DISCONNECT discards the will; in MQTT 5 with reason code 0."""
    with connected(address, version) as watcher, connected(address, version) as publisher:
        watcher.subscribe(topic)
        with with_will(address, version, topic) as client:
            client.send(data if version == 5 else b"\xe0\0")
            assert client.until_close() == []
        assert messages(watcher, publisher) == []


def test_discarded_delayed(address: Address, topic: str) -> None:
    """It discards a delayed will too."""
    name = unique("c")
    with connected(address, 5) as watcher, connected(address, 5) as publisher:
        watcher.subscribe(topic)
        with WireClient(address, 5) as client:
            client.connect(name, will=delayed(topic, 1), properties=expiring(LONG))
            client.send(b"\xe0\0")
            client.expect_close()
        let_pass(1 + COARSE)
        assert messages(watcher, publisher) == []
        connected(address, 5, client_id=name).disconnect()


@pytest.mark.parametrize("code", [reason_codes.DISCONNECT_WITH_WILL_MESSAGE, reason_codes.UNSPECIFIED_ERROR, 0x83])
def test_not_discarded(address: Address, topic: str, code: int) -> None:
    """A DISCONNECT with another reason code does not discard the will."""
    with connected(address, 5) as watcher:
        watcher.subscribe(topic)
        with with_will(address, 5, topic) as client:
            client.send(bytes([0xE0, 1, code]))
            assert watcher.expect(Publish).payload == b"gone"


# -- RETAIN


def test_not_retained(address: Address, version: int, topic: str) -> None:
    """A will without its retain flag is delivered to subscribers and not retained."""
    with connected(address, version) as watcher:
        watcher.subscribe(topic)
        with_will(address, version, topic).close()
        message = watcher.expect(Publish)
        assert (message.payload, message.retain) == (b"gone", False)
    assert left(address, version, topic) == []


def test_retained(address: Address, version: int, topic: str) -> None:
    """A will with its retain flag is retained, and delivered to subscribers like other messages."""
    with connected(address, version) as watcher:
        watcher.subscribe(topic)
        with WireClient(address, version) as client:
            client.connect(unique("c"), will=Will(topic.encode(), b"gone", 0, True))
        message = watcher.expect(Publish)
        assert (message.payload, message.retain) == (b"gone", False)
    assert [(message.payload, message.retain) for message in left(address, version, topic)] == [(b"gone", True)]


# -- delayed (MQTT 5)


def test_delay(address: Address, topic: str) -> None:
    """A delayed will is published when its delay has passed."""
    delay = 2
    with connected(address, 5) as watcher:
        watcher.subscribe(topic)
        client = WireClient(address, 5)
        name = unique("c")
        client.connect(name, will=delayed(topic, delay), properties=expiring(LONG))
        since = time.monotonic()
        client.close()
        assert watcher.expect(Publish).payload == b"gone"
        assert time.monotonic() - since > delay - COARSE
        connected(address, 5, client_id=name).disconnect()


def test_delay_beyond_the_session(address: Address, topic: str) -> None:
    """The end of the session publishes a will whose delay is longer."""
    with connected(address, 5) as watcher:
        watcher.subscribe(topic)
        with WireClient(address, 5) as client:
            client.connect(unique("c"), will=delayed(topic, LONG), properties=expiring(1))
        assert watcher.expect(Publish).payload == b"gone"


def test_delay_without_a_session(address: Address, topic: str) -> None:
    """If the session ends with the connection, the will is not delayed."""
    with connected(address, 5) as watcher:
        watcher.subscribe(topic)
        with WireClient(address, 5) as client:
            client.connect(unique("c"), will=delayed(topic, LONG))
        assert watcher.expect(Publish).payload == b"gone"


def test_back_before_the_delay(address: Address, topic: str) -> None:
    """The will of a client that resumes its session before the delay has passed is not published."""
    name = unique("c")
    with connected(address, 5) as watcher, connected(address, 5) as publisher:
        watcher.subscribe(topic)
        with WireClient(address, 5) as client:
            client.connect(name, will=delayed(topic, 1), properties=expiring(LONG))
        with connected(address, 5, client_id=name, clean_start=False, properties=expiring(LONG)) as client:
            let_pass(1 + COARSE)
            assert messages(watcher, publisher) == []
            client.disconnect(0, expiring(0))


def test_taken_over_before_the_delay(address: Address, topic: str) -> None:
    """Neither is that of a client that is taken over, if the session continues."""
    name = unique("c")
    with connected(address, 5) as watcher, connected(address, 5) as publisher, WireClient(address, 5) as older:
        watcher.subscribe(topic)
        older.connect(name, will=delayed(topic, 1), properties=expiring(LONG))
        with connected(address, 5, client_id=name, clean_start=False, properties=expiring(LONG)) as client:
            older.expect_close()
            let_pass(1 + COARSE)
            assert messages(watcher, publisher) == []
            client.disconnect(0, expiring(0))


@pytest.mark.parametrize("still_there", [False, True])
def test_back_with_a_clean_start(address: Address, topic: str, still_there: bool) -> None:
    """A clean start ends the session of a delayed will, which is published then."""
    name = unique("c")
    with connected(address, 5) as watcher, WireClient(address, 5) as client:
        watcher.subscribe(topic)
        client.connect(name, will=delayed(topic, LONG), properties=expiring(LONG))
        if not still_there:
            client.close()
        with connected(address, 5, client_id=name):
            assert watcher.expect(Publish).payload == b"gone"


def test_session_shortened(address: Address, topic: str) -> None:
    """If DISCONNECT ends the session at once, the delayed will is published at once."""
    with connected(address, 5) as watcher:
        watcher.subscribe(topic)
        with WireClient(address, 5) as client:
            client.connect(unique("c"), will=delayed(topic, LONG), properties=expiring(LONG))
            client.disconnect(reason_codes.DISCONNECT_WITH_WILL_MESSAGE, expiring(0))
        assert watcher.expect(Publish).payload == b"gone"


# -- its properties (MQTT 5)


def test_properties(address: Address, topic: str) -> None:
    """A will is delivered with its message properties, and without its delay."""
    described: Properties = {
        props.PAYLOAD_FORMAT_INDICATOR: 1,
        props.CONTENT_TYPE: "text/plain",
        props.RESPONSE_TOPIC: "answers",
        props.CORRELATION_DATA: b"\0\1",
    }
    with connected(address, 5) as watcher:
        watcher.subscribe(topic)
        with WireClient(address, 5) as client:
            wanted = Will(topic.encode(), b"gone", 0, False, described | {props.WILL_DELAY_INTERVAL: 0})
            client.connect(unique("c"), will=wanted)
        assert watcher.expect(Publish).properties == described


def test_order_of_user_properties(address: Address, topic: str) -> None:
    """User properties of a will keep their order, also where a name occurs twice."""
    pairs = [("z", "1"), ("a", "2"), ("z", "3"), ("", ""), ("m", "4"), ("a", "2")]
    with connected(address, 5) as watcher:
        watcher.subscribe(topic)
        with WireClient(address, 5) as client:
            client.connect(unique("c"), will=Will(topic.encode(), b"gone", 0, False, {props.USER_PROPERTY: pairs}))
        assert (watcher.expect(Publish).properties or {})[props.USER_PROPERTY] == pairs


def test_every_subscriber(address: Address, version: int, topic: str) -> None:
    """A will is delivered to all subscribers, at the QoS of each."""
    with connected(address, version) as one, connected(address, version) as other:
        one.subscribe(topic)
        other.subscribe(topic, qos=1)
        with WireClient(address, version) as client:
            client.connect(unique("c"), will=Will(topic.encode(), b"gone", 1))
        assert payloads([one.receive_message(), other.receive_message()]) == [b"gone", b"gone"]
