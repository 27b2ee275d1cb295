"""Requests that a page from elsewhere has made a browser send are refused, on the Unix socket too."""

import http.client
from contextlib import closing
from pathlib import Path

import pytest

from tests.broker.admin.api.conftest import OPERATOR
from tests.support.broker.admin import TIMEOUT, Unix
from tests.support.process import Address

pytestmark = pytest.mark.once

HOST = "localhost:8080"


def status(where: Path | Address, method: str, target: str, **headers: str) -> int:
    """The status of the answer to a request with these headers."""
    connection = Unix(where) if isinstance(where, Path) else http.client.HTTPConnection(*where, timeout=TIMEOUT)
    with closing(connection):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, target, headers={"Host": HOST} | named)
        return connection.getresponse().status


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:8081", "http://localhost"])
def test_another_origin(path: Path, tcp: Address, origin: str) -> None:
    """What another page sends is refused, whatever it asks for, even with a token."""
    assert status(path, "DELETE", "/api/v1/clients/nobody", Origin=origin) == 403
    assert status(path, "POST", "/api/v1/reload", Origin=origin) == 403
    assert status(tcp, "GET", "/api/v1/broker", Origin=origin, Authorization=f"Bearer {OPERATOR}") == 403


def test_our_own_page(path: Path) -> None:
    """What the dashboard itself sends is answered, by `ssh -L 8080:SOCKET` too."""
    assert status(path, "GET", "/api/v1/broker", Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors") == 200
    assert status(path, "DELETE", "/api/v1/clients/nobody", Origin=f"http://{HOST}") == 404
    assert status(path, "GET", "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate") == 200


def test_another_site_without_an_origin(path: Path) -> None:
    """A GET of another page has no origin: the browser says what it is otherwise."""
    assert status(path, "GET", "/api/v1/broker", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors") == 403
    assert status(path, "GET", "/api/v1/broker", Sec_Fetch_Site="same-site", Sec_Fetch_Mode="cors") == 403


def test_a_link_of_another_site(path: Path) -> None:
    """Another site may lead a browser to the dashboard's page, and to nothing else: a trace would begin."""
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert status(path, "GET", "/", **link) == 200
    for target in ("/api/v1/trace?client_id=nobody&seconds=0.1", "/api/v1/broker", "/api/v1/docs", "/metrics"):
        assert status(path, "GET", target, **link) == 403


def test_a_name_for_this_machine(path: Path) -> None:
    """A name that its owner has given the address of this machine is refused where no token is needed."""
    assert status(path, "GET", "/api/v1/broker", Host="evil.example:8080") == 421
    for host in ("sluice", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST"):
        assert status(path, "GET", "/api/v1/broker", Host=host) == 200
