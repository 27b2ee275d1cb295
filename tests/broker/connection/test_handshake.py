"""CONNECT to DISCONNECT over sockets: the content of CONNACK, kept sessions, client ids, take-over."""

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect, Will
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.ping import Pingreq, Pingresp
from protocol.properties import Properties
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.support.broker.local import LocalBroker
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

KEPT: Properties = {props.SESSION_EXPIRY_INTERVAL: 60}


def kept(version: int) -> Properties | None:
    """CONNECT properties for a session that outlives its connection; 3.1.1 says so with its clean session flag."""
    return dict(KEPT) if version == 5 else None


# -- CONNACK


def test_connack_v5(address: Address) -> None:
    """FC-20: CONNACK has the limits that differ from the standard's defaults, and no other properties."""
    with WireClient(address, 5) as client:
        connack = client.connect("limits")
    assert (connack.session_present, connack.reason_code) == (False, 0)
    assert connack.properties == {
        props.MAXIMUM_PACKET_SIZE: 1024 * 1024,
        props.TOPIC_ALIAS_MAXIMUM: 10,
    }


def test_receive_maximum_is_a_knob_of_its_own() -> None:
    """FC-20: CONNACK has `receive_maximum`, whatever the window towards the client is."""
    with LocalBroker(session={"receive_maximum": 7, "max_inflight": 9}) as local:
        connack = local.client(5).connect("c")
        assert (connack.properties or {})[props.RECEIVE_MAXIMUM] == 7


def test_connack_v4(address: Address) -> None:
    """A 3.1.1 CONNACK is four bytes."""
    with WireClient(address, 4) as client:
        client.send(Connect("plain", True, version=4))
        assert client.socket.recv(100) == b"\x20\x02\x00\x00"


def test_assigned_client_id(address: Address) -> None:
    """An MQTT 5 client without a client id is assigned one, different for each client [MQTT-3.1.3-7]."""
    names = set()
    with WireClient(address, 5) as one, WireClient(address, 5) as two:
        for client in (one, two):
            connack = client.connect("")
            assert connack.properties is not None
            names.add(connack.properties[props.ASSIGNED_CLIENT_IDENTIFIER])
        one.expect_nothing_more()
    assert len(names) == 2


def test_no_client_id_v4(address: Address) -> None:
    """A 3.1.1 client without a client id is accepted with a clean session, else refused with 2 [MQTT-3.1.3-8]."""
    with WireClient(address, 4) as one, WireClient(address, 4) as two:
        assert one.connect("").reason_code == 0
        assert two.connect("", clean_start=False).reason_code == 2
        assert two.expect_close() is None
        one.expect_nothing_more()


def test_credentials_are_ignored(address: Address) -> None:
    """Without authentication a user name and a password are ignored."""
    with WireClient(address, 5) as client:
        client.send(Connect("named", True, username="ann", password=b"secret", version=5))
        assert client.expect(Connack).reason_code == 0


@pytest.mark.parametrize("version", [4, 5])
def test_everything_at_once(address: Address, version: int) -> None:
    """Packets behind CONNECT in the same write are handled in order, before the client has read CONNACK."""
    with WireClient(address, version) as client:
        client.send(
            Connect("hasty", True, version=version),
            Subscribe(1, [Subscription("hasty", 1)]),
            Publish(b"hasty", b"x", 1, packet_id=1),
            Pingreq(),
        )
        packets = [client.receive() for _ in range(5)]
        assert {type(packet) for packet in packets} == {Connack, Suback, Puback, Publish, Pingresp}
        assert isinstance(packets[0], Connack)


@pytest.mark.parametrize("version", [4, 5])
def test_byte_by_byte(address: Address, version: int) -> None:
    """Packets are decoded the same when they arrive byte by byte."""
    with WireClient(address, version) as client:
        packets: list[Packet] = [
            Connect("slow", True, version=version),
            Subscribe(1, [Subscription("slow", 0)]),
            Publish(b"slow", b"x"),
        ]
        for byte in b"".join(packet.encode(version) for packet in packets):
            client.send(bytes([byte]))
        assert [type(client.receive()) for _ in range(3)] == [Connack, Suback, Publish]


# -- kept sessions


@pytest.mark.parametrize("version", [4, 5])
def test_kept_session(address: Address, version: int) -> None:
    """A kept session keeps its subscriptions and queues messages; a clean start ends it [MQTT-3.1.2-4]."""
    name = f"kept-{version}"
    with connected(address, 5) as sender:
        with WireClient(address, version) as client:
            assert not client.connect(name, clean_start=False, properties=kept(version)).session_present
            client.subscribe(f"{name}/#", qos=2)
            client.disconnect()
        for qos in range(3):
            sender.publish(f"{name}/{qos}", b"x", qos)
        with WireClient(address, version) as client:
            assert client.connect(name, clean_start=False, properties=kept(version)).session_present
            for qos in range(3):
                message = client.receive_message()
                assert (message.topic, message.qos) == (f"{name}/{qos}".encode(), qos)
            client.disconnect()
        with WireClient(address, version) as client:
            assert not client.connect(name, clean_start=True).session_present
            sender.publish(f"{name}/x", b"x", 1)
            client.expect_nothing_more()
            client.disconnect()
        with WireClient(address, version) as client:
            assert not client.connect(name, clean_start=False, properties=kept(version)).session_present


def test_session_of_the_other_version(address: Address) -> None:
    """A client may resume its session with the other version of MQTT."""
    with WireClient(address, 4) as client:
        client.connect("changing", clean_start=False)
        client.subscribe("changing", qos=1)
        client.disconnect()
    with WireClient(address, 5) as client, connected(address, 5) as sender:
        assert client.connect("changing", clean_start=False, properties=dict(KEPT)).session_present
        sender.publish("changing", b"x", 1, properties={props.CONTENT_TYPE: "text/plain"})
        assert client.receive_message().properties == {props.CONTENT_TYPE: "text/plain"}
        client.disconnect(0, {props.SESSION_EXPIRY_INTERVAL: 0})


def test_session_expires(address: Address) -> None:
    """A session with an expiry of one second ends after it, and its delayed will is published then."""
    with connected(address, 5) as watcher:
        watcher.subscribe("expired")
        with WireClient(address, 5) as client:
            will = Will(b"expired", b"over", 0, False, {props.WILL_DELAY_INTERVAL: 1000})
            client.connect("short-lived", will=will, properties={props.SESSION_EXPIRY_INTERVAL: 1})
        assert watcher.receive_message().payload == b"over"
        with WireClient(address, 5) as client:
            assert not client.connect("short-lived", clean_start=False).session_present


# -- take-over


@pytest.mark.parametrize("clean_start", [False, True])
@pytest.mark.parametrize("newer", [4, 5])
@pytest.mark.parametrize("older", [4, 5])
def test_take_over(address: Address, older: int, newer: int, clean_start: bool) -> None:
    """The newer connection of a client id stays; the older is closed, in MQTT 5 with 0x8E [MQTT-3.1.4-3]."""
    with WireClient(address, older) as first, WireClient(address, newer) as second:
        first.connect("taken", clean_start=False, properties=kept(older))
        first.subscribe("taken/#")
        connack = second.connect("taken", clean_start=clean_start, properties=kept(newer))
        assert connack.session_present == (not clean_start)
        last = first.expect_close()
        if older == 5:
            assert isinstance(last, Disconnect)
            assert last.reason_code == reason_codes.SESSION_TAKEN_OVER
        else:
            assert last is None
        second.publish("taken/x", b"x")
        if clean_start:
            second.expect_nothing_more()
        else:
            assert second.receive_message().payload == b"x"
        second.send(Disconnect(0, {props.SESSION_EXPIRY_INTERVAL: 0} if newer == 5 else None))


@pytest.mark.parametrize("delay", [0, 100])
def test_will_at_take_over(address: Address, delay: int) -> None:
    """A take-over publishes the older connection's will, unless delayed in a kept session [MQTT-3.1.3-9]."""
    topic = f"will/taken/{delay}"
    will = Will(topic.encode(), b"gone", 0, False, {props.WILL_DELAY_INTERVAL: delay})
    with connected(address, 5) as watcher, WireClient(address, 5) as first, WireClient(address, 5) as second:
        watcher.subscribe(topic)
        first.connect(f"will-{delay}", will=will, properties=dict(KEPT))
        second.connect(f"will-{delay}", clean_start=False)
        first.expect_close()
        if delay == 0:
            assert watcher.receive_message().payload == b"gone"
        watcher.expect_nothing_more()


def test_many_take_overs(address: Address) -> None:
    """Of many connections with one client id only the last stays connected."""
    clients = [connected(address, 4 + number % 2, client_id="wanted") for number in range(30)]
    for client in clients[:-1]:
        client.expect_close()
        client.close()
    clients[-1].expect_nothing_more()
    clients[-1].disconnect()


# -- the end


@pytest.mark.parametrize("version", [4, 5])
def test_disconnect(broker: BrokerProcess, address: Address, version: int) -> None:
    """After DISCONNECT the broker closes the connection and handles nothing behind it [MQTT-3.14.4-2]."""
    with connected(address, version) as client, connected(address, version) as other:
        other.subscribe("behind")
        client.send(Disconnect(), Publish(b"behind", b"x"))
        assert client.expect_close() is None
        other.expect_nothing_more()


@pytest.mark.parametrize("version", [4, 5])
def test_half_close(address: Address, version: int) -> None:
    """A client that ends its side gets what is under way, then the broker closes the connection."""
    with connected(address, version) as client:
        client.send(Publish(b"nobody", b"x", 1, packet_id=9))
        client.socket.shutdown(1)
        assert client.expect(Puback).packet_id == 9
        assert client.expect_close() is None


def test_connections_are_let_go(broker: BrokerProcess, address: Address) -> None:
    """No file descriptor stays open after connections that ended in any way."""
    with connected(address, 5) as client:
        before = broker.open_files()
        for number in range(30):
            end = connected(address, 4 + number % 2)
            (end.reset, end.close, end.disconnect)[number % 3]()
        client.expect_nothing_more()
        wait_until(lambda: broker.open_files() <= before, "the descriptors are free")


@pytest.mark.parametrize("version", [4, 5])
def test_keepalive(address: Address, version: int) -> None:
    """A silent client is closed after one and a half keep-alives, in MQTT 5 with 0x8D; one that pings is not."""
    with WireClient(address, version) as silent, WireClient(address, version) as alive:
        silent.connect(keep_alive=1)
        alive.connect(keep_alive=1)
        silent.socket.settimeout(0.5)
        last = None
        for _ in range(10):
            alive.expect_nothing_more()
            try:
                last = silent.socket.recv(100)
                break
            except TimeoutError:
                continue
        assert last is not None
        assert (last[:1], last[2:3]) == ((b"", b"") if version == 4 else (b"\xe0", b"\x8d"))
        alive.expect_nothing_more()
