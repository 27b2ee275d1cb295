"""Connections whose client has gone or sends too slowly: they are closed, and single bytes do not keep them open."""

import itertools
import socket
import time

import pytest

from broker.server.listening import open_sockets
from protocol.connect import Connect
from tests.broker.conftest import Start
from tests.support.broker.tls_client import client_hello
from tests.support.brokers import LOOPS, Listener
from tests.support.certificates import Certificates
from tests.support.wire import WireClient, connected

FEW_MINUTES = 300


def option(sock: socket.socket, name: str) -> int:
    """What a TCP option is set to."""
    return sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_dead_peers_are_noticed(host: str) -> None:
    """TCP keep-alive probes silent peers, and closes those that do not answer within minutes."""
    (listener,) = await open_sockets(host, 0)
    with listener, socket.create_connection(listener.getsockname()[:2]):
        listener.settimeout(5)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            probing = option(accepted, "TCP_KEEPINTVL") * option(accepted, "TCP_KEEPCNT")
            silence = option(accepted, "TCP_KEEPIDLE") + probing
            assert 60 <= silence <= FEW_MINUTES


async def test_systems_without_these_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without TCP keep-alive options on a system the listener is opened nevertheless."""
    for name in ("TCP_KEEPIDLE", "TCP_NOTSENT_LOWAT"):
        monkeypatch.delattr(socket, name)
    (listener,) = await open_sockets("127.0.0.1", 0)
    listener.close()


def trickle(sock: socket.socket, data: bytes, pause: float = 0.05) -> float:
    """Send byte by byte until the other side closes; returns how long it let us."""
    began = time.monotonic()
    sock.settimeout(pause)
    for number in itertools.count():
        assert number < len(data), "it was let go on to the end"
        try:
            sock.sendall(data[number : number + 1])
            if sock.recv(100) == b"":
                break
        except TimeoutError:
            continue
        except ConnectionError:
            break
    return time.monotonic() - began


@pytest.mark.parametrize("loop", LOOPS)
def test_connect_byte_by_byte(start: Start, loop: str) -> None:
    """CONNECT must be complete within connect_timeout; parts of it do not extend the time."""
    with start(command=LOOPS[loop], sections={"mqtt": {"connect_timeout": "500ms"}}) as broker:
        with socket.create_connection(broker.address()) as slow:
            assert 0.4 < trickle(slow, Connect("c" * 500).encode(4)) < 4
        with connected(broker.address(), 4) as other:
            other.expect_nothing_more()


@pytest.mark.parametrize("loop", LOOPS)
def test_tls_handshake_byte_by_byte(start: Start, certificates: Certificates, loop: str) -> None:
    """The same limit holds for the TLS handshake together with CONNECT."""
    with start(
        (Listener("tls", certificates),), command=LOOPS[loop], sections={"mqtt": {"connect_timeout": "500ms"}}
    ) as broker:
        address = broker.address("tls")
        context = certificates.client_context(with_certificate=False)
        with socket.create_connection(address) as slow:
            assert 0.4 < trickle(slow, client_hello(address, context)) < 4
        with WireClient(address, 4, tls=context) as slow_later:
            assert 0.4 < trickle(slow_later.socket, Connect("c" * 500).encode(4)) < 4
        with WireClient(address, 4, tls=context) as other:
            assert other.connect().reason_code == 0
