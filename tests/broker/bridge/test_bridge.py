"""One bridge, and a remote broker that does what the test says."""

from typing import Any

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubrec, Pubrel
from protocol.connack import Connack
from protocol.disconnect import Disconnect
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe
from tests.broker.conftest import Start
from tests.support.broker.bridged import SOON, Remote, RemoteConnection
from tests.support.broker.restarting import KEPT
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

OUT: dict[str, Any] = {"filter": "out/#"}
IN: dict[str, Any] = {"filter": "in/#", "direction": "in"}
REFUSED = (reason_codes.NOT_AUTHORIZED, reason_codes.TOPIC_NAME_INVALID, reason_codes.UNSPECIFIED_ERROR)


def bridge(remote: Remote, *topics: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """The section `bridges` with one of them."""
    own = {"name": "up", "address": remote.address, "topics": list(topics) or [OUT]}
    return {"bridges": [own | SOON | keys]}


def publish(broker: BrokerProcess, topic: str, *payloads: bytes, qos: int = 1, version: int = 5, **more: Any) -> None:
    """Publish here."""
    with connected(broker.address(), version) as client:
        for payload in payloads:
            client.publish(topic, payload, qos, **more)


def user_properties(publish: Publish) -> list[tuple[str, str]]:
    """Those of a message, but for the path that tells loops."""
    found = (publish.properties or {}).get(props.USER_PROPERTY, [])
    return [pair for pair in found if isinstance(pair, tuple) and pair[0] != "sluice-via"]  # type: ignore[union-attr]


# -- CONNECT


def test_what_connect_says(start: Start, remote: Remote) -> None:
    """CONNECT has the node's and the bridge's name, asks for the kept session, and states our limits."""
    start(sections=bridge(remote, keepalive="30s"))
    connect = remote.next().connect
    assert (connect.client_id, connect.version, connect.clean_start, connect.keep_alive) == ("test-up", 5, False, 30)
    assert connect.properties is not None
    assert connect.properties[props.SESSION_EXPIRY_INTERVAL] == 0xFFFFFFFF
    assert connect.properties[props.RECEIVE_MAXIMUM] == 65_535
    assert connect.properties[props.MAXIMUM_PACKET_SIZE] == 1024 * 1024


def test_a_bridge_of_3_1_1_says_that_it_is_one(start: Start, remote: Remote) -> None:
    """Protocol level 0x84 keeps the remote broker from sending back what it gets; brokers without it get 4."""
    start(sections=bridge(remote, proto_ver="3.1.1"))
    first = remote.next()
    assert first.connect.bridge
    first.send(Connack(False, 1))
    assert not remote.next().connect.bridge


def test_subscriptions_that_are_not_confirmed_are_asked_for_again(start: Start, remote: Remote) -> None:
    """MQTT 3.1.1: a connection that breaks before SUBACK, or a SUBACK that refuses, leaves nothing unsubscribed."""
    start(sections=bridge(remote, IN, proto_ver="3.1.1"))
    connection = remote.accepted()
    connection.expect(Subscribe)
    connection.close()
    connection = remote.accepted(session_present=True)
    connection.send(Suback(connection.expect(Subscribe).packet_id, [0x80]))
    connection.close()
    remote.accepted(session_present=True, filters=1).close()
    connection = remote.accepted(session_present=True)
    connection.send(Publish(b"in/1", b"", 1, packet_id=1))
    assert connection.expect(Puback).packet_id == 1  # a SUBSCRIBE would bring the retained messages again


@pytest.mark.parametrize("scheme", ["mqtt", "ws"])
def test_a_remote_broker_that_says_nothing_is_left(start: Start, remote: Remote, scheme: str) -> None:
    """Without CONNACK within connect_timeout the bridge closes, says so, and tries again; so does a WebSocket."""
    own = bridge(remote, address=f"{scheme}://{remote.address}")
    broker = start(sections=own | {"mqtt": {"connect_timeout": "1s"}})
    for _ in range(2):
        remote.silent()
    broker.wait_for_output(lambda lines: any("no CONNACK of the remote broker" in line for line in lines), "the reason")


def test_the_log_says_who_closed(start: Start, remote: Remote) -> None:
    """A connection that the remote broker closes without a word is not said to be closed by a client."""
    broker = start(sections=bridge(remote))
    remote.accepted().close()
    told = "closed by the remote broker"
    broker.wait_for_output(lambda lines: sum(told in line for line in lines) == 2, "the reason, in both lines")


def test_a_remote_broker_that_takes_bridges_is_told_each_time(start: Start, remote: Remote) -> None:
    """A proxy that closes while the broker behind it is away does not make the bridge hide what it is."""
    start(sections=bridge(remote, proto_ver="3.1.1"))
    remote.accepted().close()
    for _ in range(3):
        connection = remote.next()
        assert connection.connect.bridge
        connection.close()


def test_a_longer_server_keep_alive_changes_nothing(start: Start, remote: Remote) -> None:
    """The remote broker cannot make the bridge notice later that it is silent."""
    broker = start(sections=bridge(remote, keepalive="1s"))
    remote.next().send(Connack(False, 0, {props.SERVER_KEEP_ALIVE: 65_535}))
    broker.wait_for_output(lambda lines: any("within the keep-alive" in line for line in lines), "the end")


def test_user_name_and_password_are_sent(start: Start, remote: Remote, tmp_path: Any) -> None:
    """The password is what the file holds at the time of the connection, without the end of the line."""
    file = tmp_path / "password"
    file.write_text("first\n")
    start(sections=bridge(remote, username="me", password_file=str(file)))
    connection = remote.next()
    assert (connection.connect.username, connection.connect.password) == ("me", b"first")
    file.write_text("second")
    connection.close()
    assert remote.next().connect.password == b"second"


def test_a_password_that_mqtt_cannot_have_is_told(start: Start, remote: Remote, tmp_path: Any) -> None:
    """A file that is too long for a password is an attempt that fails with its name."""
    file = tmp_path / "password"
    file.write_text("x" * 65_536)
    broker = start(sections=bridge(remote, username="me", password_file=str(file)))
    told = "has 65536 bytes: a password has at most 65535"
    broker.wait_for_output(lambda lines: any(told in line and str(file) in line for line in lines), "the reason")


def test_tokens_in_an_address_are_not_told(start: Start, remote: Remote) -> None:
    """What stands in the query of a WebSocket's address may be a secret."""
    broker = start(sections=bridge(remote, address=f"ws://{remote.address}/mqtt?token=secret"))
    silent = remote.silent()
    assert b"GET /mqtt?token=secret" in silent.recv(65_536)
    silent.close()
    broker.wait_for_output(lambda lines: any("mqtt?token=***" in line for line in lines), "the address")
    assert "secret" not in broker.stderr


def test_a_refusal_is_told_and_tried_again(start: Start, remote: Remote) -> None:
    """The log says why the remote broker does not let the bridge in, with its Reason String."""
    broker = start(sections=bridge(remote))
    why: Properties = {props.REASON_STRING: "who are you"}
    remote.next().send(Connack(False, reason_codes.BAD_USER_NAME_OR_PASSWORD, why))
    remote.accepted()
    broker.wait_for_output(lambda lines: any("bridge_connected" in line for line in lines), "bridge_connected")
    told = next(line for line in broker.stderr.splitlines() if "bridge_failed" in line)
    assert "Bad user name or password (who are you)" in told


def test_the_state_is_published(start: Start, remote: Remote) -> None:
    """With `state_topic` the remote broker has a retained 1, and a will that says 0."""
    start(sections=bridge(remote, state_topic="site/state"))
    connection = remote.next()
    will = connection.connect.will
    assert will is not None
    assert (will.topic, will.payload, will.retain) == (b"site/state", b"0", True)
    connection.accept()
    state = connection.expect(Publish)
    assert (state.topic, state.payload, state.retain) == (b"site/state", b"1", True)


def test_a_bridge_that_stops_leaves_its_will(start: Start, remote: Remote) -> None:
    """When the broker stops in order the remote broker publishes the 0: DISCONNECT says 0x04."""
    broker = start(sections=bridge(remote, state_topic="site/state"))
    connection = remote.accepted()
    broker.ask_to_end()
    assert isinstance(last := connection.until_close()[-1], Disconnect)
    assert last.reason_code == reason_codes.DISCONNECT_WITH_WILL_MESSAGE


# -- what goes out


@pytest.mark.parametrize("version", ["5", "3.1.1"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_go_out_with_their_names_there(start: Start, remote: Remote, version: str, qos: int) -> None:
    """The local prefix goes, the remote one comes; QoS and RETAIN stay."""
    topic = {"filter": "t/#", "local_prefix": "here/", "remote_prefix": "there/"}
    broker = start(sections=bridge(remote, topic, proto_ver=version))
    connection = remote.accepted()
    publish(broker, "here/t/1", b"hello", qos=qos, retain=True)
    (message,) = connection.take(1)
    assert (message.topic, message.payload, message.qos, message.retain) == (b"there/t/1", b"hello", qos, True)


def test_properties_go_through(start: Start, remote: Remote) -> None:
    """User properties, expiry, content type and correlation data stay; the response topic is mapped."""
    answers = {"filter": "answers/#", "direction": "in", "local_prefix": "far/"}
    broker = start(sections=bridge(remote, OUT, answers))
    connection = remote.accepted(filters=1)
    properties: Properties = {
        props.USER_PROPERTY: [("a", "1"), ("a", "2")],
        props.MESSAGE_EXPIRY_INTERVAL: 100,
        props.CONTENT_TYPE: "text/plain",
        props.CORRELATION_DATA: b"7",
        props.RESPONSE_TOPIC: "far/answers/7",
    }
    publish(broker, "out/1", b"ask", properties=properties)
    (message,) = connection.take(1)
    assert message.properties is not None
    assert user_properties(message) == [("a", "1"), ("a", "2")]
    assert 98 <= props.integer(message.properties, props.MESSAGE_EXPIRY_INTERVAL) <= 100
    assert message.properties[props.CONTENT_TYPE] == "text/plain"
    assert message.properties[props.CORRELATION_DATA] == b"7"
    assert message.properties[props.RESPONSE_TOPIC] == "answers/7"


def test_what_waits_during_an_outage_goes_out_in_order(start: Start, remote: Remote) -> None:
    """A bridge whose remote broker is not there keeps what is published, also before the first connection."""
    broker = start(sections=bridge(remote))
    first = remote.next()  # not accepted
    publish(broker, "out/1", b"1", b"2")
    first.close()
    connection = remote.accepted()
    assert [each.payload for each in connection.take(2)] == [b"1", b"2"]
    connection.close()
    publish(broker, "out/1", b"3", b"4", b"5")
    assert [each.payload for each in remote.accepted(session_present=True).take(3)] == [b"3", b"4", b"5"]


def test_what_has_expired_does_not_go_out(start: Start, remote: Remote) -> None:
    """The Message Expiry Interval runs while the remote broker is away."""
    broker = start(sections=bridge(remote))
    first = remote.next()  # not accepted
    for seconds in (1, 100):
        publish(broker, "out/1", b"%d" % seconds, properties={props.MESSAGE_EXPIRY_INTERVAL: seconds})
    publish(broker, "clock", b"x", retain=True, properties={props.MESSAGE_EXPIRY_INTERVAL: 1})
    with connected(broker.address(), 5) as client:
        wait_until(lambda: not _is_retained(client, "clock"), "a second to pass")
    first.close()
    assert [each.payload for each in remote.accepted().take(1)] == [b"100"]


def _is_retained(client: WireClient, topic: str) -> bool:
    """Whether a topic has a retained message."""
    client.subscribe(topic, "end")
    client.publish("end")
    topics: list[bytes] = []
    while b"end" not in topics:
        topics.append(client.expect(Publish).topic)
    return topic.encode() in topics


def test_the_window_is_the_remote_brokers_receive_maximum(start: Start, remote: Remote) -> None:
    """FC-1: no more is unacknowledged than the remote broker's CONNACK allows."""
    broker = start(sections=bridge(remote))
    connection = remote.accepted(properties={props.RECEIVE_MAXIMUM: 2})
    publish(broker, "out/1", *[b"%d" % number for number in range(5)])
    first, second = connection.expect(Publish), connection.expect(Publish)
    connection.send(Puback(first.packet_id))
    third = connection.expect(Publish)  # not before the first is acknowledged: these are all
    assert [each.payload for each in (first, second, third)] == [b"0", b"1", b"2"]


def test_a_lower_maximum_qos_is_kept_to(start: Start, remote: Remote) -> None:
    """A remote broker with Maximum QoS 1 gets at QoS 1 what has QoS 2, and RETAIN only if it can retain."""
    broker = start(sections=bridge(remote))
    connection = remote.accepted(properties={props.MAXIMUM_QOS: 1, props.RETAIN_AVAILABLE: 0})
    publish(broker, "out/1", b"exactly", qos=2, retain=True)
    (message,) = connection.take(1)
    assert (message.payload, message.qos, message.retain) == (b"exactly", 1, False)


def test_what_is_too_large_under_its_name_there_is_not_sent(start: Start, remote: Remote) -> None:
    """The remote broker's Maximum Packet Size is about the packet that it gets, with the longer name and the path."""
    topic = {"filter": "out/#", "remote_prefix": "a/long/prefix/"}
    broker = start(sections=bridge(remote, topic) | {"drop_events": {"topic": "dropped/{reason}"}})
    connection = remote.accepted(properties={props.MAXIMUM_PACKET_SIZE: 100})
    with connected(broker.address(), 5) as watcher:
        watcher.subscribe("dropped/#", qos=1)
        publish(broker, "out/1", b"x" * 80, b"y" * 20)
        assert [each.payload for each in connection.take(1)] == [b"y" * 20]
        assert watcher.receive_message().topic == b"dropped/too_large"


def test_retain_can_be_left_out(start: Start, remote: Remote) -> None:
    """With `outgoing_retain: false` nothing is retained at a remote broker that does not take it."""
    broker = start(sections=bridge(remote, outgoing_retain=False, state_topic="state"))
    connection = remote.accepted()
    assert connection.connect.will is not None
    assert not connection.connect.will.retain
    assert not connection.expect(Publish).retain
    publish(broker, "out/1", b"x", retain=True)
    assert [each.retain for each in connection.take(1)] == [False]


@pytest.mark.parametrize("code", REFUSED)
@pytest.mark.parametrize("qos", [1, 2])
def test_what_is_refused_for_good_does_not_block(start: Start, remote: Remote, qos: int, code: int) -> None:
    """A message that the remote broker refuses is told, and what is behind it goes out."""
    broker = start(sections=bridge(remote) | {"drop_events": {"topic": "dropped/{reason}"}})
    connection = remote.accepted(properties={props.RECEIVE_MAXIMUM: 1})
    with connected(broker.address(), 5) as watcher:
        watcher.subscribe("dropped/#", qos=1)
        publish(broker, "out/1", b"bad", b"good", qos=qos)
        message = connection.expect(Publish)
        connection.send((Puback if qos == 1 else Pubrec)(message.packet_id, code))
        assert [each.payload for each in connection.take(1)] == [b"good"]
        assert watcher.receive_message().topic == b"dropped/refused"
    broker.wait_for_output(lambda lines: any("bridge_refused" in line for line in lines), "bridge_refused")


@pytest.mark.parametrize("qos", [1, 2])
def test_what_finds_no_room_is_sent_again(start: Start, remote: Remote, qos: int) -> None:
    """0x97 is no refusal for good: the bridge connects again later, and sends the same message."""
    broker = start(sections=bridge(remote))
    connection = remote.accepted()
    publish(broker, "out/1", b"one", b"two", qos=qos)
    message = connection.expect(Publish)
    connection.send((Puback if qos == 1 else Pubrec)(message.packet_id, reason_codes.QUOTA_EXCEEDED))
    connection.until_close()
    again = remote.accepted(session_present=True).take(2)
    assert [each.payload for each in again] == [b"one", b"two"]


def test_qos_2_goes_on_where_it_was(start: Start, remote: Remote) -> None:
    """After PUBREC a broken connection continues with PUBREL, not with a second PUBLISH."""
    broker = start(sections=bridge(remote))
    connection = remote.accepted()
    publish(broker, "out/1", b"once", qos=2)
    message = connection.expect(Publish)
    connection.send(Pubrec(message.packet_id))
    assert connection.expect(Pubrel).packet_id == message.packet_id
    connection.close()
    assert remote.accepted(session_present=True).expect(Pubrel).packet_id == message.packet_id


# -- what comes in


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


def test_client_ids_of_bridges_are_reserved(start: Start, remote: Remote) -> None:
    """No client can take over the session of a bridge."""
    broker = start(sections=bridge(remote))
    with WireClient(broker.address(), 5) as client:
        assert client.connect("$bridge/up").reason_code == reason_codes.CLIENT_IDENTIFIER_NOT_VALID
