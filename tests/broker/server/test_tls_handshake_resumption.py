"""Resumption of TLS sessions: there is none where client certificates are verified, so that they are each time."""

import asyncio
import ssl
from collections.abc import Iterator
from typing import Any, cast

import pytest

from broker.broker import Broker
from broker.runtime.clock import monotonic_us
from broker.server.listening import MQTT, server_contexts
from broker.server.tls_handshake import TlsListener
from config.models import Config
from config.tls import Tls
from tests.support.broker.admin import request as ask
from tests.support.broker.events import wait_for_event
from tests.support.brokers import LOOPS, Listener, start_sluice
from tests.support.certificates import Certificates
from tests.support.process import Address, BrokerProcess
from tests.support.wire import WireClient

TLS_1_2 = ssl.TLSVersion.TLSv1_2
TLS_1_3 = ssl.TLSVersion.TLSv1_3


@pytest.fixture(scope="module", params=LOOPS)
def running(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates, request: pytest.FixtureRequest
) -> Iterator[BrokerProcess]:
    """A broker that does not ask for client certificates, asks for them, or requires them; its API requires them."""
    server = certificates.server
    no: dict[str, Any] = {"certfile": str(server.certfile), "keyfile": str(server.keyfile)}
    asked = no | {"cafile": str(certificates.cafile)}
    required = asked | {"require_client_certificate": True}
    kinds = {"no": no, "asked": asked, "required": required}
    sections = {
        "listeners": [{"name": name, "bind": "127.0.0.1:0", "tls": kind} for name, kind in kinds.items()],
        "admin": {"listen": "127.0.0.1:0", "tls": dict(required), "tokens": [{"name": "a", "sha256": "0" * 64}]},
    }
    listeners = tuple(Listener(name) for name in kinds)
    with start_sluice(tmp_path_factory.mktemp("running"), listeners, sections, command=LOOPS[request.param]) as broker:
        yield broker


def client_context(certificates: Certificates, version: ssl.TLSVersion, tickets: bool) -> ssl.SSLContext:
    """A client with a certificate, which speaks one version of TLS."""
    context = certificates.client_context(with_certificate=True)
    context.minimum_version = context.maximum_version = version
    if not tickets:
        context.options |= ssl.OP_NO_TICKET
    return context


@pytest.mark.parametrize("tickets", [True, False], ids=["tickets", "ids"])
@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3], ids=["1.2", "1.3"])
@pytest.mark.parametrize("listener", ["no", "asked", "required"])
def test_listeners(
    running: BrokerProcess, certificates: Certificates, listener: str, version: ssl.TLSVersion, tickets: bool
) -> None:
    """Sessions are resumed only where no certificates are asked for; elsewhere the client gets a full handshake."""
    address = running.address(listener)
    context = client_context(certificates, version, tickets)
    session: ssl.SSLSession | None = None
    resumed: list[bool | None] = []
    for _ in range(4):
        with WireClient(address, 5) as client:
            tls = client.socket = context.wrap_socket(client.socket, server_hostname=address.host, session=session)
            assert client.connect().reason_code == 0
            resumed.append(tls.session_reused)
            session = tls.session
    assert resumed == [False, *[listener == "no"] * 3]


def test_api(running: BrokerProcess, certificates: Certificates) -> None:
    """The admin API refuses a client that resumes a session of TLS 1.2; its next handshake is a full one."""
    (event,) = wait_for_event(running, "admin_listening")
    address = Address("127.0.0.1", int(str(event["port"])))
    context = client_context(certificates, TLS_1_2, True)
    with WireClient(address) as first, WireClient(address) as again, WireClient(address) as last:
        tls = first.socket = context.wrap_socket(first.socket, server_hostname=address.host)
        session = tls.session
        with pytest.raises(OSError, match=r"HANDSHAKE_FAILURE|EOF|reset"):  # asyncio closes without the alert
            context.wrap_socket(again.socket, server_hostname=address.host, session=session)
        tls = last.socket = context.wrap_socket(last.socket, server_hostname=address.host, session=session)
        assert not tls.session_reused
    assert ask(address, "/health", tls=client_context(certificates, TLS_1_3, True)).status == 200


class Tcp:
    """In place of a TCP transport: one whose client sends this many bytes at once."""

    def __init__(self, listener: TlsListener, at_once: int) -> None:
        self.sent = b""
        self._at_once = at_once
        self._protocol = listener.accept(None)
        self._protocol.connection_made(cast("asyncio.Transport", self))

    def handshake(self, context: ssl.SSLContext, session: ssl.SSLSession | None) -> ssl.SSLObject:
        """A client's side of a complete handshake."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost", session=session)
        for _ in range(2):
            with pytest.raises(ssl.SSLWantReadError):
                tls.do_handshake()
            while data := outgoing.read(self._at_once):
                self._protocol.data_received(data)
            incoming.write(self.sent)
            self.sent = b""
        tls.do_handshake()
        return tls

    def write(self, data: bytes) -> None:
        self.sent += data

    def get_extra_info(self, _: str) -> None:
        return None

    def set_protocol(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol


@pytest.mark.asyncio
@pytest.mark.parametrize("at_once", [1, 100, 10_000])
async def test_hello_in_pieces(certificates: Certificates, at_once: int) -> None:
    """A client that resumes a session gets a full handshake, too, if what it has sent first comes in pieces."""
    server = certificates.server
    tls = Tls(certfile=server.certfile, keyfile=server.keyfile, cafile=certificates.cafile)
    broker = Broker(Config(), monotonic_us())
    contexts = server_contexts(tls, MQTT)
    listener = TlsListener(broker.events, broker.wheel, broker.settings, "tls", contexts, lambda _: asyncio.Protocol())
    context = client_context(certificates, TLS_1_2, True)
    session: ssl.SSLSession | None = None
    for _ in range(3):
        client = Tcp(listener, at_once).handshake(context, session)
        await asyncio.sleep(0)  # the next turn of the event loop, for the next handshake
        assert not client.session_reused
        session = client.session
