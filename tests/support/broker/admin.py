"""The admin API as a client sees it: requests over its Unix socket or TCP, and lists of a broker."""

import http.client
import json
import socket
import ssl
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.broker.events import wait_for_event
from tests.support.process import Address, BrokerProcess

Row = dict[str, Any]

TIMEOUT = 20.0

HEALTH = b"GET /health HTTP/1.1\r\nHost: sluice\r\n\r\n"


class Answer(NamedTuple):
    """The answer to one request."""

    status: int
    headers: dict[str, str]
    """By lower-case name."""
    text: str

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.text)


class Unix(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("sluice", timeout=TIMEOUT)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect(str(self._path))


def request(
    where: Path | Address,
    target: str,
    method: str = "GET",
    body: object = None,
    token: str = "",
    tls: ssl.SSLContext | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """The answer to one request, over a connection of its own; `body`: bytes as they are, anything else as JSON."""
    connection: http.client.HTTPConnection
    if isinstance(where, Path):
        connection = Unix(where)
    elif tls is not None:
        connection = http.client.HTTPSConnection(*where, timeout=TIMEOUT, context=tls)
    else:
        connection = http.client.HTTPConnection(*where, timeout=TIMEOUT)
    all_headers = dict(headers or {}) | ({"Authorization": f"Bearer {token}"} if token else {})
    sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    if sent is not None:
        all_headers["Content-Type"] = "application/json"
    with closing(connection):
        connection.request(method, target, sent, all_headers)
        answer = connection.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, named, answer.read().decode())


def wait_for_api(broker: BrokerProcess, path: Path) -> None:
    """Wait until the admin API is loaded, which the first request asks for: commands say so if it takes seconds."""
    wait_for_event(broker, "admin_socket")
    assert request(path, "/api/v1/configuration").status == 200


def listed(path: Path, what: str = "sessions", query: str = "") -> Any:
    """A page of a list; `query` such as `sort=drops&limit=3`."""
    answer = request(path, f"/api/v1/{what}?{query}")
    assert answer.status == 200, answer.text
    return answer.json


def ask(path: Path, what: str = "sessions", sort: str = "mqueue", limit: int = 20) -> list[Row]:
    """The items of a list."""
    items: list[Row] = listed(path, what, f"sort={sort}&limit={limit}")["items"]
    return items


def peer(path: Path) -> socket.socket:
    """A connection to the Unix socket, for a peer that does not do what HTTP says."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(TIMEOUT)
    connection.connect(str(path))
    return connection


def refused(path: Path) -> bool:
    """Whether another connection is refused."""
    with suppress(ConnectionError):
        return request(path, "/health").status == 503
    return True
