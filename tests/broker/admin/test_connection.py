"""Connections of the admin API whose peers keep the broker waiting: they send no request, or do not read the answer."""

from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.broker.conftest import Start
from tests.support.broker.admin import HEALTH, peer, refused, request
from tests.support.broker.events import wait_for_event
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.once

SCRIPT = b"GET /dashboard/uplot.js HTTP/1.1\r\nHost: sluice\r\n\r\n"


@pytest.fixture
def broker(start: Start) -> BrokerProcess:
    """A broker that nobody has asked yet."""
    broker = start(sections={"admin": {"socket": "a.sock"}})
    wait_for_event(broker, "admin_socket")
    return broker


@pytest.fixture
def path(broker: BrokerProcess) -> Path:
    """Its socket."""
    return broker.folder / "a.sock"


PARTS = [
    b"",
    b"GET /hea",
    HEALTH + b"GET /hea",
    b"POST /api/v1/publish HTTP/1.1\r\nHost: sluice\r\nContent-Length: 20\r\n\r\n{",
    b"POST /api/v1/nothing HTTP/1.1\r\nHost: sluice\r\nContent-Length: 20\r\n\r\n{",
]


def test_silent_peers(path: Path) -> None:
    """Who does not send a whole request within ten seconds is disconnected, also after an earlier request."""
    with ExitStack() as stack:
        peers = [stack.enter_context(peer(path)) for _ in PARTS]
        for silent, sent in zip(peers, PARTS, strict=True):
            silent.sendall(sent)
        for silent in peers:
            with suppress(ConnectionError):
                while silent.recv(65_536):
                    pass


def test_slow_answers(path: Path) -> None:
    """Who waits for an answer is not disconnected, however long it takes: here a stream."""
    with peer(path) as patient:
        patient.sendall(b"GET /api/v1/stream HTTP/1.1\r\nHost: sluice\r\n\r\n")
        patient.settimeout(30)
        received = b""
        while received.count(b"data: ") < 12:
            received += patient.recv(65_536)


@pytest.mark.parametrize("sent", [b"", SCRIPT * 200])
def test_waiting_peers_make_room(path: Path, sent: bytes) -> None:
    """64 peers that send nothing, or do not read what they have asked for, do not keep others out for long."""
    assert request(path, "/health").status == 200
    with ExitStack() as stack:
        for _ in range(64):
            stack.enter_context(peer(path)).sendall(sent)
        wait_until(lambda: not refused(path), "there is room")
        assert all(not refused(path) for _ in range(10))


def test_peers_that_do_not_read(start: Start, tmp_path: Path) -> None:
    """Who reads nothing of what they have asked for is disconnected after a while."""
    soon = "import broker.admin.connection as connection; connection.READ_TIMEOUT = 1.0"
    broker = start(sections={"admin": {"socket": "a.sock"}}, prepare=soon)
    wait_for_event(broker, "admin_socket")
    path = tmp_path / "a.sock"
    assert request(path, "/health").status == 200
    before = broker.open_files()  # that of the request may still be among them
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(peer(path)).sendall(SCRIPT * 200)
        wait_until(lambda: broker.open_files() > before + 3, "they are connected")
        wait_until(lambda: broker.open_files() <= before, "they are disconnected")
