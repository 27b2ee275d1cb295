"""Topic aliases that clients send."""

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from tests.support.process import Address
from tests.support.wire import WireClient, connected


def aliased(topic: str, alias: int, payload: bytes = b"x") -> Publish:
    """A PUBLISH with a topic alias."""
    return Publish(topic.encode(), payload, properties={props.TOPIC_ALIAS: alias})


def test_stands_for_its_topic(address: Address) -> None:
    """An alias stands for the topic that it was last sent with; each alias is separate [MQTT-3.3.2-12]."""
    with connected(address, 5) as watcher, connected(address, 5) as client:
        watcher.subscribe("alias/#")
        client.send(aliased("alias/a", 1), aliased("alias/b", 10), aliased("", 1), aliased("", 10))
        client.send(aliased("alias/c", 1), aliased("", 1))
        topics = [watcher.receive_message().topic for _ in range(6)]
        assert topics == [b"alias/a", b"alias/b", b"alias/a", b"alias/b", b"alias/c", b"alias/c"]


def test_is_not_passed_on(address: Address) -> None:
    """Subscribers get the topic, and not the publisher's alias."""
    with connected(address, 5) as watcher, connected(address, 4) as older, connected(address, 5) as client:
        watcher.subscribe("alias/on")
        older.subscribe("alias/on")
        client.send(aliased("alias/on", 3), aliased("", 3, b"y"))
        for receiver in (watcher, older):
            messages = [receiver.receive_message() for _ in range(2)]
            assert [(m.topic, m.payload, m.properties) for m in messages] == [
                (b"alias/on", b"x", None),
                (b"alias/on", b"y", None),
            ]


@pytest.mark.parametrize(
    ("packet", "reason_code"),
    [
        (aliased("alias/x", 11), reason_codes.TOPIC_ALIAS_INVALID),
        (aliased("alias/x", 65_535), reason_codes.TOPIC_ALIAS_INVALID),
        (aliased("", 5), reason_codes.PROTOCOL_ERROR),
    ],
    ids=["one too many", "largest", "unknown"],
)
def test_refused(address: Address, packet: Publish, reason_code: int) -> None:
    """An alias above the maximum in CONNACK, or one without a topic, ends the connection [MQTT-3.3.2-9]."""
    with connected(address, 5) as client:
        client.send(packet)
        last = client.expect_close()
        assert isinstance(last, Disconnect)
        assert last.reason_code == reason_code


def test_ends_with_the_connection(address: Address) -> None:
    """Aliases end with their connection, even if the session continues [MQTT-3.3.2-7]."""
    kept = {props.SESSION_EXPIRY_INTERVAL: 60}
    with WireClient(address, 5) as client:
        client.connect("alias-kept", properties=dict(kept))
        client.send(aliased("alias/x", 1))
        client.expect_nothing_more()
    with WireClient(address, 5) as client:
        assert client.connect("alias-kept", clean_start=False, properties=dict(kept)).session_present
        client.send(aliased("", 1))
        last = client.expect_close()
        assert isinstance(last, Disconnect)
        assert last.reason_code == reason_codes.PROTOCOL_ERROR
