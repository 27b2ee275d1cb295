"""HEAD, OPTIONS and upgrades on the admin API."""

import http.client
from contextlib import closing

import pytest

from tests.broker.admin.api.conftest import VIEWER
from tests.support.broker.admin import TIMEOUT, request
from tests.support.process import Address, BrokerProcess

pytestmark = pytest.mark.once


@pytest.mark.parametrize("target", ["/health", "/ready", "/metrics", "/"])
def test_head(tcp: Address, target: str) -> None:
    """HEAD has the status and the headers of GET, and no body, on a connection that goes on."""
    with closing(http.client.HTTPConnection(*tcp, timeout=TIMEOUT)) as connection:
        for method in ("HEAD", "GET"):
            connection.request(method, target, headers={"Authorization": f"Bearer {VIEWER}"})
            answer = connection.getresponse()
            text = answer.read()
            assert (answer.status, bool(text)) == (200, method == "GET")
            assert int(answer.headers["content-length"]) > 0
    assert request(tcp, "/metrics", "HEAD").status == 401
    assert request(tcp, "/api/v1/stream", "HEAD", token=VIEWER).status == 405


@pytest.mark.parametrize(
    ("target", "allowed"),
    [
        ("/health", "GET, HEAD, OPTIONS"),
        ("/api/v1/publish", "OPTIONS, POST"),
        ("/api/v1/sessions/a/b", "DELETE, GET, OPTIONS"),
    ],
)
def test_options(tcp: Address, target: str, allowed: str) -> None:
    """OPTIONS names the methods of a path, and allows no other origin."""
    answer = request(tcp, target, "OPTIONS")
    assert (answer.status, answer.headers["allow"], answer.text) == (204, allowed, "")
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert request(tcp, "/nothing", "OPTIONS").status == 404


def test_upgrade(broker: BrokerProcess, tcp: Address) -> None:
    """A request for WebSocket is refused, and neither it nor what is not HTTP is in the log."""
    with closing(http.client.HTTPConnection(*tcp, timeout=TIMEOUT)) as connection:
        connection.request("GET", "/", headers={"Connection": "Upgrade", "Upgrade": "websocket"})
        answer = connection.getresponse()
        assert (answer.status, b"no WebSocket" in answer.read()) == (400, True)
    assert request(tcp, "/health").status == 200
    assert "uvicorn" not in broker.stderr
