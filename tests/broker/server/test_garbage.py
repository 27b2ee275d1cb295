"""Nothing that ends is left to the garbage collector, which does not search what lives long."""

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from tests.support.broker.admin import Unix, request
from tests.support.broker.garbage import PREPARE, left_by
from tests.support.brokers import Listener, start_sluice
from tests.support.certificates import Certificates
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient

UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nHost: broker\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)
@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[BrokerProcess]:
    """A broker whose collector runs on request only. It runs on uvloop: transports of asyncio's loop are cycles."""
    listeners = (
        Listener(),
        Listener("tls", certificates),
        Listener("ws", websocket=True),
        Listener("wss", certificates, websocket=True),
    )
    sections = {"admin": {"socket": "a.sock"}}
    folder = tmp_path_factory.mktemp("broker")
    with start_sluice(folder, listeners, sections, prepare=PREPARE) as broker:
        look(broker)  # the first request loads the application
        yield broker


def look(broker: BrokerProcess) -> None:
    """List the sessions."""
    answer = request(broker.folder / "a.sock", "/api/v1/sessions")
    assert answer.status == 200, answer.text


def session(
    address: Address, transport: Literal["tcp", "websockets"], cafile: Path | None, version: MQTTProtocolVersion
) -> None:
    """Publish to oneself at each QoS."""
    received: list[int] = []
    client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=version, transport=transport)
    if cafile is not None:
        client.tls_set_context(ssl.create_default_context(cafile=cafile))
    client.on_message = lambda *got: received.append(got[2].qos)
    client.connect(*address)
    client.loop_start()
    wait_until(client.is_connected, "paho is connected")
    client.subscribe("garbage/#", 2)
    for qos in range(3):
        client.publish(f"garbage/{qos}", b"x", qos)
    wait_until(lambda: len(received) == 3, "three messages")
    client.disconnect()
    client.loop_stop()


@pytest.mark.parametrize("listener", ["tcp", "tls", "ws", "wss"])
@pytest.mark.parametrize("version", [MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5])
def test_session(
    running: BrokerProcess, certificates: Certificates, listener: str, version: MQTTProtocolVersion
) -> None:
    """Of an ordinary client's session and connection nothing is left, whatever the transport."""
    cafile = certificates.cafile if listener in ("tls", "wss") else None
    transport: Literal["tcp", "websockets"] = "websockets" if listener.startswith("ws") else "tcp"
    assert left_by(running, lambda: session(running.address(listener), transport, cafile, version)) == {}


@pytest.mark.parametrize("listener", ["tcp", "tls", "ws", "wss"])
@pytest.mark.parametrize("data", [b"", b"\x16\x03\x01", b"\x10\xff\xff\xff\xff\xff", b"GET / HTTP/1.0\r\n\r\n"])
def test_not_mqtt(running: BrokerProcess, listener: str, data: bytes) -> None:
    """Of a connection that is refused, or that ends before its handshake, nothing is left."""

    def connect() -> None:
        with closing(socket.create_connection(running.address(listener))) as sock:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                while sock.recv(4096):
                    pass

    assert left_by(running, connect) == {}


@pytest.mark.parametrize("behind", [b"", b"\x82", b"\x82\xfe\x10\x00mask" + bytes(100)])
def test_broken_frame(running: BrokerProcess, behind: bytes) -> None:
    """Of a WebSocket that breaks, also in the middle of a frame, nothing is left."""

    def connect() -> None:
        with closing(socket.create_connection(running.address("ws"))) as sock:
            sock.sendall(UPGRADE)
            assert sock.recv(1000).startswith(b"HTTP/1.1 101")
            sock.sendall(behind)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    assert left_by(running, connect) == {}


def test_taken_over(running: BrokerProcess) -> None:
    """Of a connection that another one of the same client replaces, or that breaks, nothing is left."""

    def connect() -> None:
        with WireClient(running.address()) as first, WireClient(running.address()) as second:
            for client in (first, second):
                client.connect("twice")
                client.subscribe("twice/#", qos=2)
            second.publish("twice/1", b"x", 1)
            second.reset()

    assert left_by(running, connect) == {}


@pytest.mark.parametrize("target", ["/", "/metrics", "/ready", "/api/v1/clients", "/api/v1/nothing"])
def test_request(running: BrokerProcess, target: str) -> None:
    """Of an answered request nothing is left."""
    assert left_by(running, lambda: request(running.folder / "a.sock", target)) == {}


def test_stream(running: BrokerProcess) -> None:
    """Of a stream of the dashboard, which may last for minutes, nothing is left."""

    def watch() -> None:
        with closing(Unix(running.folder / "a.sock")) as connection:
            connection.request("GET", "/api/v1/stream")
            assert connection.getresponse().readline()

    assert left_by(running, watch) == {}
