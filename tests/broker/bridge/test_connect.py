"""What a bridge says to a remote broker when it connects, and what it makes of the answer."""

import time
from typing import Any

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.disconnect import Disconnect
from protocol.ping import PINGREQ_BYTES, Pingresp
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe
from tests.broker.conftest import Start
from tests.support.broker.bridged import IN, Remote, bridge
from tests.support.wire import connected


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


def test_a_session_that_cannot_be_there_is_not_believed_in(start: Start, remote: Remote) -> None:
    """With clean_start a bridge subscribes each time, also if CONNACK says that a session has been kept."""
    start(sections=bridge(remote, IN, proto_ver="3.1.1", clean_start=True))
    for _ in range(2):
        connection = remote.accepted(session_present=True, filters=1)
        connection.send(Publish(b"in/1", b"", 1, packet_id=1))
        assert connection.expect(Puback).packet_id == 1
        connection.close()


@pytest.mark.parametrize("scheme", ["mqtt", "ws"])
def test_a_remote_broker_that_says_nothing_is_left(start: Start, remote: Remote, scheme: str) -> None:
    """Without CONNACK within connect_timeout the bridge closes, says so, and tries again; so does a WebSocket."""
    own = bridge(remote, address=f"{scheme}://{remote.address}")
    broker = start(sections=own | {"mqtt": {"connect_timeout": "1s"}})
    for _ in range(2):
        remote.silent()
    broker.wait_for_output(lambda lines: any("no CONNACK of the remote broker" in line for line in lines), "the reason")


def test_a_remote_broker_that_does_not_answer_subscribe_is_left(start: Start, remote: Remote) -> None:
    """Without SUBACK within connect_timeout the attempt has failed: the next one goes to the next address."""
    with Remote() as other:
        own = bridge(remote, IN, {"filter": "more/#", "direction": "in"}, address=[remote.address, other.address])
        broker = start(sections=own | {"mqtt": {"connect_timeout": "1s"}})
        remote.accepted(filters=1).until_close()
        told = "the remote broker has not answered SUBSCRIBE or UNSUBSCRIBE within mqtt.connect_timeout"
        broker.wait_for_output(lambda lines: any(told in line for line in lines), "the reason")
        other.accepted(filters=2)


def test_messages_before_suback_are_taken(start: Start, remote: Remote) -> None:
    """A remote broker may send many retained messages before SUBACK: while they come it is not left."""
    broker = start(sections=bridge(remote, IN) | {"mqtt": {"connect_timeout": "1s"}})
    connection = remote.accepted()
    packet = connection.expect(Subscribe)
    began = time.monotonic()
    with connected(broker.address(), 5) as client:
        client.subscribe("in/#")
        while time.monotonic() < began + 2.5:
            connection.send(Publish(b"in/1", b"", 0))
            client.expect(Publish)
    connection.send(Suback(packet.packet_id, [2]), Publish(b"in/1", b"", 1, packet_id=1))
    assert connection.expect(Puback).packet_id == 1


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


def test_an_idle_connection_stays(start: Start, remote: Remote) -> None:
    """Each PINGREQ is answered at once, and then nothing comes for half a keep-alive: that is no silence."""
    start(sections=bridge(remote, keepalive="1s"))
    connection = remote.accepted()
    for _ in range(5):
        assert connection.socket.recv(2) == PINGREQ_BYTES
        connection.send(Pingresp())


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
