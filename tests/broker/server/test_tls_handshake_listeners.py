"""TLS listeners: with and without client certificates, hostile handshakes, slow readers."""

import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.server.listening import MQTT, server_context
from config.tls import Tls
from protocol.disconnect import Disconnect
from tests.support.broker.collecting import collect
from tests.support.broker.events import events
from tests.support.brokers import Listener
from tests.support.certificates import Certificates, make_certificates
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import WireClient, connected

Start = Callable[..., BrokerProcess]


def exchange(client: WireClient) -> None:
    """Publish something large to oneself."""
    assert client.connect().reason_code == 0
    client.subscribe("tls", qos=0)
    client.publish("tls", bytes(300_000))
    assert client.receive_message().size == 300_000


@pytest.mark.parametrize("listener", ["tls", "mutual"])
@pytest.mark.parametrize("version", [4, 5])
def test_exchange(broker: BrokerProcess, certificates: Certificates, listener: str, version: int) -> None:
    """Clients are served over TLS, and clients with a certificate on both listeners."""
    context = certificates.client_context(with_certificate=True)
    with WireClient(broker.address(listener), version, tls=context) as client:
        exchange(client)


def test_without_certificate(broker: BrokerProcess, certificates: Certificates) -> None:
    """A client without a certificate is accepted where none is required."""
    with WireClient(broker.address("tls"), 5, tls=certificates.client_context(with_certificate=False)) as client:
        exchange(client)


def refused(address: Address, context: ssl.SSLContext) -> bool:
    """Whether a client fails in the handshake, or as soon as it reads."""
    with socket.create_connection(address, timeout=20) as plain:
        try:
            with context.wrap_socket(plain, server_hostname=address.host) as secure:
                secure.sendall(b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00")
                return secure.recv(100) == b""
        except (ssl.SSLError, ConnectionError):
            return True


def test_certificate_required(broker: BrokerProcess, certificates: Certificates, tmp_path: Path) -> None:
    """Where one is required, a client without a certificate, or with one of another authority, is refused."""
    address = broker.address("mutual")
    assert refused(address, certificates.client_context(with_certificate=False))
    stranger = make_certificates(tmp_path)
    context = ssl.create_default_context(cafile=certificates.cafile)
    context.load_cert_chain(stranger.client.certfile, stranger.client.keyfile)
    assert refused(address, context)
    assert refused(broker.address("tls"), context)  # none is required, but one that is shown has to be right
    with WireClient(address, 5, tls=certificates.client_context(with_certificate=True)) as client:
        exchange(client)


def test_old_versions(broker: BrokerProcess, certificates: Certificates) -> None:
    """TLS before 1.2 is refused."""
    context = certificates.client_context(with_certificate=False)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with WireClient(broker.address("tls"), 5, tls=context) as client:
        exchange(client)
    assert (
        server_context(
            Tls(certfile=certificates.server.certfile, keyfile=certificates.server.keyfile), MQTT
        ).minimum_version
        == ssl.TLSVersion.TLSv1_2
    )


def test_minimum_version(certificates: Certificates) -> None:
    """With minimum_version: "1.3" TLS 1.2 is refused."""
    tls = Tls(certfile=certificates.server.certfile, keyfile=certificates.server.keyfile, minimum_version="1.3")
    assert server_context(tls, MQTT).minimum_version == ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize("broken", ["certfile", "cafile"])
def test_unusable_files(certificates: Certificates, tmp_path: Path, broken: str) -> None:
    """A certificate file that cannot be used is named."""
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    files = {
        "certfile": certificates.server.certfile,
        "keyfile": certificates.server.keyfile,
        "cafile": certificates.cafile,
        broken: junk,
    }
    with pytest.raises(OSError, match=r"junk\.pem"):
        server_context(Tls.model_validate(files), MQTT)


def test_hostile_handshakes(broker: BrokerProcess, certificates: Certificates) -> None:
    """Random bytes, silence and half a handshake do not affect others, and cause no traceback."""
    address = broker.address("tls")
    before = len(events(broker, "crash"))
    for data in (
        b"",
        b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00",
        b"\x16\x03\x01\x00\xff" + bytes(50),
        bytes(5000),
    ):
        with socket.create_connection(address, timeout=20) as plain:
            plain.sendall(data)
    with WireClient(address, 5, tls=certificates.client_context(with_certificate=False)) as client:
        exchange(client)
    assert len(events(broker, "crash")) == before


def test_silent_handshake(start: Start, certificates: Certificates) -> None:
    """A client that begins no TLS handshake is closed after connect_timeout."""
    with start((Listener("tls", certificates),), sections={"mqtt": {"connect_timeout": "500ms"}}) as broker:
        with socket.create_connection(broker.address("tls"), timeout=20) as silent:
            assert silent.recv(1) == b""
        with socket.create_connection(broker.address("tls"), timeout=20) as plain:
            context = certificates.client_context(with_certificate=False)
            with context.wrap_socket(plain, server_hostname="localhost") as mute:
                assert mute.recv(1) == b""


def test_stuck_reader(start: Start, certificates: Certificates) -> None:
    """A client that does not read over TLS is cut off when another takes over its client id."""
    with start((Listener(), Listener("tls", certificates))) as broker:
        context = certificates.client_context(with_certificate=False)
        with WireClient(broker.address("tls"), 5, tls=context, receive_buffer=4096) as stuck:
            stuck.connect("stuck")
            stuck.subscribe("t", qos=1)
            with connected(broker.address(), 5) as sender:
                for _ in range(30):
                    sender.publish("t", bytes(500_000), 1)
                before = broker.open_files()
                with connected(broker.address(), 5, client_id="stuck"):
                    wait_until(lambda: broker.open_files() <= before, "the stuck connection is gone")


def test_stop(start: Start, certificates: Certificates) -> None:
    """Clients over TLS get a DISCONNECT when the broker stops."""
    with start((Listener("tls", certificates),)) as broker:
        context = certificates.client_context(with_certificate=False)
        with WireClient(broker.address("tls"), 5, tls=context) as client:
            client.connect()
            assert events(broker, "listening")[0]["tls"] is True
            broker.ask_to_end()
            assert isinstance(client.expect_close(), Disconnect)
        assert broker.stop() == 0


def test_congested_as_soon_as_without(start: Start, certificates: Certificates) -> None:
    """FC-3: with TLS too, a client that does not read has 64 KiB in the transport and the rest in its mqueue."""
    listeners = (Listener(), Listener("tls", certificates))
    running = start(listeners, sections={"session": {"max_mqueue_len": 1, "overflow_patience": "0s"}})
    context = certificates.client_context(with_certificate=True)
    with (
        WireClient(running.address("tls"), 5, tls=context, receive_buffer=16_384) as deaf,
        connected(running.address(), 5) as publisher,
    ):
        deaf.connect()
        deaf.subscribe("t")
        for _ in range(12_000):
            publisher.publish("t", bytes(1_000))
        publisher.expect_nothing_more()
        # Linux takes besides what tcp_wmem lets it, mostly 4 MiB; from 0.2 MB to 4.7 MB were seen in all.
        assert 100_000 < sum(message.size for message in collect(deaf)) < 8_000_000
