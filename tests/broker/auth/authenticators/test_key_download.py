"""Downloads of keys from servers that never come to an end."""

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

import pytest

from broker.auth.authenticators import key_download
from broker.auth.authenticators.key_download import MOST_BYTES, download
from config.tokens import Jwt
from tests.broker.conftest import Start
from tests.support.broker.logins import NO_LIMITS
from tests.support.certificates import Certificates
from tests.support.waiting import wait_until

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n"
HALF = b"HTTP/1.1 200 OK\r\nX-A: "


class Dripping:
    """Sends the beginning of an answer to each client, and then a byte now and then, until they go."""

    def __init__(self, listening: socket.socket, begin: bytes, tls: ssl.SSLContext | None) -> None:
        self._listening = listening
        self._begin = begin
        self._tls = tls
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{listening.getsockname()[1]}/keys"
        self.asked = threading.Event()
        self.left = threading.Event()

    def run(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._drip, args=(client,), daemon=True).start()

    def given_up(self) -> bool:
        """Whether neither a thread nor a connection is left; on a busy machine there may have been no connection."""
        return not running() and self.left.is_set() == self.asked.is_set()

    def _drip(self, client: socket.socket) -> None:
        with client if self._tls is None else self._tls.wrap_socket(client, server_side=True) as client:
            try:
                client.recv(4096)
                self.asked.set()
                client.sendall(self._begin)
                while True:
                    client.sendall(b" ")
                    client.settimeout(0.02)
                    try:
                        if not client.recv(1):
                            break
                    except TimeoutError:
                        pass
            except OSError:
                pass
            self.left.set()


@contextmanager
def dripping(begin: bytes, tls: ssl.SSLContext | None = None) -> Iterator[Dripping]:
    """Have such a server run."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = Dripping(listening, begin, tls)
        threading.Thread(target=server.run, daemon=True).start()
        yield server
        listening.shutdown(socket.SHUT_RDWR)


def own(url: str, **more: object) -> Jwt:
    """Tokens whose keys are at an address."""
    return Jwt.model_validate({"algorithms": ["RS256"], "jwks_url": url, **more})


def running() -> bool:
    """Whether a download has a thread."""
    return any(thread.name == "keys" for thread in threading.enumerate())


@pytest.mark.parametrize("begin", [b"", HALF, HEAD], ids=["nothing", "head", "body"])
async def test_server_that_drips(monkeypatch: pytest.MonkeyPatch, begin: bytes) -> None:
    """There is a time for the whole answer, after which neither a thread nor a connection is left."""
    monkeypatch.setattr(key_download, "LONGEST", 0.3)
    with dripping(begin) as server:
        with pytest.raises(OSError, match="was not there within"):
            await download(own(server.url))
        await asyncio.to_thread(wait_until, server.given_up, "it has been given up")


@pytest.mark.parametrize("begin", [HALF, HEAD], ids=["head", "body"])
async def test_server_that_drips_with_tls(
    monkeypatch: pytest.MonkeyPatch, certificates: Certificates, begin: bytes
) -> None:
    """The same over TLS."""
    monkeypatch.setattr(key_download, "LONGEST", 2.0)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates.server.certfile, certificates.server.keyfile)
    with dripping(begin, tls) as server:
        with pytest.raises(OSError, match="was not there within"):
            await download(own(server.url, jwks_cafile=certificates.cafile))
        assert server.asked.is_set()
        await asyncio.to_thread(wait_until, server.given_up, "it has been given up")


async def test_cancelled() -> None:
    """Whoever stops waiting ends the download."""
    with dripping(HEAD) as server:
        task = asyncio.create_task(download(own(server.url)))
        await asyncio.to_thread(server.asked.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(wait_until, server.given_up, "it has been given up")


async def test_given_up_before_it_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is connected when nobody waits any more asks nothing, and ends at once."""
    monkeypatch.setattr(key_download, "LONGEST", 0.1)
    connect, may_connect = HTTPConnection.connect, threading.Event()

    def late(connection: HTTPConnection) -> None:
        assert may_connect.wait(30)
        connect(connection)

    monkeypatch.setattr(HTTPConnection, "connect", late)
    with dripping(b"") as server:
        with pytest.raises(OSError, match="was not there within"):
            await download(own(server.url))
        may_connect.set()
        await asyncio.to_thread(wait_until, lambda: not running(), "its thread has ended")


async def test_large_answer() -> None:
    """No more is read than a set of keys may have."""
    with dripping(HEAD + b"x" * (MOST_BYTES + 100)) as server:
        assert len(await download(own(server.url))) == MOST_BYTES + 1


def test_broker_stops_during_a_download(start: Start) -> None:
    """A server that drips does not keep a broker from ending."""
    with dripping(HEAD) as server:
        jwt = {"algorithms": ["RS256"], "jwks_url": server.url}
        broker = start(sections={"allow_anonymous": None, "authentication": {"jwt": jwt, **NO_LIMITS}})
        assert server.asked.wait(30)
        began = time.monotonic()
        assert broker.stop(60) == 0
        assert time.monotonic() - began < 20
