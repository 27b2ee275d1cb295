"""Sessions over time, on a clock that the test sets: expiry, wills, resending."""

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.properties import Properties
from protocol.publish import Publish
from tests.support.broker.local import LocalBroker, LocalClient

FOR_EVER = 0xFFFFFFFF


def expiring(seconds: int) -> Properties:
    """CONNECT properties that ask for a session which outlives its connection."""
    return {props.SESSION_EXPIRY_INTERVAL: seconds}


def delayed_will(seconds: int) -> Will:
    """A will that waits for `seconds`."""
    return Will(b"will", b"gone", 0, False, {props.WILL_DELAY_INTERVAL: seconds})


def watcher(local: LocalBroker, topic_filter: str) -> LocalClient:
    """A client that is subscribed and stays."""
    client = local.client(5)
    client.connect("watcher")
    client.subscribe(topic_filter)
    return client


def payloads(packets: list[Packet]) -> list[bytes]:
    """The payloads of the PUBLISHes among them."""
    return [packet.payload for packet in packets if isinstance(packet, Publish)]


def deliveries(client: LocalClient) -> list[tuple[bytes, bool]]:
    """Payload and DUP of the PUBLISHes that have come."""
    return [(packet.payload, packet.dup) for packet in client.received() if isinstance(packet, Publish)]


# -- expiry


def test_session_expires() -> None:
    """A session ends when its expiry interval has passed, not before [MQTT5 3.1.2.11.2]."""
    with LocalBroker() as local:
        client = local.client(5)
        client.connect("kept", properties=expiring(100))
        client.drop()
        local.pass_time(99)
        client = local.client(5)
        assert client.connect("kept", clean_start=False, properties=expiring(100)).session_present
        client.drop()
        local.pass_time(202)
        assert not local.broker.clients
        assert not local.client(5).connect("kept", clean_start=False).session_present


def test_an_older_expiry_does_not_end_a_newer_one() -> None:
    """A reconnect starts the expiry interval anew; the earlier one has no effect."""
    with LocalBroker() as local:
        client = local.client(5)
        client.connect("kept", properties=expiring(5))
        client.drop()
        client = local.client(5)
        client.connect("kept", clean_start=False, properties=expiring(100))
        local.pass_time(6)
        assert not client.gone
        client.drop()
        local.pass_time(90)
        assert "kept" in local.broker.clients.by_id


def test_session_for_ever() -> None:
    """A session with an expiry interval of 0xFFFFFFFF does not end [MQTT5 3.1.2.11.2]."""
    with LocalBroker() as local:
        client = local.client(5)
        client.connect("kept", properties=expiring(FOR_EVER))
        client.drop()
        local.pass_time(86_400)
        assert local.client(5).connect("kept", clean_start=False).session_present


def test_v4_session_expires() -> None:
    """A 3.1.1 session without clean session lives for the configured time, fractions of seconds included."""
    with LocalBroker(mqtt={"session_expiry_interval": 0.5}) as local:
        client = local.client(4)
        client.connect("kept", clean_start=False)
        client.drop()
        assert "kept" in local.broker.clients.by_id
        local.pass_time(1.3)
        assert "kept" not in local.broker.clients.by_id


def test_expiry_is_capped() -> None:
    """max_session_expiry_interval caps the intervals of CONNECT (CONNACK has it) and DISCONNECT (section 3.2.2.3.2)."""
    with LocalBroker(mqtt={"max_session_expiry_interval": 50.0}) as local:
        client = local.client(5)
        connack = client.connect("kept", properties=expiring(100))
        assert connack.properties is not None
        assert connack.properties[props.SESSION_EXPIRY_INTERVAL] == 50
        client.send(Disconnect(0, expiring(FOR_EVER)))
        local.pass_time(52)
        assert not local.broker.clients


def test_disconnect_changes_expiry() -> None:
    """DISCONNECT may set another expiry interval; with 0 the session ends at once."""
    with LocalBroker() as local:
        client = local.client(5)
        client.connect("kept", properties=expiring(100))
        client.send(Disconnect(0, expiring(0)))
        assert not local.broker.clients


def test_disconnect_cannot_give_an_expiry() -> None:
    """A DISCONNECT with an expiry after a CONNECT with 0 is a protocol error (section 3.14.2.2.2)."""
    with LocalBroker() as local:
        seen = watcher(local, "will")
        client = local.client(5)
        client.connect("short", will=Will(b"will", b"gone", 0, False, None))
        client.send(Disconnect(0, expiring(100)))
        assert client.expect(Disconnect).reason_code == reason_codes.PROTOCOL_ERROR
        assert seen.expect(Publish).payload == b"gone"
        assert "short" not in local.broker.clients.by_id


def test_disconnect_repeats_what_was_not_given() -> None:
    """A client that asked for an expiry may name one in DISCONNECT, even if it was capped to 0 (section 3.14.2.2.2)."""
    with LocalBroker(mqtt={"max_session_expiry_interval": 0.0}) as local:
        seen = watcher(local, "will")
        client = local.client(5)
        client.connect("short", will=Will(b"will", b"gone", 0, False, None), properties=expiring(100))
        client.send(Disconnect(0, expiring(50)))
        assert client.gone
        assert client.received() == []
        assert seen.received() == []
        assert not local.broker.clients.get("short")


# -- wills


def test_will_delay() -> None:
    """A delayed will is published after its delay [MQTT-3.1.2-8]."""
    with LocalBroker() as local:
        seen = watcher(local, "will")
        client = local.client(5)
        client.connect("c", will=delayed_will(50), properties=expiring(100))
        client.drop()
        local.pass_time(49)
        assert seen.received() == []
        local.pass_time(2)
        will = seen.expect(Publish)
        assert will.payload == b"gone"
        assert will.properties is None
        local.pass_time(100)
        assert seen.received() == []


def test_will_is_cancelled_by_coming_back() -> None:
    """A reconnect before the delay is over cancels the will [MQTT-3.1.3-9]."""
    with LocalBroker() as local:
        seen = watcher(local, "will")
        client = local.client(5)
        client.connect("c", will=delayed_will(50), properties=expiring(100))
        client.drop()
        client = local.client(5)
        assert client.connect("c", clean_start=False, properties=expiring(100)).session_present
        local.pass_time(60)
        assert seen.received() == []


@pytest.mark.parametrize("how", ["expiry", "clean start"])
def test_will_at_the_end_of_the_session(how: str) -> None:
    """The end of the session publishes the will, however long its delay is [MQTT5 3.1.3.2.2]."""
    with LocalBroker() as local:
        seen = watcher(local, "will")
        client = local.client(5)
        client.connect("c", will=delayed_will(1000), properties=expiring(100))
        client.drop()
        assert seen.received() == []
        if how == "expiry":
            local.pass_time(102)
        else:
            assert not local.client(5).connect("c").session_present
        assert payloads(seen.received()) == [b"gone"]
        local.pass_time(2000)
        assert seen.received() == []


@pytest.mark.parametrize("version", [4, 5])
def test_will_with_too_many_levels(version: int) -> None:
    """A CONNECT with a will topic that has too many levels is refused."""
    with LocalBroker(mqtt={"max_topic_levels": 3}) as local:
        client = local.client(version)
        client.send(Connect("c", will=Will(b"a/b/c/d", b"gone", 0, False, None), version=version))
        assert client.gone
        answer = client.received()
        if version == 5:
            assert isinstance(answer[0], Connack)
            assert answer[0].reason_code == reason_codes.TOPIC_NAME_INVALID
        else:
            assert answer == []


# -- resending


def test_resending_goes_on_after_a_reconnect() -> None:
    """FC-8: after a reconnect the window of a silent 3.1.1 client is resent at each retry_interval."""
    with LocalBroker(session={"retry_interval": 20.0}) as local:
        client = local.client(4)
        client.connect("kept", clean_start=False)
        client.subscribe("t", 1)
        client.drop()
        local.pass_time(100)
        sender = local.client(4)
        sender.connect("sender")
        sender.send(Publish(b"t", b"x", 1, packet_id=1))
        client = local.client(4)
        client.send(Connect("kept", False, version=4))
        assert deliveries(client) == [(b"x", False)]
        for _ in range(3):
            local.pass_time(21)
            assert deliveries(client) == [(b"x", True)]
