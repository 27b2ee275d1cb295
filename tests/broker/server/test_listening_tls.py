"""What a TLS listener agrees on with its clients: the protocol (ALPN), the cipher and the curve."""

import re
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from typer.testing import CliRunner

from broker.cli.main import app
from broker.server.listening import HTTP, MQTT
from tests.broker.conftest import Start
from tests.support.broker.events import wait_for_event
from tests.support.broker.reloads import reload
from tests.support.certificates import Certificates
from tests.support.process import BrokerProcess
from tests.support.wire import WireClient

TLS_1_2 = ssl.TLSVersion.TLSv1_2


def over_tls(start: Start, certificates: Certificates, **tls: Any) -> BrokerProcess:
    """A broker with a TLS listener, and one for WebSocket."""
    listeners = [{"name": "tcp", **listener(certificates, **tls)}, {"name": "ws", **listener(certificates, **tls)}]
    listeners[1]["websocket"] = {}
    return start(sections={"listeners": listeners, "admin": {"socket": "a.sock"}})


def listener(certificates: Certificates, **tls: Any) -> dict[str, Any]:
    """A listener without its name."""
    server = certificates.server
    own = {"certfile": str(server.certfile), "keyfile": str(server.keyfile), **tls}
    return {"bind": "127.0.0.1:0", "tls": own}


def client(certificates: Certificates, ciphers: str = "", curve: str = "") -> ssl.SSLContext:
    """A client that wants these."""
    context = certificates.client_context(with_certificate=False)
    if ciphers:
        context.maximum_version = TLS_1_2
        context.set_ciphers(ciphers)
    if curve:
        context.set_ecdh_curve(curve)
    return context


def agreed(broker: BrokerProcess, context: ssl.SSLContext) -> tuple[str, str]:
    """The cipher and the version of TLS by which a client is let in."""
    with WireClient(broker.address(), 5, tls=context) as one:
        assert one.connect().reason_code == 0
        cipher = one.socket.cipher()  # type: ignore[attr-defined]  # it is one of TLS
        return str(cipher[0]), str(cipher[1])


def refused(broker: BrokerProcess, context: ssl.SSLContext) -> str:
    """Why a client is refused, by the log."""
    with pytest.raises(ssl.SSLError):
        WireClient(broker.address(), 5, tls=context)
    return str(wait_for_event(broker, "tls_handshake_failed")[-1]["reason"])


def test_protocol(start: Start, certificates: Certificates) -> None:
    """A client that offers MQTT gets it, on a listener for WebSocket HTTP; others are served without it."""
    broker = over_tls(start, certificates)
    for name, offered, expected in (
        ("tcp", ["mqtt"], MQTT),
        ("tcp", ["h2", "mqtt"], MQTT),
        ("tcp", ["h2"], None),
        ("tcp", [], None),
        ("ws", ["h2", "http/1.1"], HTTP),
        ("ws", ["mqtt"], None),
    ):
        context = client(certificates)
        if offered:
            context.set_alpn_protocols(offered)
        with WireClient(broker.address(name), 5, tls=context) as one:
            selected = one.socket.selected_alpn_protocol()  # type: ignore[attr-defined]  # it is one of TLS
            assert selected == expected
            if name == "tcp":
                assert one.connect().reason_code == 0


def test_ciphers(start: Start, certificates: Certificates) -> None:
    """With `ciphers` the first of them that both have is taken in TLS 1.2; TLS 1.3 has its own."""
    broker = over_tls(start, certificates, ciphers="ECDHE+CHACHA20:ECDHE+AES256:!SHA1")
    both = client(certificates, "ECDHE+AES256:ECDHE+CHACHA20")
    assert "CHACHA20" in agreed(broker, both)[0]
    assert agreed(broker, client(certificates))[1] == "TLSv1.3"
    assert refused(broker, client(certificates, "ECDHE+AES128")) == "no cipher in common (ciphers)"


@pytest.mark.parametrize("version", [TLS_1_2, ssl.TLSVersion.TLSv1_3])
def test_curve(start: Start, certificates: Certificates, version: ssl.TLSVersion) -> None:
    """With `curve` clients that have it are served, whatever they prefer, and no others."""
    broker = over_tls(start, certificates, curve="prime256v1")
    for curve in ("", "prime256v1"):
        context = client(certificates, curve=curve)
        context.maximum_version = version
        assert agreed(broker, context)
    context = client(certificates, curve="secp384r1")
    context.maximum_version = version
    reason = refused(broker, context)
    assert reason in ("no key exchange group in common (curve)", "no cipher in common (ciphers)")


def test_reload(start: Start, certificates: Certificates) -> None:
    """Other ciphers apply to new connections after a reload."""
    broker = over_tls(start, certificates)
    wait_for_event(broker, "admin_socket")
    context = client(certificates, "ECDHE+AES128")
    assert "AES128" in agreed(broker, context)[0]
    file = broker.folder / "sluice.yaml"
    written = yaml.safe_load(file.read_text())
    written["listeners"][0]["tls"]["ciphers"] = "ECDHE+CHACHA20"
    file.write_text(yaml.safe_dump(written))
    assert reload(broker).json["changed"] == ["listeners[0].tls.ciphers"]
    assert refused(broker, context) == "no cipher in common (ciphers)"


@pytest.mark.parametrize("key", ["certfile", "cafile", "crlfile"])
def test_file_that_openssl_cannot_read(tmp_path: Path, certificates: Certificates, key: str) -> None:
    """`config check` says what is wrong with a file and what would be right, without OpenSSL's marks."""
    broken, what = tmp_path / "broken.pem", "X509 CRL" if key == "crlfile" else "CERTIFICATE"
    broken.write_text(f"-----BEGIN {what}-----\nMII=\n-----END {what}-----\n")
    own = listener(certificates, **({"cafile": str(certificates.cafile)} | {key: str(broken)}))
    file = tmp_path / "sluice.yaml"
    file.write_text(yaml.safe_dump({"listeners": [own]}))
    result = CliRunner().invoke(app, ["config", "check", str(file)])
    assert result.exit_code == 2
    (line,) = result.output.splitlines()
    assert str(broken) in line
    assert line.endswith(": write what openssl can read, in PEM form")
    assert not re.search(r"\[[A-Z]|_ssl|Errno", line)


def test_key_with_a_passphrase(start: Start, certificates: Certificates, tmp_path: Path) -> None:
    """A key that is encrypted while it is followed is named as such; nobody is asked, and the broker still stops."""
    key = tmp_path / "server.key"
    key.write_bytes(certificates.server.keyfile.read_bytes())
    broker = over_tls(start, certificates, keyfile=str(key))
    private = load_pem_private_key(key.read_bytes(), None)
    form, locked = PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    encrypted = private.private_bytes(Encoding.PEM, form, locked)
    key.with_name("new").write_bytes(encrypted)
    key.with_name("new").replace(key)
    said = wait_for_event(broker, "file_not_read", 2)
    assert all("the private key is encrypted: store it without a passphrase" in each["detail"] for each in said)
    assert broker.stop() == 0
