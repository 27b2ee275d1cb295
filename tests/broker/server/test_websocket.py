"""MQTT over WebSocket and WSS: real clients, frames of every kind, and what is refused."""

import json
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from protocol import reason_codes
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.decoder import Decoder
from protocol.disconnect import Disconnect
from protocol.packet import Packet
from protocol.ping import Pingreq, Pingresp
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe, Subscription
from tests.broker.conftest import Start
from tests.broker.server.test_websocket_request import NO_MASK, REQUEST, frame
from tests.clients.catalogue import CLIENTS
from tests.support.broker.events import wait_for_event
from tests.support.brokers import Listener, start_sluice
from tests.support.certificates import Certificates
from tests.support.node import install
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import connected

SECONDS = 10.0
MQTT = [Subprotocol("mqtt")]
MQTT_JS = "mqtt@5.16.0"
LARGE = 200_000
"""Bytes of a payload whose frame has the longest header."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[BrokerProcess]:
    """A broker that listens on TCP, WebSocket and WSS."""
    listeners = (Listener(), Listener("ws", websocket=True), Listener("wss", certificates, websocket=True))
    log = {"level": "debug", "format": "json"}
    with start_sluice(tmp_path_factory.mktemp("websocket"), listeners, {"log": log}) as running:
        yield running


def url(address: Address, scheme: str = "ws", path: str = "/mqtt") -> str:
    """Where a listener is."""
    return f"{scheme}://{address.host}:{address.port}{path}"


class Browser:
    """A client at the level of frames."""

    def __init__(self, address: Address, **options: Any) -> None:
        self.socket: ClientConnection = connect(url(address), subprotocols=MQTT, **options)
        self._decoder = Decoder(version=5)

    def send(self, *packets: Packet) -> None:
        """Send packets in one frame."""
        self.socket.send(b"".join(packet.encode(5) for packet in packets))

    def receive(self) -> Packet:
        """The next packet; each frame of the broker is binary."""
        while (packet := self._decoder.next_packet()) is None:
            data = self.socket.recv(SECONDS)
            assert isinstance(data, bytes)
            self._decoder.feed(data)
        return packet

    def enter(self, client_id: str = "") -> None:
        """CONNECT."""
        self.send(Connect(client_id, True, version=5))
        packet = self.receive()
        assert isinstance(packet, Connack)
        assert packet.reason_code == 0

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


@pytest.fixture
def address(broker: BrokerProcess) -> Address:
    """Where WebSocket is."""
    return broker.address("ws")


# -- real clients


@pytest.mark.parametrize(("listener", "version"), [("ws", 4), ("ws", 5), ("wss", 5)])
def test_paho(broker: BrokerProcess, certificates: Certificates, listener: str, version: int) -> None:
    """Paho publishes and receives, small and large, and a client on TCP gets the same."""
    received: list[bytes] = []
    arrived, subscribed = threading.Event(), threading.Event()

    def on_message(_client: object, _data: object, message: mqtt.MQTTMessage) -> None:
        received.append(bytes(message.payload))
        if len(received) == 2:
            arrived.set()

    client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion(version), transport="websockets")
    if listener == "wss":
        client.tls_set_context(ssl.create_default_context(cafile=certificates.cafile))
    client.on_message = on_message
    client.on_subscribe = lambda *_: subscribed.set()
    client.connect(*broker.address(listener))
    client.loop_start()
    try:
        wait_until(client.is_connected, "paho is connected")
        client.subscribe("ws/paho", 1)
        assert subscribed.wait(SECONDS)
        payloads = [b"small", b"x" * LARGE]
        with connected(broker.address(), 5) as watcher:
            watcher.subscribe("ws/paho", qos=1)
            for payload in payloads:
                client.publish("ws/paho", payload, 1).wait_for_publish(SECONDS)
            assert [watcher.expect(Publish).payload for _ in payloads] == payloads
        assert arrived.wait(SECONDS)
        assert received == payloads
    finally:
        client.disconnect()
        client.loop_stop()


SCRIPT = """
const mqtt = require('mqtt')
const options = { protocolVersion: 5, rejectUnauthorized: false, connectTimeout: 8000, reconnectPeriod: 0 }
const client = mqtt.connect(process.argv[1], options)
client.on('error', error => { console.error(error.message); process.exit(1) })
client.on('message', (topic, payload) => {
  console.log(JSON.stringify([topic, payload.length]))
  client.end()
})
client.on('connect', () => client.subscribe('ws/js', { qos: 2 }, () =>
  client.publish('ws/js', Buffer.alloc(70000), { qos: 2 })))
"""


@pytest.mark.parametrize(("listener", "scheme"), [("ws", "ws"), ("wss", "wss")])
def test_mqttjs(broker: BrokerProcess, listener: str, scheme: str) -> None:
    """MQTT.js subscribes, publishes and receives."""
    missing = CLIENTS["mqttjs"].missing()
    if missing:
        pytest.skip(missing)
    command = ["node", "-e", SCRIPT, url(broker.address(listener), scheme)]
    env = {"NODE_PATH": str(install(MQTT_JS)), "PATH": "/usr/bin:/bin:/usr/local/bin"}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == ["ws/js", 70_000]


# -- frames


def test_packets_need_not_align_with_frames(address: Address) -> None:
    """A frame may hold a part of a packet or several, and a message may be fragmented [MQTT-6.0.0-2]."""
    with Browser(address) as client:
        packets = Connect("", True, version=5).encode(5) + Subscribe(1, [Subscription("a")]).encode(5)
        for at in range(len(packets)):
            client.socket.send(packets[at : at + 1])
        assert isinstance(client.receive(), Connack)
        assert isinstance(client.receive(), Suback)
        data = Publish(b"a", b"x" * 1000).encode(5)
        client.socket.send([data[:3], b"", data[3:500], data[500:]])
        packet = client.receive()
        assert isinstance(packet, Publish)
        assert packet.payload == b"x" * 1000
        client.send(Pingreq(), Pingreq())
        assert [type(client.receive()) for _ in range(2)] == [Pingresp, Pingresp]


def test_pings_of_websocket(address: Address) -> None:
    """A ping frame is answered, also before CONNECT and between fragments."""
    with Browser(address) as client:
        assert client.socket.ping().wait(SECONDS)
        client.enter()
        assert client.socket.ping(b"x" * 125).wait(SECONDS)


@pytest.mark.parametrize("connect_first", [True, False])
def test_text_frame(address: Address, connect_first: bool) -> None:
    """A text frame closes the connection [MQTT-6.0.0-1]."""
    with Browser(address) as client:
        if connect_first:
            client.enter()
        client.socket.send("text")
        with pytest.raises(ConnectionClosed) as caught:
            client.socket.recv(SECONDS)
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1003


def test_frame_that_is_too_large(address: Address) -> None:
    """A frame that no packets could fill is refused before it is read."""
    with Browser(address) as client:
        client.enter()
        client.socket.send(bytes(1_048_577))
        with pytest.raises(ConnectionClosed) as caught:
            client.socket.recv(SECONDS)
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1009


@pytest.mark.parametrize("how", ["disconnect", "close", "break"])
def test_end(broker: BrokerProcess, address: Address, how: str) -> None:
    """A client that ends by DISCONNECT, a close frame or not at all: what it has sent before is handled."""
    with connected(broker.address(), 5) as watcher:
        watcher.subscribe("last")
        client = Browser(address)
        client.enter()
        client.send(Publish(b"last", b"x"))
        if how == "disconnect":
            client.send(Disconnect())
        if how == "break":
            client.socket.socket.shutdown(2)
        client.socket.close()
        assert watcher.expect(Publish).payload == b"x"
        watcher.expect_nothing_more()


def test_reset_behind_many_frames(broker: BrokerProcess, address: Address) -> None:
    """What a client has sent before it resets the connection is handled, also if it waited behind many frames."""
    with connected(broker.address(), 5) as watcher:
        watcher.subscribe("reset")
        with socket.create_connection(address) as client:
            client.sendall(REQUEST)
            assert client.recv(12) == b"HTTP/1.1 101"
            ping = b"\x89\x80" + NO_MASK
            packets = Connect("", True, version=5).encode(5) + Publish(b"reset", b"x").encode(5)
            client.sendall(ping * 900 + frame(packets))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert watcher.expect(Publish).payload == b"x"


def test_refused_connect(address: Address) -> None:
    """A refusal reaches the client, then a close frame."""
    with Browser(address) as client:
        client.send(Connect("", True, properties={0x15: "UNKNOWN"}, version=5))
        packet = client.receive()
        assert isinstance(packet, Connack)
        assert packet.reason_code == reason_codes.BAD_AUTHENTICATION_METHOD
        with pytest.raises(ConnectionClosed) as caught:
            client.receive()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1000


def test_many_messages(broker: BrokerProcess, address: Address) -> None:
    """A burst arrives whole and in order, through frames that the broker fills as it likes."""
    with Browser(address) as client, connected(broker.address(), 5) as publisher:
        client.enter()
        client.send(Subscribe(1, [Subscription("burst", 1)]))
        assert isinstance(client.receive(), Suback)
        for number in range(500):
            publisher.send(Publish(b"burst", b"%d" % number))
        packets = [client.receive() for _ in range(500)]
        assert [int(packet.payload) for packet in packets if isinstance(packet, Publish)] == list(range(500))


# -- the handshake


@pytest.mark.parametrize(
    ("path", "protocols", "status"),
    [
        ("/mqtt?x=1", MQTT, 101),
        ("/mqtt", ["mqttv3.1"], 101),
        ("/", MQTT, 404),
        ("/mqtt/", MQTT, 404),
        ("/mqtt", ["chat"], 400),
        ("/mqtt", None, 400),
    ],
)
def test_handshake(broker: BrokerProcess, address: Address, path: str, protocols: Any, status: int) -> None:
    """Other paths and subprotocols are refused, and the log says why [MQTT-6.0.0-3]."""
    if status == 101:
        with connect(url(address, path=path), subprotocols=protocols) as client:
            assert client.subprotocol == protocols[0]
            assert client.protocol.extensions == []
        return
    before = len(_refusals(broker))
    with pytest.raises(InvalidStatus) as caught:
        connect(url(address, path=path), subprotocols=protocols)
    assert caught.value.response.status_code == status
    wait_for_event(broker, "disconnected", 1)
    broker.wait_for_output(lambda _: len(_refusals(broker)) > before, "the refusal")


def _refusals(broker: BrokerProcess) -> list[str]:
    return [line for line in broker.stderr.splitlines() if "WebSocket handshake refused" in line]


@pytest.mark.parametrize("origin", ["https://example.com", None])
def test_origins(start: Start, origin: str | None) -> None:
    """With a list of origins pages from there may connect, and clients that are no pages and name none."""
    address = with_origins(start).address("ws")
    own = None if origin is None else Origin(origin)
    connect(url(address), subprotocols=MQTT, origin=own).close()


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "https://example.com.evil.example"])
def test_other_origins(start: Start, origin: str) -> None:
    """Pages from elsewhere are refused, and the log says so; it says nothing of a health check."""
    broker = with_origins(start)
    with socket.create_connection(broker.address("ws"), timeout=SECONDS) as check:
        check.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert check.recv(100).startswith(b"HTTP/1.1 404")
    with pytest.raises(InvalidStatus) as caught:
        connect(url(broker.address("ws")), subprotocols=MQTT, origin=Origin(origin))
    assert caught.value.response.status_code == 403
    (event,) = wait_for_event(broker, "websocket_refused")
    assert (event["listener"], event["level"]) == ("ws", "info")
    reason = f"403: invalid Origin header: {origin} is not among listeners[].websocket.origins"
    assert event["reason"] == reason


def with_origins(start: Start) -> BrokerProcess:
    """A broker with a list of origins."""
    listeners = [{"name": "ws", "bind": "127.0.0.1:0", "websocket": {"origins": ["https://example.com"]}}]
    return start((Listener("ws"),), sections={"listeners": listeners})


# paho leaves the socket of a refused handshake to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_paho_with_origins(start: Start) -> None:
    """paho-mqtt names an origin of its own, and connects when it names one of the list."""
    address = with_origins(start).address("ws")
    client = mqtt.Client(CallbackAPIVersion.VERSION2, transport="websockets")
    with pytest.raises(mqtt.WebsocketConnectionError):
        client.connect(*address)
    client.ws_set_options(headers={"Origin": "https://example.com"})
    assert client.connect(*address) == mqtt.MQTT_ERR_SUCCESS
    client.disconnect()


def test_time_limit(start: Start) -> None:
    """mqtt.connect_timeout includes the handshake of WebSocket: who says nothing, or half of it, is closed."""
    listeners = (Listener("ws", websocket=True),)
    address = start(listeners, sections={"mqtt": {"connect_timeout": "300ms"}}).address("ws")
    for start_of_request in (b"", b"GET /mqtt HTTP/1.1\\r\\nHost: x\\r\\n"):
        with socket.create_connection(address, timeout=SECONDS) as client:
            client.sendall(start_of_request)
            assert client.recv(100) == b""


def test_plain_mqtt(broker: BrokerProcess, address: Address) -> None:
    """MQTT without WebSocket is closed at once, with a reason in the log."""
    with socket.create_connection(address, timeout=SECONDS) as client:
        client.sendall(Connect("plain", True, version=5).encode(5))
        assert client.recv(1000) == b""
    broker.wait_for_output(lambda lines: any("not a WebSocket handshake" in line for line in lines), "the reason")
