"""MQTT 3.1 (`MQIsdp`, level 3): handled as 3.1.1, with raw packets and with real clients; `mqtt.mqtt31` refuses it."""

import shutil
import socket
import subprocess
from contextlib import ExitStack

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from protocol.connack import Connack
from protocol.connect import Connect
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.broker.events import wait_for_event
from tests.support.broker.local import LocalBroker, LocalClient
from tests.support.process import Address
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

SECONDS = 10.0
ACCEPTED = bytes.fromhex("20020000")
REFUSED_VERSION = bytes.fromhex("20020001")
REFUSED_IDENTIFIER = bytes.fromhex("20020002")


def connect(client_id: bytes, flags: int = 2, level: int = 3, rest: bytes = b"") -> bytes:
    """CONNECT of MQTT 3.1, byte by byte."""
    body = b"\0\x06MQIsdp" + bytes((level, flags)) + b"\0\x3c" + len(client_id).to_bytes(2) + client_id + rest
    return b"\x10" + bytes((len(body) & 0x7F | 0x80, len(body) >> 7) if len(body) > 127 else (len(body),)) + body


def say(address: Address, *exchange: tuple[bytes, bytes]) -> None:
    """Send each, and receive exactly what follows it."""
    with socket.create_connection(address, timeout=SECONDS) as client:
        for sent, expected in exchange:
            client.sendall(sent)
            received = b""
            while len(received) < len(expected):
                received += client.recv(len(expected) - len(received))
            assert received == expected


def entered(local: LocalBroker, clean_start: bool = True, bridge: bool = False) -> LocalClient:
    """A client of MQTT 3.1 that is connected to a broker without sockets."""
    client = local.client(4)
    client.send(Connect("old", clean_start, version=4, mqtt31=True, bridge=bridge))
    assert client.expect(Connack).reason_code == 0
    return client


def test_packets(address: Address) -> None:
    """Messages of each QoS are exchanged; what is sent again has DUP, which 3.1.1 forbids in SUBSCRIBE and PUBREL."""
    say(
        address,
        (connect(b"packets-31"), ACCEPTED),
        (bytes.fromhex("8a09 0001 0004") + b"old3\2", bytes.fromhex("9003000102")),
        (bytes.fromhex("3408 0004") + b"old3\0\5", bytes.fromhex("50020005 3408 0004") + b"old3\0\1"),
        (bytes.fromhex("6a020005"), bytes.fromhex("70020005")),
        (bytes.fromhex("50020001"), bytes.fromhex("62020001")),
        (bytes.fromhex("70020001 aa08 0002 0004") + b"old3", bytes.fromhex("b0020002")),
        (bytes.fromhex("c000"), bytes.fromhex("d000")),
    )


def test_duplicate_of_311(address: Address) -> None:
    """In MQTT 3.1.1 DUP in SUBSCRIBE is malformed, as before."""
    with connected(address, 4) as client:
        client.send(bytes.fromhex("8a09 0001 0004") + b"old3" + b"\x02")
        assert client.expect_close() is None


def test_client_id(address: Address) -> None:
    """A client id has one character or more, and as many as in 3.1.1: the old limit of 23 is not enforced."""
    say(address, (connect(b""), REFUSED_IDENTIFIER))
    say(address, (connect(b"", 0), REFUSED_IDENTIFIER))
    for client_id in (b"x", b"x" * 23, b"x" * 24, b"a long name of a gateway/" * 10):
        say(address, (connect(client_id), ACCEPTED))


def test_user_name_that_is_not_sent(address: Address) -> None:
    """The flags of user name and password may be set without either; one without the other is an error as in 3.1.1."""
    say(address, (connect(b"flags-31", 0xC2), ACCEPTED))
    say(address, (connect(b"flags-31", 0x82), ACCEPTED))
    with socket.create_connection(address, timeout=SECONDS) as client:
        client.sendall(connect(b"flags-31", 0x42, rest=b"\0\x01p"))
        assert client.recv(10) == b""


def test_other_levels(address: Address) -> None:
    """A level that does not belong to the protocol name is refused with return code 1."""
    for level in (0, 2, 4, 5, 0x84):
        say(address, (connect(b"level-31", level=level), REFUSED_VERSION))


def test_kept_session() -> None:
    """A session is resumed, and the byte that 3.1.1 has for Session Present is 0: it is reserved in MQTT 3.1."""
    with LocalBroker() as local:
        client = entered(local, clean_start=False)
        client.subscribe("kept", 1)
        client.drop()
        publisher = local.client(4)
        publisher.connect("publisher")
        publisher.send(Publish(b"kept", b"x", 1, packet_id=1))
        client = local.client(4)
        client.send(Connect("old", False, version=4, mqtt31=True))
        connack, publish = client.received()
        assert isinstance(connack, Connack)
        assert not connack.session_present
        assert isinstance(publish, Publish)


def test_bridge_of_31() -> None:
    """Level 0x83 is a bridge by MQTT 3.1, which gets nothing back that it has published."""
    with LocalBroker() as local:
        bridge = entered(local, bridge=True)
        bridge.subscribe("echo")
        bridge.send(Publish(b"echo", b"x"))
        assert bridge.received() == []


def test_switched_off(start: Start) -> None:
    """With `mqtt.mqtt31: false` such clients are refused with return code 1, and the log names the key."""
    broker = start(sections={"mqtt": {"mqtt31": False}})
    for level in (3, 0x83):
        say(broker.address(), (connect(b"old-one", level=level), REFUSED_VERSION))
    first, *_ = wait_for_event(broker, "client_refused")
    assert (first["client_id"], first["reason"]) == ("old-one", "Unsupported protocol version")
    assert "mqtt.mqtt31" in first["detail"]


def test_version_in_the_log(start: Start) -> None:
    """The log at level debug says which clients speak MQTT 3.1."""
    broker = start(sections={"log": {"level": "debug", "format": "json"}})
    say(broker.address(), (connect(b"old-one"), ACCEPTED))
    (event,) = wait_for_event(broker, "connected")
    assert event["version"] == "3.1"


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_paho(address: Address, qos: int) -> None:
    """paho-mqtt as a client of MQTT 3.1 publishes, and gets what it has subscribed to."""
    came: list[bytes] = []
    granted: list[int] = []
    client = mqtt.Client(CallbackAPIVersion.VERSION2, f"paho-31-{qos}", protocol=MQTTProtocolVersion.MQTTv31)
    client.on_message = lambda _client, _data, message: came.append(bytes(message.payload))
    client.on_subscribe = lambda _client, _data, _number, codes, _properties: granted.append(codes[0].value)
    client.connect(*address)
    client.loop_start()
    with ExitStack() as stack:
        stack.callback(client.loop_stop)
        stack.callback(client.disconnect)
        client.subscribe(f"paho/31/{qos}", qos)
        wait_until(lambda: granted == [qos], "SUBACK", SECONDS)
        client.publish(f"paho/31/{qos}", b"x", qos).wait_for_publish(SECONDS)
        wait_until(lambda: came == [b"x"], "the message", SECONDS)


@pytest.mark.skipif(shutil.which("mosquitto_pub") is None, reason="needs mosquitto_pub (Debian: mosquitto-clients)")
def test_mosquitto_pub(address: Address) -> None:
    """mosquitto_pub -V mqttv31 publishes at QoS 2."""
    with connected(address, 5) as watcher:
        watcher.subscribe("pub/31", qos=2)
        command = ["mosquitto_pub", "-V", "mqttv31", "-h", address.host, "-p", str(address.port), "-q", "2"]
        subprocess.run([*command, "-t", "pub/31", "-m", "x"], check=True, timeout=SECONDS)
        assert watcher.receive_message().payload == b"x"


def test_like_311(address: Address) -> None:
    """What 3.1.1 refuses is refused in the same way: a PUBLISH to a wildcard closes the connection."""
    with WireClient(address, 4) as client:
        client.send(Connect("like-311", version=4, mqtt31=True), b"\x30\x05\0\x03a/#")
        assert client.expect(Connack).reason_code == 0
        assert client.expect_close() is None
