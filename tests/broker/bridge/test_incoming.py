"""What comes in by a bridge, also from a remote broker that means harm."""

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubrec, Pubrel
from protocol.connack import Connack
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe
from tests.broker.conftest import Start
from tests.support.broker.bridged import IN, OUT, Remote, RemoteConnection, bridge, publish
from tests.support.broker.restarting import KEPT
from tests.support.wire import WireClient, connected


def subscription(connection: RemoteConnection) -> Subscribe:
    """Accept the connection; returns the SUBSCRIBE."""
    connection.accept()
    packet = connection.expect(Subscribe)
    connection.send(Suback(packet.packet_id, [packet.subscriptions[0].qos]))
    return packet


def test_subscribe_asks_for_no_local_and_retain_as_published(start: Start, remote: Remote) -> None:
    """MQTT 5: what the bridge has sent does not come back, and retained messages say so."""
    start(sections=bridge(remote, IN))
    (asked,) = subscription(remote.next()).subscriptions
    assert (asked.topic_filter, asked.qos, asked.no_local, asked.retain_as_published) == ("in/#", 2, True, True)


@pytest.mark.parametrize("version", [5, 4])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_come_in_with_their_names_here(start: Start, remote: Remote, version: int, qos: int) -> None:
    """The remote prefix goes, the local one comes; each PUBLISH is acknowledged to the end of its exchange."""
    topic = {"filter": "t/#", "direction": "in", "local_prefix": "here/", "remote_prefix": "there/"}
    broker = start(sections=bridge(remote, topic, proto_ver="5" if version == 5 else "3.1.1"))
    connection = remote.next()
    subscription(connection)
    with connected(broker.address(), 5) as client:
        client.subscribe("#", qos=2)
        connection.send(Publish(b"there/t/1", b"hello", qos, False, None, 7 if qos else 0))
        if qos == 1:
            assert connection.expect(Puback).packet_id == 7
        elif qos == 2:
            connection.expect(Pubrec)
            connection.send(Pubrel(7))
        message = client.receive_message()
        assert (message.topic, message.payload, message.qos) == (b"here/t/1", b"hello", qos)


def test_qos_2_comes_in_once(start: Start, remote: Remote) -> None:
    """A PUBLISH that is sent again, on another connection of the same session, is not routed again."""
    broker = start(sections=bridge(remote, IN))
    connection = remote.accepted(filters=1)
    with connected(broker.address(), 5) as client:
        client.subscribe("#", qos=1)
        connection.send(Publish(b"in/1", b"once", 2, False, None, 9))
        connection.expect(Pubrec)
        connection.close()
        connection = remote.accepted(session_present=True, filters=1)
        connection.send(Publish(b"in/1", b"once", 2, False, None, 9, True))
        connection.expect(Pubrec)
        connection.send(Pubrel(9))
        connection.send(Publish(b"in/1", b"next", 2, False, None, 10))
        assert [client.receive_message().payload for _ in range(2)] == [b"once", b"next"]


def test_a_remote_broker_that_lost_its_session_may_use_its_ids_again(start: Start, remote: Remote) -> None:
    """Without Session Present a known packet id is of a new message: it is not taken for one that came again."""
    broker = start(sections=bridge(remote, IN))
    connection = remote.accepted(filters=1)
    with connected(broker.address(), 5) as client:
        client.subscribe("#", qos=1)
        connection.send(Publish(b"in/1", b"before", 2, False, None, 9))
        connection.expect(Pubrec)
        connection.close()
        connection = remote.accepted(session_present=False, filters=1)
        connection.send(Publish(b"in/1", b"after", 2, False, None, 9))
        connection.expect(Pubrec)
        assert [client.receive_message().payload for _ in range(2)] == [b"before", b"after"]


@pytest.mark.parametrize("qos", [1, 2])
def test_what_finds_no_room_here_stays_at_the_remote_broker(start: Start, remote: Remote, qos: int) -> None:
    """A full address is no refusal for good: the bridge disconnects without an acknowledgement, and comes again."""
    address = {"match": "in/#", "max_size_bytes": "1B", "full_policy": "fail"}
    broker = start(sections=bridge(remote, IN) | {"addresses": [address]})
    with connected(broker.address(), 5, client_id="away", properties=KEPT) as client:
        client.subscribe("in/#", qos=1)
    connection = remote.accepted(filters=1)
    connection.send(Publish(b"in/1", b"1", 1, packet_id=1))
    connection.expect(Puback)
    connection.send(Publish(b"in/1", b"2", qos, packet_id=2))
    assert connection.expect(Disconnect).reason_code == reason_codes.QUOTA_EXCEEDED
    remote.next()


def test_subscription_identifiers_end_at_the_bridge(start: Start, remote: Remote) -> None:
    """A remote broker may send Subscription Identifiers; a subscriber here gets its own."""
    broker = start(sections=bridge(remote, IN))
    connection = remote.accepted(filters=1)
    with connected(broker.address(), 5) as client:
        client.subscribe("in/#", properties={props.SUBSCRIPTION_IDENTIFIER: 5})
        connection.send(Publish(b"in/1", b"x", 0, False, {props.SUBSCRIPTION_IDENTIFIER: [77]}))
        message = client.receive_message()
        assert message.properties == {props.SUBSCRIPTION_IDENTIFIER: [5]}


def test_a_message_that_has_been_here_goes_no_further(start: Start, remote: Remote) -> None:
    """A ring of brokers: the path in the message names this one, and it is acknowledged and dropped."""
    broker = start(sections=bridge(remote, {"filter": "#", "direction": "both"}))
    connection = remote.accepted(filters=1)
    publish(broker, "x", b"round")
    (sent,) = connection.take(1)
    with connected(broker.address(), 5) as client:
        client.subscribe("#", qos=1)
        connection.send(Publish(b"x", b"round", 1, False, sent.properties, 3))
        assert connection.expect(Puback).packet_id == 3
        connection.send(Publish(b"x", b"other", 1, False, None, 4))
        assert client.receive_message().payload == b"other"


# -- a remote broker that means harm


@pytest.mark.parametrize("topic", [b"$SYS/broker/uptime", b"elsewhere/1"])
def test_what_was_not_asked_for_is_not_let_in(start: Start, remote: Remote, topic: bytes) -> None:
    """A remote broker cannot publish $SYS, nor a topic for which the bridge has not subscribed."""
    broker = start(sections=bridge(remote, {"filter": "in/#", "direction": "in"}))
    connection = remote.accepted(filters=1)
    with connected(broker.address(), 5) as client:
        client.subscribe("#", "$SYS/#", "in/#", qos=1)
        connection.send(Publish(topic, b"forged", 1, False, None, 3))
        connection.expect(Puback)
        connection.send(Publish(b"in/1", b"honest", 1, False, None, 4))
        while (message := client.receive_message()).topic.startswith(b"$SYS"):
            assert message.payload != b"forged"
        assert message.payload == b"honest"
    assert any("publish_refused" in line and "$bridge/up" in line for line in broker.stderr.splitlines())


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\xf0\x00",  # AUTH that was not asked for
        b"\x10\x0c\x00\x04MQTT\x05\x02\x00\x00\x00\x00\x00",  # CONNECT
        b"\x90\x04\x77\x77\x00\x01",  # SUBACK without SUBSCRIBE
        b"\x30\x04\x00\x09in",  # PUBLISH that is cut off
        b"\x3f\x00",
        b"\x30\xff\xff\xff\x7f",  # 256 MiB
        b"\xe0\x01\x8b",  # DISCONNECT
    ],
)
def test_a_broken_protocol_ends_the_connection_only(start: Start, remote: Remote, nonsense: bytes) -> None:
    """The bridge closes, says why under its name, and connects again; the broker goes on."""
    broker = start(sections=bridge(remote, IN, OUT))
    connection = remote.accepted(filters=1)
    connection.send(nonsense)
    connection.until_close()
    remote.accepted(filters=1)
    named = '"bridge": "up"'
    broker.wait_for_output(lambda lines: any("bridge_failed" in line and named in line for line in lines), "a reason")


@pytest.mark.parametrize(
    ("packet", "told"),
    [
        (Connack(False, 0), "a second CONNACK"),
        (Publish(b"in/1", b"", 0, False, {props.TOPIC_ALIAS: 99}), "Topic Alias 99; at most 10 is allowed"),
    ],
)
def test_the_log_does_not_take_the_remote_broker_for_a_client(
    start: Start, remote: Remote, packet: Packet, told: str
) -> None:
    """The log says what the remote broker does wrong, and nothing of a CONNACK that the bridge would have sent."""
    broker = start(sections=bridge(remote, IN))
    remote.accepted(filters=1).send(packet)
    broker.wait_for_output(lambda lines: any("bridge_failed" in line and told in line for line in lines), told)


def test_client_ids_of_bridges_are_reserved(start: Start, remote: Remote) -> None:
    """No client can take over the session of a bridge."""
    broker = start(sections=bridge(remote))
    with WireClient(broker.address(), 5) as client:
        assert client.connect("$bridge/up").reason_code == reason_codes.CLIENT_IDENTIFIER_NOT_VALID
