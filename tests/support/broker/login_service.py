"""A service that decides about logins over HTTP: a thread that answers as a test says, and keeps what it was asked."""

import json
import ssl
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.support.broker.serving import serving
from tests.support.certificates import Certificate


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
