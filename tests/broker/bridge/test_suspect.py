"""A message because of which the remote broker ends the connection: it is found, and no other one is given up."""

from pathlib import Path

import pytest

from protocol import reason_codes
from protocol.acknowledgements import Puback, Pubrec, Pubrel
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe
from tests.broker.conftest import Start
from tests.support.broker.admin import listed
from tests.support.broker.bridged import IN, OUT, Remote, RemoteConnection, bridge, publish
from tests.support.broker.events import wait_for_event
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

DROPS = {"drop_events": {"topic": "dropped/{reason}", "payload": "copy"}}
ROUNDS = 3
"""Connections that have to end before messages go one by one."""


def end(connection: RemoteConnection, code: int = reason_codes.PACKET_TOO_LARGE) -> list[Publish]:
    """Answer by DISCONNECT; returns the messages that have come meanwhile."""
    connection.send(Disconnect(code))
    return [packet for packet in connection.until_close() if isinstance(packet, Publish)]


def told(watcher: WireClient) -> tuple[bytes, bytes]:
    """Topic and payload of the next drop event."""
    message = watcher.receive_message()
    return message.topic, message.payload


@pytest.mark.parametrize(("qos", "code"), [(1, 0x95), (2, 0x99)])
def test_the_only_message_under_way_is_given_up(start: Start, remote: Remote, qos: int, code: int) -> None:
    """What the remote broker answers by DISCONNECT also when it comes alone is refused; what is behind it goes out."""
    broker = start(sections=bridge(remote) | DROPS)
    with connected(broker.address(), 5) as watcher:
        watcher.subscribe("dropped/#", qos=1)
        publish(broker, "out/1", b"bad", b"1", b"2", qos=qos)
        for _ in range(ROUNDS):
            connection = remote.accepted(session_present=True)
            assert connection.expect(Publish).payload == b"bad"
            end(connection, code)
        publish(broker, "out/1", b"3", qos=0)  # nothing may be sent beside the one that is looked at
        connection = remote.accepted(session_present=True)
        assert connection.expect(Publish).payload == b"bad"
        assert end(connection, code) == []
        assert told(watcher) == (b"dropped/refused", b"bad")
        rest = remote.accepted(session_present=True).take(3)
    assert [each.payload for each in rest] == [b"1", b"2", b"3"]
    broker.wait_for_output(lambda lines: any("bridge_refused" in each and "out/1" in each for each in lines), "the log")


def test_good_messages_before_it_are_not_given_up(start: Start, remote: Remote) -> None:
    """A remote broker may end the connection before it has acknowledged what came before the bad message."""
    broker = start(sections=bridge(remote) | DROPS)
    with connected(broker.address(), 5) as watcher:
        watcher.subscribe("dropped/#", qos=1)
        publish(broker, "out/1", b"1", b"bad", b"worse", b"2")
        for _ in range(ROUNDS):
            connection = remote.accepted(session_present=True)
            while connection.expect(Publish).payload != b"worse":
                pass
            end(connection)
        connection = remote.accepted(session_present=True)
        assert [each.payload for each in connection.take(1)] == [b"1"]
        assert connection.expect(Publish).payload == b"bad"
        assert end(connection) == []
        connection = remote.accepted(session_present=True)  # one by one again: a good one would end this at once
        assert connection.expect(Publish).payload == b"worse"
        assert end(connection) == []
        assert [told(watcher)[1] for _ in range(2)] == [b"bad", b"worse"]
        assert [each.payload for each in remote.accepted(session_present=True).take(1)] == [b"2"]


def test_what_is_acknowledged_ends_the_search(start: Start, remote: Remote) -> None:
    """A remote broker that takes messages between its DISCONNECTs gets all of them at once, and none is given up."""
    broker = start(sections=bridge(remote) | DROPS)
    publish(broker, "out/1", *[b"%d" % number for number in range(8)])
    for number in range(6):
        connection = remote.accepted(session_present=True)
        first = connection.expect(Publish)
        connection.send(Puback(first.packet_id))
        assert first.payload == b"%d" % number
        assert connection.expect(Publish).payload == b"%d" % (number + 1)
        end(connection)
    assert [each.payload for each in remote.accepted(session_present=True).take(2)] == [b"6", b"7"]


def test_other_codes_give_up_nothing(start: Start, remote: Remote) -> None:
    """A DISCONNECT that need not be about a message proves nothing, however often it comes."""
    broker = start(sections=bridge(remote) | DROPS)
    publish(broker, "out/1", b"1")
    for code in (0x80, 0x81, 0x82, 0x83, 0x8B, 0x93, 0x97):
        connection = remote.accepted(session_present=True)
        connection.expect(Publish)
        end(connection, code)
    assert [each.payload for each in remote.accepted(session_present=True).take(1)] == [b"1"]


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_a_connection_that_just_closes_gives_up_nothing(start: Start, remote: Remote, version: str) -> None:
    """A remote broker that crashes again and again loses no message; the log says which one it gets each time."""
    broker = start(sections=bridge(remote, proto_ver=version))
    publish(broker, "out/1", b"12345")
    for _ in range(ROUNDS + 2):
        connection = remote.accepted(session_present=True)
        connection.expect(Publish)
        connection.close()
    broker.wait_for_output(
        lambda lines: any(
            "bridge_stuck" in line and '"topic": "out/1"' in line and '"size": 5' in line and '"connections": 3' in line
            for line in lines
        ),
        "bridge_stuck",
    )
    assert [each.payload for each in remote.accepted(session_present=True).take(1)] == [b"12345"]


def until_message(connection: RemoteConnection) -> Publish:
    """Answer SUBSCRIBEs until a message of the topic comes."""
    while True:
        packet = connection.receive()
        if isinstance(packet, Subscribe):
            connection.send(Suback(packet.packet_id, [2]))
        elif isinstance(packet, Publish) and packet.topic == b"out/1":
            return packet


def test_what_goes_before_the_messages_is_not_laid_upon_them(start: Start, remote: Remote) -> None:
    """If the state's PUBLISH or a SUBSCRIBE ends the connection, the message that waits behind it is kept."""
    broker = start(sections=bridge(remote, OUT, IN, state_topic="state"))
    publish(broker, "out/1", b"good")
    for _ in range(ROUNDS):
        connection = remote.accepted(session_present=True)
        until_message(connection)
        end(connection)
    for filters in (0, 0, 1):  # without SUBACK, and when that is there without PINGRESP
        connection = remote.accepted(session_present=True)
        assert connection.expect(Publish).topic == b"state"
        packet = connection.expect(Subscribe)
        connection.send(*[Suback(packet.packet_id, [2])] * filters, Disconnect(reason_codes.RETAIN_NOT_SUPPORTED))
        assert not any(isinstance(packet, Publish) for packet in connection.until_close())
    message = until_message(remote.accepted(session_present=True))
    assert message.payload == b"good"


def test_a_message_that_was_taken_is_not_given_up(start: Start, remote: Remote) -> None:
    """QoS 2: after PUBREC the remote broker has the message, whatever it says afterwards."""
    broker = start(sections=bridge(remote))
    publish(broker, "out/1", b"1", qos=2)
    connection = remote.accepted()
    connection.send(Pubrec(connection.expect(Publish).packet_id))
    for _ in range(ROUNDS + 2):
        connection.expect(Pubrel)
        end(connection)
        connection = remote.accepted(session_present=True)
    connection.expect(Pubrel)


def test_the_status_says_it(start: Start, remote: Remote, tmp_path: Path) -> None:
    """What operators see of a bridge names the message with which its connections end."""
    socket = tmp_path / "a.sock"
    broker = start(sections=bridge(remote, reconnect_max="100ms") | {"admin": {"socket": str(socket)}})
    wait_for_event(broker, "admin_socket")
    publish(broker, "out/1", b"12345")
    for _ in range(ROUNDS):
        connection = remote.accepted(session_present=True)
        connection.expect(Publish)
        connection.close()
    told = "3 connections in a row have ended with the same message unacknowledged: 'out/1', 5 bytes"
    wait_until(lambda: told in (listed(socket, "bridges")["items"][0]["failure"] or ""), "the status")
