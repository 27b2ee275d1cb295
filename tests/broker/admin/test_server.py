"""The admin server: when it loads the application, how many it serves, and peers that do not wait."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from broker.admin import client
from broker.admin.client import AdminError
from tests.broker.conftest import Start
from tests.support.broker.admin import HEALTH, peer, refused, request
from tests.support.broker.events import events, wait_for_event
from tests.support.brokers import start_sluice
from tests.support.certificates import Certificates, make_certificates
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import connected

pytestmark = pytest.mark.once


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


def test_several_at_once_before_it_is_loaded(path: Path) -> None:
    """Who asks while the application is being loaded gets an answer too, and MQTT is served meanwhile."""
    with ExitStack() as stack:
        peers = [stack.enter_context(peer(path)) for _ in range(5)]
        for each in peers:
            each.sendall(HEALTH)
        assert [each.recv(12) for each in peers] == [b"HTTP/1.1 200"] * 5


def test_large_request_before_it_is_loaded(path: Path) -> None:
    """What comes in pieces while the application is being loaded is read in order."""
    with peer(path) as early:
        early.sendall(b"GET /health HTTP/1.1\r\nHost: sluice\r\nX: " + b"x" * 30_000)
        early.sendall(b"\r\n\r\n")
        assert early.recv(12) == b"HTTP/1.1 200"


FAILS_TWICE = """
import broker.admin.server as server
server.LOAD_AGAIN = {pause}
imported, failed = server.AdminServer._imported, []
def fail(self):
    if len(failed) < 2:
        failed.append(1)
        raise ImportError("a part is missing")
    return imported(self)
server.AdminServer._imported = fail
"""


@contextmanager
def broken(folder: Path, pause: int) -> Iterator[BrokerProcess]:
    """A broker that cannot load the application twice; `pause`: microseconds between two tries."""
    sections = {"admin": {"socket": "a.sock"}}
    broker = start_sluice(folder, sections=sections, prepare=FAILS_TWICE.format(pause=pause))
    try:
        wait_for_event(broker, "admin_socket")
        yield broker
    finally:
        assert broker.stop() == 0


def test_application_that_cannot_be_loaded(tmp_path: Path) -> None:
    """Who asks while it cannot be loaded is disconnected at once, and it is tried again."""
    with broken(tmp_path, pause=0) as broker:
        for count in (1, 2):
            with pytest.raises(ConnectionError):
                request(tmp_path / "a.sock", "/health")
            assert len(wait_for_event(broker, "admin_failed", count)) == count
        assert request(tmp_path / "a.sock", "/health").status == 200
        with connected(broker.address(), 5) as other:
            other.publish("t", b"x", 1)


def test_application_is_not_loaded_again_too_soon(tmp_path: Path) -> None:
    """Each try takes a part of the broker's time: within a minute those who ask are only disconnected."""
    with broken(tmp_path, pause=60_000_000) as broker:
        for _ in range(3):
            with pytest.raises(ConnectionError):
                request(tmp_path / "a.sock", "/health")
    assert len(events(broker, "admin_failed")) == 1


def test_connections_are_bounded(start: Start, tmp_path: Path) -> None:
    """The broker refuses a 65th connection until one of the 64 has ended."""
    patient = "import broker.admin.server as server; server.PATIENCE = 60.0"
    broker = start(sections={"admin": {"socket": "a.sock"}}, prepare=patient)
    wait_for_event(broker, "admin_socket")
    path = tmp_path / "a.sock"
    assert request(path, "/health").status == 200
    with ExitStack() as stack:
        peers = [stack.enter_context(peer(path)) for _ in range(64)]
        wait_until(lambda: refused(path), "all of them count")
        with pytest.raises(AdminError, match="64 others are connected"):
            client.ask(path, "/sessions")
        peers[0].close()
        wait_until(lambda: not refused(path), "there is room")


def test_wrong_http(path: Path) -> None:
    """What is not HTTP is answered with 400, and others are served."""
    assert request(path, "/health").status == 200
    with peer(path) as wrong:
        wrong.sendall(b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00\r\n\r\n")
        assert wrong.recv(12) == b"HTTP/1.1 400"
    assert request(path, "/health").status == 200


def test_gone_before_the_answer(path: Path) -> None:
    """A peer that closes before its answer does not disturb the others."""
    for _ in range(20):
        with peer(path) as gone:
            gone.sendall(HEALTH)
    wait_until(lambda: request(path, "/health").status == 200, "an answer")


def test_mqtt_during_a_flood(broker: BrokerProcess, path: Path) -> None:
    """The broker serves MQTT clients while a peer sends many requests at once and reads no answer."""
    with peer(path) as flood, connected(broker.address(), 5) as publisher:
        flood.sendall(b"GET /api/v1/sessions HTTP/1.1\r\nHost: sluice\r\n\r\n" * 1_000)
        for _ in range(100):
            publisher.publish("t", b"x", 1)


def test_tls(tmp_path: Path, certificates: Certificates) -> None:
    """With admin.tls the API is served over TLS, and not in clear."""
    tls = {"certfile": str(certificates.server.certfile), "keyfile": str(certificates.server.keyfile)}
    admin = {"socket": None, "listen": "127.0.0.1:0", "tls": tls, "tokens": [{"name": "a", "sha256": "0" * 64}]}
    with start_sluice(tmp_path, sections={"admin": admin}) as running:
        (event,) = wait_for_event(running, "admin_listening")
        address = Address("127.0.0.1", int(str(event["port"])))
        assert request(address, "/health", tls=certificates.client_context(with_certificate=False)).status == 200
        browser = certificates.client_context(with_certificate=False)
        browser.set_alpn_protocols(["h2", "http/1.1"])
        with socket.create_connection(address) as plain, browser.wrap_socket(plain, server_hostname="127.0.0.1") as own:
            assert own.selected_alpn_protocol() == "http/1.1"
        with pytest.raises(ConnectionError):
            request(address, "/health")


def test_renewed_certificate(tmp_path: Path) -> None:
    """A certificate of the API that is renewed is shown to new connections without a reload."""
    for folder in (tmp_path / "own", tmp_path / "new"):
        folder.mkdir()
    own, new = make_certificates(tmp_path / "own"), make_certificates(tmp_path / "new")
    tls = {"certfile": str(own.server.certfile), "keyfile": str(own.server.keyfile)}
    admin = {"socket": None, "listen": "127.0.0.1:0", "tls": tls, "tokens": [{"name": "a", "sha256": "0" * 64}]}
    with start_sluice(tmp_path, sections={"admin": admin}) as running:
        (event,) = wait_for_event(running, "admin_listening")
        address = Address("127.0.0.1", int(str(event["port"])))
        old, renewed = (each.client_context(with_certificate=False) for each in (own, new))
        assert request(address, "/health", tls=old).status == 200
        for part in ("certfile", "keyfile"):
            getattr(new.server, part).rename(getattr(own.server, part))
        (read,) = wait_for_event(running, "file_read")
        assert read["key"] == "admin.tls.certfile, admin.tls.keyfile"
        assert request(address, "/health", tls=renewed).status == 200
        with pytest.raises(ssl.SSLError):
            request(address, "/health", tls=old)
