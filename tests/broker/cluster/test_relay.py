"""Clients by TLS, WebSocket and Unix sockets of a broker with several workers: each is served by its home."""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from tests.support.broker.cells import at_home, kill_cell, start_cells
from tests.support.certificates import Certificates
from tests.support.process import Address, BrokerProcess
from tests.support.wire import WireClient

BOTH = (1, 2)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[BrokerProcess]:
    """Two cells that listen for TLS with client certificates, WebSocket, both, and on a Unix socket."""
    folder = tmp_path_factory.mktemp("relay")
    tls = {
        "certfile": str(certificates.server.certfile),
        "keyfile": str(certificates.server.keyfile),
        "cafile": str(certificates.cafile),
    }
    host = {"bind": "127.0.0.1:0"}
    sections = {
        "listeners": [
            {"name": "tcp"} | host,
            {"name": "tls", "tls": tls | {"require_client_certificate": True, "username": "{cn}"}} | host,
            {"name": "ws", "websocket": {}} | host,
            {"name": "wss", "websocket": {}, "tls": tls} | host,
            {"name": "unix", "bind": f"unix:{folder}/s"},
        ],
        "authorization": {
            "default": "allow",
            "rules": [{"permit": "deny", "users": ["client"], "action": "publish", "topics": ["denied"]}],
        },
    }
    with start_cells(folder, sections=sections) as broker:
        yield broker


def by_tls(broker: BrokerProcess, certificates: Certificates) -> WireClient:
    """A connection with a client certificate."""
    return WireClient(broker.address("tls"), 5, tls=certificates.client_context(with_certificate=True))


def test_tls_reaches_each_home_with_its_certificate(broker: BrokerProcess, certificates: Certificates) -> None:
    """The home decides by the name of the certificate, which the cell has verified that accepted the connection."""
    for cell in BOTH:
        for number, client_id in zip(range(8), at_home(cell, name="tls"), strict=False):
            with by_tls(broker, certificates) as client:
                client.connect(client_id)
                client.send(Publish(b"denied", b"x", 1, packet_id=1), Publish(b"free", b"x", 1, packet_id=2))
                answers = [client.expect(Puback) for _ in range(2)]
                assert [each.reason_code >= reason_codes.UNSPECIFIED_ERROR for each in answers] == [True, False], number


def test_much_passes_a_relay_in_order(broker: BrokerProcess, certificates: Certificates) -> None:
    """Megabytes go through in both directions, while neither end is read all the time."""
    payloads = [bytes([number % 256]) * 50_000 for number in range(120)]
    for client_id in (next(at_home(cell, name="much")) for cell in BOTH):
        for _ in range(3):
            with by_tls(broker, certificates) as client:
                client.connect(client_id)
                client.subscribe(f"much/{client_id}", qos=0)
                for payload in payloads:
                    client.send(Publish(f"much/{client_id}".encode(), payload))
                assert [client.expect(Publish).payload for _ in payloads] == payloads


def test_a_take_over_closes_a_relayed_connection(broker: BrokerProcess, certificates: Certificates) -> None:
    """The client of the old connection gets DISCONNECT with 0x8E before it is closed."""
    for client_id in (next(at_home(cell, name="twice")) for cell in BOTH):
        for _ in range(4):
            with by_tls(broker, certificates) as old, WireClient(broker.address(), 5) as new:
                old.connect(client_id)
                new.connect(client_id)
                last = old.expect_close()
                assert isinstance(last, Disconnect)
                assert last.reason_code == reason_codes.SESSION_TAKEN_OVER


def test_a_refused_client_is_told_over_a_relay(broker: BrokerProcess, certificates: Certificates) -> None:
    """What the home answers to a wrong CONNECT comes, and then the end."""
    for client_id in (next(at_home(cell, name="wrong")) for cell in BOTH):
        for _ in range(4):
            with by_tls(broker, certificates) as client:
                client.send(Connect(client_id, version=5), Connect(client_id, version=5))
                packets = client.until_close()
                assert isinstance(packets[0], Connack)
                assert isinstance(packets[-1], Disconnect)


@pytest.mark.parametrize("listener", ["ws", "wss"])
def test_websocket_reaches_each_home(broker: BrokerProcess, certificates: Certificates, listener: str) -> None:
    """Unmodified clients of paho-mqtt publish to themselves, from either home."""
    for cell in BOTH:
        for _, client_id in zip(range(6), at_home(cell, name=listener), strict=False):
            client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id, transport="websockets")
            if listener == "wss":
                client.tls_set(str(certificates.cafile))
            came = Event()
            client.on_connect = lambda client, *_: client.subscribe("web")
            client.on_subscribe = lambda client, *_: client.publish("web", "x")
            client.on_message = lambda *_, came=came: came.set()
            address = broker.address(listener)
            client.connect(address.host, address.port)
            client.loop_start()
            assert came.wait(20), client_id
            client.disconnect()
            client.loop_stop()


def test_websocket_is_closed_after_disconnect(broker: BrokerProcess) -> None:
    """Whoever sends the first close frame gets one back, and the broker closes TCP: no client waits in vain."""
    address = broker.address("ws")
    for client_id in itertools.chain(*(itertools.islice(at_home(cell, name="bye"), 6) for cell in BOTH)):
        url = f"ws://{address.host}:{address.port}/mqtt"
        client = connect(url, subprotocols=[Subprotocol("mqtt")], close_timeout=60)
        client.send(Connect(client_id, version=5).encode(5))
        client.recv(10)
        client.send(Disconnect().encode(5))
        began = time.monotonic()
        client.close()
        assert time.monotonic() - began < 20, client_id


def test_unix_sockets_reach_each_home(broker: BrokerProcess, tmp_path: Path) -> None:
    """All cells accept from the one socket."""
    address = Address(broker.listeners["unix"].host, 0)
    for cell in BOTH:
        for _, client_id in zip(range(6), at_home(cell, name="unix"), strict=False):
            with WireClient(address, 5) as client:
                client.connect(client_id)
                client.expect_nothing_more()


def test_a_relayed_client_is_closed_when_its_home_is_killed(broker: BrokerProcess, certificates: Certificates) -> None:
    """It can connect again at once: its home is another process soon, and until then its connection waits."""
    clients = [by_tls(broker, certificates) for _ in range(6)]
    for client, client_id in zip(clients, at_home(1, name="home"), strict=False):
        client.connect(client_id)
    kill_cell(broker, 0)
    for client in clients:
        client.expect_close()
        client.close()
    for _, client_id in zip(range(6), at_home(1, name="home"), strict=False):
        with by_tls(broker, certificates) as client:
            client.connect(client_id)
