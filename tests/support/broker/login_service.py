"""A service that decides about logins over HTTP: a thread that answers as a test says, and keeps what it was asked."""

import asyncio
import json
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.auth.authenticators.authenticator import Login
from config.http import Http
from tests.support.broker.serving import serving
from tests.support.certificates import Certificate

if TYPE_CHECKING:
    from broker.auth.authenticators.http import HttpAuthenticator

LOGIN = Login("ann", b"hunter2", "sensor", "tcp", "10.0.0.9", "box")


class Asked(NamedTuple):
    """One request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class LoginService(ThreadingHTTPServer):
    """Answers what `decide` returns: a status, and a body."""

    daemon_threads = True

    def __init__(self, certificate: Certificate | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[Asked] = []
        self.decide: Callable[[dict[str, Any]], tuple[int, object]] = lambda _: (200, None)
        self.location = ""
        self.drop = 0
        """Connections that are closed after this many answers; 0 = none."""
        self.at_once = 0
        """Requests that are being answered."""
        self.most_at_once = 0
        self.lock = threading.Lock()
        self._scheme = "http"
        if certificate is not None:
            self._scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.certfile, certificate.keyfile)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    @property
    def url(self) -> str:
        """Where."""
        return f"{self._scheme}://127.0.0.1:{self.server_address[1]}/login"

    def handle_error(self, *_: Any) -> None:
        """A client that does not trust the certificate is no trouble of the service."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LoginService

    def do_POST(self) -> None:
        server = self.server
        with server.lock:
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server.asked.append(Asked(self.path, dict(self.headers), body))
        status, content = server.decide(body)
        with server.lock:
            server.at_once -= 1
        encoded = content if isinstance(content, bytes) else b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        if server.location:
            self.send_header("Location", server.location)
        if status != 204:
            self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)
        if server.drop and len(server.asked) % server.drop == 0:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


def login_service(certificate: Certificate | None = None) -> AbstractContextManager[LoginService]:
    """A service; with a certificate by TLS."""
    return serving(LoginService(certificate))


@asynccontextmanager
async def asking(url: str, **own: Any) -> AsyncIterator["HttpAuthenticator"]:
    """An authenticator that asks this address, and ends as with the broker."""
    from broker.auth.authenticators.http import HttpAuthenticator  # needs the extra `http`

    # This machine may be slow.
    authenticator = HttpAuthenticator(Http.model_validate({"url": url, "timeout": 60, **own}))
    jobs = [asyncio.create_task(job()) for job in authenticator.jobs]
    try:
        await asyncio.sleep(0)  # they have begun
        yield authenticator
    finally:
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
