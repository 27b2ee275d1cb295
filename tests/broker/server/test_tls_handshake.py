"""TLS handshakes that fail: the client gets the alert, and the log has its address and the reason."""

import asyncio
import socket
import ssl
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import trustme

from broker.broker import Broker
from broker.runtime.clock import SECOND, monotonic_us
from broker.server import tls_handshake
from broker.server.listening import MQTT, server_contexts
from config.models import Config
from config.tls import Tls
from protocol.connect import Connect
from tests.broker.conftest import Start
from tests.support.broker.events import events, wait_for_event
from tests.support.broker.tls_client import client_hello
from tests.support.brokers import LOOPS, Listener, start_sluice
from tests.support.certificates import Certificates
from tests.support.process import Address, BrokerProcess
from tests.support.wire import WireClient

FAILED = "tls_handshake_failed"
Change = Callable[[ssl.SSLContext, Path], None]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Who signs everything here."""
    return trustme.CA()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, authority: trustme.CA) -> Path:
    """A folder with the PEM files of the authority, the server, and of clients good and bad."""
    folder = tmp_path_factory.mktemp("pem")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    now = datetime.now(UTC)
    for name, issued in (
        ("server", authority.issue_cert("127.0.0.1", "localhost")),
        ("expired", authority.issue_cert("a@example.org", not_after=now - timedelta(days=1))),
        ("stranger", trustme.CA().issue_cert("b@example.org")),
    ):
        issued.private_key_and_cert_chain_pem.write_to_path(str(folder / f"{name}.pem"))
    return folder


@pytest.fixture(scope="module", params=LOOPS)
def running(
    tmp_path_factory: pytest.TempPathFactory, files: Path, certificates: Certificates, request: pytest.FixtureRequest
) -> Iterator[BrokerProcess]:
    """A broker with a listener that asks for nothing, one that requires a certificate, and one of TLS 1.3 only."""
    tls = {"certfile": str(files / "server.pem"), "cafile": str(files / "ca.pem")}
    new = tls | {"minimum_version": "1.3"}
    mutual = tls | {"require_client_certificate": True}
    kinds = {"tls": tls, "new": new, "mutual": mutual}
    bound = [{"name": name, "bind": "127.0.0.1:0", "tls": kind} for name, kind in kinds.items()]
    listeners = tuple(Listener(name) for name in kinds)
    folder = tmp_path_factory.mktemp("running")
    with start_sluice(folder, listeners, {"listeners": bound}, command=LOOPS[request.param]) as broker:
        yield broker


def client_context(files: Path) -> ssl.SSLContext:
    """What a client needs that shows no certificate."""
    return ssl.create_default_context(cafile=files / "ca.pem")


def at_most(version: ssl.TLSVersion) -> Change:
    """A client that speaks no later version."""

    def change(context: ssl.SSLContext, _: Path) -> None:
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        with warnings.catch_warnings(action="ignore"):  # it is old on purpose
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = version

    return change


def shows(name: str, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> Change:
    """A client that shows this certificate, or none."""

    def change(context: ssl.SSLContext, files: Path) -> None:
        context.maximum_version = version
        if name:
            context.load_cert_chain(files / f"{name}.pem")

    return change


def trusts_nobody(context: ssl.SSLContext, _: Path) -> None:
    """A client that does not know our authority."""
    context.load_verify_locations(cadata=trustme.CA().cert_pem.bytes().decode())


def odd_ciphers(context: ssl.SSLContext, _: Path) -> None:
    """A client that wants what we do not have."""
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AES256-SHA:@SECLEVEL=0")


OLD = ssl.TLSVersion.TLSv1_2
FAILURES: dict[str, tuple[str, Change, str, str]] = {
    # listener, client, reason in our log, alert at the client
    "TLS 1.1": (
        "tls",
        at_most(ssl.TLSVersion.TLSv1_1),
        "it speaks TLS 1.1 at most, and TLS 1.2 is the least here (minimum_version)",
        "PROTOCOL_VERSION",
    ),
    "TLS 1.2": (
        "new",
        at_most(OLD),
        "it speaks TLS 1.2 at most, and TLS 1.3 is the least here (minimum_version)",
        "PROTOCOL_VERSION",
    ),
    "ciphers": ("tls", odd_ciphers, "no cipher in common (ciphers)", "HANDSHAKE_FAILURE"),
    "none": (
        "mutual",
        shows(""),
        "it sent no certificate, but one is required (require_client_certificate)",
        "CERTIFICATE_REQUIRED",
    ),
    "none in 1.2": (
        "mutual",
        shows("", OLD),
        "it sent no certificate, but one is required (require_client_certificate)",
        "HANDSHAKE_FAILURE",
    ),
    "stranger": (
        "mutual",
        shows("stranger"),
        "its certificate is not signed by a known authority (cafile)",
        "UNKNOWN_CA",
    ),
    "stranger in 1.2": (
        "tls",
        shows("stranger", OLD),
        "its certificate is not signed by a known authority (cafile)",
        "UNKNOWN_CA",
    ),
    "expired": ("mutual", shows("expired"), "its certificate has expired", "CERTIFICATE_EXPIRED"),
}


def new_event(broker: BrokerProcess, before: int) -> dict[str, Any]:
    """The one line that there is more than before."""
    return wait_for_event(broker, FAILED, before + 1)[-1]


def peer(sock: socket.socket) -> str:
    """How the log names a client."""
    return "{}:{}".format(*sock.getsockname())


def speak(context: ssl.SSLContext, plain: socket.socket, address: Address) -> None:
    """Shake hands, send and read: with TLS 1.3 a client thinks that it is through before it is told that it is not."""
    with context.wrap_socket(plain, server_hostname=address.host) as secure:
        secure.sendall(Connect("c").encode(4))
        secure.recv(1)


@pytest.mark.parametrize("case", FAILURES)
def test_failures(running: BrokerProcess, files: Path, case: str) -> None:
    """The client reads the alert, even if it sends on before it reads; the log has one line."""
    listener, change, reason, alert = FAILURES[case]
    before = len(events(running, FAILED))
    context = client_context(files)
    change(context, files)
    address = running.address(listener)
    with socket.create_connection(address, timeout=20) as plain:
        name = peer(plain)
        with pytest.raises(ssl.SSLError) as raised:
            speak(context, plain, address)
        assert (raised.value.reason or "").endswith(alert)
    event = new_event(running, before)
    assert (event["level"], event["listener"], event["peer"], event["reason"]) == ("info", listener, name, reason)
    assert event["detail"]


def test_client_refuses(running: BrokerProcess, certificates: Certificates) -> None:
    """The alert of a client that does not trust the certificate is logged in words."""
    before = len(events(running, FAILED))
    with pytest.raises(ssl.SSLCertVerificationError):
        WireClient(running.address("tls"), tls=certificates.client_context(with_certificate=False))
    reason = new_event(running, before)["reason"]
    assert reason == "the client has refused: it does not know the authority that signed our certificate"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (Connect("c").encode(5), "its bytes are not TLS: they look like MQTT without TLS"),
        (b"GET /mqtt HTTP/1.1\r\nHost: x\r\n\r\n", "its bytes are not TLS: they look like an HTTP request"),
        (bytes(5_000), "its bytes are not TLS"),
    ],
    ids=["MQTT", "HTTP", "noise"],
)
def test_not_tls(running: BrokerProcess, data: bytes, reason: str) -> None:
    """Another protocol on a TLS port is logged as such, and closed."""
    before = len(events(running, FAILED))
    with socket.create_connection(running.address("tls"), timeout=20) as client:
        client.sendall(data)
        while client.recv(100):
            pass
        assert new_event(running, before)["reason"] == reason
    assert len(events(running, FAILED)) == before + 1


@pytest.mark.parametrize("how", ["fin", "reset"])
def test_closed_half_way(running: BrokerProcess, files: Path, how: str) -> None:
    """A client that closes in the middle of the handshake is logged."""
    before = len(events(running, FAILED))
    address = running.address("tls")
    client = WireClient(address)
    client.send(client_hello(address, client_context(files)))
    assert client.socket.recv(1)
    client.close() if how == "fin" else client.reset()
    assert new_event(running, before)["reason"].endswith("before the handshake was over")


def test_port_probe(running: BrokerProcess) -> None:
    """A connection that is closed without any data is not logged."""
    before = len(events(running, FAILED))
    with socket.create_connection(running.address("tls")):
        pass
    with socket.create_connection(running.address("tls")) as client:
        client.sendall(bytes(100))
        new_event(running, before)
    assert len(events(running, FAILED)) == before + 1


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not over within 0.5 s: the client has sent nothing"),
        (b"\x16\x03\x01", "not over within 0.5 s"),
        (b"\x10\x0c", "its bytes are not TLS"),
    ],
    ids=["silence", "TLS", "MQTT"],
)
def test_too_late(start: Start, certificates: Certificates, data: bytes, reason: str) -> None:
    """A handshake that takes longer than connect_timeout is cut off and logged."""
    broker = start((Listener("tls", certificates),), sections={"mqtt": {"connect_timeout": "500ms"}})
    with socket.create_connection(broker.address("tls"), timeout=20) as client:
        client.sendall(data)
        assert client.recv(1) == b""
    assert [event["reason"] for event in wait_for_event(broker, FAILED)] == [reason]


class Client:
    """In place of a TCP transport: a client that sends this at once."""

    def __init__(self, listener: tls_handshake.TlsListener, data: bytes) -> None:
        self.answered = False
        self.paused = False
        self.handshake = listener.accept(None)
        self.handshake.connection_made(cast("asyncio.Transport", self))
        self.handshake.data_received(data)

    def get_extra_info(self, _: str) -> None:
        return None

    def write(self, _: bytes) -> None:
        self.answered = True

    def write_eof(self) -> None:
        pass

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


@pytest.fixture
def listener(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> tls_handshake.TlsListener:
    """A listener without a socket, where each turn of the event loop has time for one handshake."""
    monkeypatch.setattr(tls_handshake, "TURN", 0)
    broker = Broker(Config(), monotonic_us())
    contexts = server_contexts(Tls(certfile=certificates.server.certfile, keyfile=certificates.server.keyfile), MQTT)
    return tls_handshake.TlsListener(
        broker.events, broker.wheel, broker.settings, "tls", contexts, lambda _: pytest.fail("no connection begins")
    )


@pytest.fixture
def hello(certificates: Certificates) -> bytes:
    """What a client sends first."""
    return client_hello(Address("localhost", 0), certificates.client_context(with_certificate=False))


@pytest.mark.asyncio
async def test_many_at_once(listener: tls_handshake.TlsListener, hello: bytes) -> None:
    """When a turn's time is over, no more handshakes begin in it; the others are not read until it is theirs."""
    clients = [Client(listener, hello) for _ in range(3)]
    for begun in (1, 2, 3):
        assert [client.answered for client in clients] == [number < begun for number in range(3)]
        assert [client.paused for client in clients] == [not client.answered for client in clients]
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert Client(listener, hello).answered


@pytest.mark.asyncio
async def test_several_in_one_turn(
    listener: tls_handshake.TlsListener, hello: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a turn has time, several handshakes begin in it, and later ones do not overtake those that wait."""
    monkeypatch.setattr(tls_handshake, "TURN", 3600 * SECOND)
    assert all(Client(listener, hello).answered for _ in range(3))
    await asyncio.sleep(0)
    monkeypatch.setattr(tls_handshake, "TURN", 0)
    clients = [Client(listener, hello) for _ in range(3)]
    monkeypatch.setattr(tls_handshake, "TURN", 3600 * SECOND)
    assert [client.answered for client in clients] == [True, False, False]
    assert not Client(listener, hello).answered
    await asyncio.sleep(0)
    assert all(client.answered for client in clients)


@pytest.mark.asyncio
async def test_gone_before_the_handshake_begins(listener: tls_handshake.TlsListener, hello: bytes) -> None:
    """A client that has closed while it waited is skipped, and logged as others are."""
    _, gone, last = (Client(listener, hello) for _ in range(3))
    gone.handshake.connection_lost(None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (gone.answered, last.answered) == (False, True)


@pytest.mark.asyncio
async def test_too_much_to_wait(listener: tls_handshake.TlsListener, hello: bytes) -> None:
    """A client that sends more at once than is held does not wait: it is refused at once."""
    _, waits = (Client(listener, hello) for _ in range(2))
    assert not waits.answered
    assert Client(listener, hello + bytes(tls_handshake.MOST_HELD)).answered
