"""/health and /ready: what they say of a broker that serves, and of one that does not."""

import signal
from pathlib import Path

import pytest

from broker.server.server import Server
from config.models import Config
from tests.broker.conftest import Start
from tests.support.broker.admin import request
from tests.support.broker.events import wait_for_event
from tests.support.wire import WireClient, connected

pytestmark = pytest.mark.once


def test_a_broker_that_serves(path: Path) -> None:
    """A broker that accepts clients is healthy and ready."""
    assert request(path, "/health").json == {"status": "ok", "reasons": []}
    assert request(path, "/ready").json == {"ready": True, "reasons": []}


def test_before_and_after() -> None:
    """A broker that has not begun to serve, or that stops, says so."""
    server = Server(Config())
    assert server.unready() == ["the broker starts"]
    server.stop()
    assert server.unready() == ["the broker starts", "the broker stops"]


def test_while_it_stops(start: Start, tmp_path: Path) -> None:
    """While the broker waits for its last clients, /ready is 503 with the reason."""
    broker = start(sections={"admin": {"socket": "a.sock"}})
    wait_for_event(broker, "admin_socket")
    path = tmp_path / "a.sock"
    assert request(path, "/ready").status == 200
    with WireClient(broker.address(), 5, receive_buffer=1024) as slow:
        slow.connect("slow")
        slow.subscribe("t")
        with connected(broker.address(), 5) as sender:
            for _ in range(200):
                sender.publish("t", b"x" * 50_000)  # more than the sockets take: the broker has to wait for this client
            sender.expect_nothing_more()
        broker.ask_to_end(signal.SIGTERM)
        wait_for_event(broker, "stopping")
        answer = request(path, "/ready")
    assert (answer.status, answer.json) == (503, {"ready": False, "reasons": ["the broker stops"]})
