"""Clients behind proxies: HAProxy and nginx as Debian has them, and headers of our own."""

import socket
from pathlib import Path
from typing import Any

import pytest

from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.broker.admin import listed, request
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.logins import sections, write_users
from tests.support.broker.proxies import haproxy, nginx
from tests.support.certificates import Certificates
from tests.support.process import Address, BrokerProcess
from tests.support.wire import WireClient

KNOWN, OTHER = "127.0.0.7", "127.0.0.8"
"""Addresses of clients; the proxies themselves are 127.0.0.1."""

REFUSED = "proxy_header_refused"


def behind(
    start: Start, trusted: str = "127.0.0.1", listener: dict[str, Any] | None = None, **more: Any
) -> BrokerProcess:
    """A broker behind a proxy, which lets only clients from KNOWN publish."""
    rules = [{"permit": "allow", "topics": ["#"], "addresses": [KNOWN]}]
    own = {"name": "tcp", "bind": "127.0.0.1:0", "proxy_protocol": {"trusted": [trusted]}, **(listener or {})}
    return start(
        sections={
            "listeners": [own],
            "authorization": {"rules": rules, "default": "deny"},
            "log": {"level": "debug", "format": "json"},
            **more,
        }
    )


def allowed(client: WireClient) -> bool:
    """Whether a client that has connected may publish."""
    client.send(Publish(b"a", b"", 1, packet_id=1))
    return client.expect(Puback).reason_code != reason_codes.NOT_AUTHORIZED


def check(broker: BrokerProcess, proxy: Address, tls: Any = None) -> None:
    """The client's own address counts for rules and is in the log."""
    for number, (source, expected) in enumerate(((KNOWN, True), (OTHER, False)), 1):
        with WireClient(proxy, 5, source=source, tls=tls) as client:
            port = client.socket.getsockname()[1]
            assert client.connect(f"from-{source}").reason_code == 0
            assert allowed(client) == expected
        connected = wait_for_event(broker, "connected", number)[-1]
        assert (connected["client_id"], connected["peer"]) == (f"from-{source}", f"{source}:{port}")
    assert events(broker, REFUSED) == []


@pytest.mark.parametrize("sends", ["send-proxy", "send-proxy-v2", "send-proxy-v2 check inter 100ms"])
def test_haproxy(start: Start, tmp_path: Path, sends: str) -> None:
    """HAProxy with either version; its health checks are no clients and no mistakes."""
    broker = behind(start)
    with haproxy(tmp_path, broker.address(), sends) as proxy:
        check(broker, proxy)


def test_nginx(start: Start, tmp_path: Path) -> None:
    """nginx as a proxy of TCP."""
    broker = behind(start)
    with nginx(tmp_path, broker.address()) as proxy:
        check(broker, proxy)


def test_tls_behind_the_proxy(start: Start, tmp_path: Path, certificates: Certificates) -> None:
    """The header comes before TLS, which is between the client and the broker."""
    server = certificates.server
    tls = {"certfile": str(server.certfile), "keyfile": str(server.keyfile)}
    broker = behind(start, listener={"tls": tls})
    with haproxy(tmp_path, broker.address(), "send-proxy-v2") as proxy:
        check(broker, proxy, certificates.client_context(with_certificate=False))
        with socket.create_connection(proxy, timeout=20, source_address=(OTHER, 0)) as client:
            peer = "{}:{}".format(*client.getsockname())
            client.sendall(b"\x10\x0c\x00\x04MQTT")
            (event,) = wait_for_event(broker, "tls_handshake_failed")
            assert event["peer"] == peer


def test_tls_at_the_proxy(start: Start, tmp_path: Path, certificates: Certificates) -> None:
    """A proxy that has ended TLS says so; a TLS listener is not needed."""
    pem = tmp_path / "proxy.pem"
    pem.write_text(certificates.server.certfile.read_text() + certificates.server.keyfile.read_text())
    broker = behind(start)
    with haproxy(tmp_path, broker.address(), "send-proxy-v2-ssl-cn", f"ssl crt {pem}") as proxy:
        check(broker, proxy, certificates.client_context(with_certificate=False))


@pytest.mark.parametrize("tls", [False, True])
def test_operators_see_the_client(start: Start, tmp_path: Path, certificates: Certificates, tls: bool) -> None:
    """Lists and sessions have the client's address, not that of the proxy."""
    path, server = tmp_path / "a.sock", certificates.server
    own = {"tls": {"certfile": str(server.certfile), "keyfile": str(server.keyfile)}} if tls else None
    broker = behind(start, listener=own, admin={"socket": str(path)})
    wait_for_event(broker, "admin_socket")
    context = certificates.client_context(with_certificate=False) if tls else None
    with (
        haproxy(tmp_path, broker.address(), "send-proxy-v2") as proxy,
        WireClient(proxy, 5, source=OTHER, tls=context) as client,
    ):
        client.connect("guest")
        seen = "{}:{}".format(*client.socket.getsockname())
        assert listed(path, "clients")["items"][0]["peer"] == seen
        assert request(path, "/api/v1/sessions/guest").json["peer"] == seen


def test_failed_logins_count_for_the_client(start: Start, tmp_path: Path) -> None:
    """Who tries passwords is refused by address, and not everybody else who comes by the same proxy."""
    own = sections(write_users(tmp_path / "users"))
    own["authentication"]["failed_logins"] = {"per_address": 2, "per_user": 0}
    broker = behind(start, **own)

    def code(source: str, password: bytes) -> int:
        header = f"PROXY TCP4 {source} 127.0.0.1 1 2\r\n".encode()
        with WireClient(broker.address(), 5, first=header) as client:
            client.send(Connect("x", True, 0, username="ann", password=password, version=5))
            return client.expect(Connack).reason_code

    guesses = [code("198.51.100.7", b"wrong") for _ in range(3)]
    assert guesses == [reason_codes.BAD_USER_NAME_OR_PASSWORD] * 2 + [reason_codes.CONNECTION_RATE_EXCEEDED]
    assert code("198.51.100.8", b"correct horse") == 0


def refused(broker: BrokerProcess, first: bytes) -> dict[str, Any]:
    """What the log says of a connection that is closed without an answer."""
    with socket.create_connection(broker.address(), timeout=20) as client:
        client.sendall(first)
        try:
            assert client.recv(100) == b""
        except ConnectionResetError:
            pass
    return wait_for_event(broker, REFUSED)[-1]


def test_without_a_header(start: Start) -> None:
    """A client that comes directly to such a listener is refused, and the log says why."""
    broker = behind(start)
    event = refused(broker, b"\x10\x0c\x00\x04MQTT")
    assert (event["listener"], event["reason"]) == ("tcp", "it begins with something else than a PROXY header")


def test_from_elsewhere(start: Start) -> None:
    """Only trusted proxies may say who their clients are."""
    broker = behind(start, "192.0.2.0/24")
    event = refused(broker, f"PROXY TCP4 {KNOWN} 127.0.0.1 1 2\r\n".encode())
    assert event["reason"] == "its address is not among listeners[].proxy_protocol.trusted"
    assert event["peer"].startswith("127.0.0.1:")


def test_header_that_does_not_come(start: Start) -> None:
    """The header has to come within the time that a connection has until it is authenticated."""
    broker = behind(start, mqtt={"connect_timeout": "300ms"})
    event = refused(broker, b"PROXY TCP4")
    assert event["reason"] == "no complete header within 0.3 s"


def test_websocket(start: Start) -> None:
    """The header comes before WebSocket too."""
    broker = behind(start, listener={"websocket": {}})
    header = f"PROXY TCP4 {KNOWN} 127.0.0.1 1 2\r\n".encode()
    with socket.create_connection(broker.address(), timeout=20) as client:
        upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        client.sendall(header + b"GET /wrong HTTP/1.1\r\nHost: a\r\n" + upgrade + key + b"\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 404")
