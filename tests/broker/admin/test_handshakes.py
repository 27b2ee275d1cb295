"""TLS handshakes of the admin API: how many may be under way, and what comes with their last bytes."""

import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.support.broker.admin import HEALTH, request
from tests.support.broker.events import events, wait_for_event
from tests.support.brokers import LOOPS, start_sluice
from tests.support.certificates import Certificates
from tests.support.process import Address
from tests.support.waiting import wait_until

pytestmark = pytest.mark.once


@pytest.fixture(params=LOOPS)
def address(request: pytest.FixtureRequest, tmp_path: Path, certificates: Certificates) -> Iterator[Address]:
    """Where the API is served over TLS, by each event loop."""
    tls = {"certfile": str(certificates.server.certfile), "keyfile": str(certificates.server.keyfile)}
    admin = {"socket": None, "listen": "127.0.0.1:0", "tls": tls, "tokens": [{"name": "a", "sha256": "0" * 64}]}
    with start_sluice(tmp_path, sections={"admin": admin}, command=LOOPS[request.param]) as running:
        (event,) = wait_for_event(running, "admin_listening")
        yield Address("127.0.0.1", int(str(event["port"])))


@pytest.fixture
def context(certificates: Certificates) -> ssl.SSLContext:
    """What a client needs to trust the server."""
    return certificates.client_context(with_certificate=False)


def test_half_open_connections(address: Address, context: ssl.SSLContext) -> None:
    """Of 200 connections that begin no handshake at most 64 stay, the latest, and others are served."""
    assert request(address, "/health", tls=context).status == 200
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(address)) for _ in range(200)]
        for each in silent:
            each.setblocking(False)

        def gone() -> list[bool]:
            return [_is_closed(each) for each in silent]

        wait_until(lambda: sum(gone()) >= 200 - 64, "the first ones are closed")
        assert gone() == [True] * (200 - 64) + [False] * 64
        assert request(address, "/health", tls=context).status == 200


@pytest.mark.parametrize("loop", LOOPS)
def test_out_of_descriptors(loop: str, tmp_path: Path, certificates: Certificates) -> None:
    """Without free file descriptors the log says so once, and peers are served as soon as there are some."""
    tls = {"certfile": str(certificates.server.certfile), "keyfile": str(certificates.server.keyfile)}
    admin = {"socket": None, "listen": "127.0.0.1:0", "tls": tls, "tokens": [{"name": "a", "sha256": "0" * 64}]}
    context = certificates.client_context(with_certificate=False)
    with start_sluice(tmp_path, sections={"admin": admin}, command=LOOPS[loop]) as running:
        (event,) = wait_for_event(running, "admin_listening")
        address = Address("127.0.0.1", int(str(event["port"])))
        assert request(address, "/health", tls=context).status == 200
        process, files = psutil.Process(running.pid), running.open_files()
        _, hard = process.rlimit(resource.RLIMIT_NOFILE)
        process.rlimit(resource.RLIMIT_NOFILE, (files, hard))
        with ExitStack() as stack:
            for _ in range(4):  # that of the request may have been among those that were counted
                stack.enter_context(socket.create_connection(address))
            wait_for_event(running, "cannot_accept")
        process.rlimit(resource.RLIMIT_NOFILE, (hard, hard))
        assert request(address, "/health", tls=context).status == 200
        assert len(events(running, "cannot_accept")) == 1
        assert events(running, "crash") == []


def test_request_with_the_last_bytes_of_the_handshake(address: Address, context: ssl.SSLContext) -> None:
    """A client that sends its request together with the end of its handshake gets its answer."""
    assert request(address, "/health", tls=context).status == 200
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with socket.create_connection(address) as plain:
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(outgoing.read())
                incoming.write(plain.recv(65_536))
        client.write(HEALTH)
        plain.sendall(outgoing.read())
        answer = b""
        while not answer:
            incoming.write(plain.recv(65_536))
            try:
                answer = client.read(12)
            except ssl.SSLWantReadError:
                pass
        assert answer == b"HTTP/1.1 200"


def test_what_is_not_tls(address: Address, context: ssl.SSLContext) -> None:
    """Plain HTTP is closed without an answer, and others are served."""
    with socket.create_connection(address) as plain:
        plain.sendall(HEALTH)
        received = plain.recv(65_536)
        assert not received.startswith(b"HTTP")
    assert request(address, "/health", tls=context).status == 200


def _is_closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
