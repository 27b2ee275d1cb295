"""Client certificates as users: names in them, revoked ones, and those that a proxy has verified."""

import ssl
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from broker.auth.certificates import user_of
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.connect import Connect
from protocol.errors import MQTTError
from protocol.publish import Publish
from tests.broker.conftest import Start
from tests.support.broker.events import wait_for_event
from tests.support.broker.logins import sections, write_users
from tests.support.broker.proxies import haproxy
from tests.support.brokers import Listener
from tests.support.process import BrokerProcess
from tests.support.wire import WireClient

RULES = {"rules": [{"permit": "allow", "topics": ["of/{username}"]}], "default": "deny"}


class Authority:
    """An authority with a server and clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = trustme.CA()
        self.cafile = folder / "ca.pem"
        self.ca.cert_pem.write_to_path(str(self.cafile))
        server = self.ca.issue_cert("127.0.0.1")
        self.server = folder / "server.pem"
        server.private_key_and_cert_chain_pem.write_to_path(str(self.server))

    def client(self, name: str) -> tuple[ssl.SSLContext, x509.Certificate]:
        """A client with a certificate: this common name and mail address."""
        issued = self.ca.issue_cert(f"{name}@example.org", common_name=name)
        context = ssl.create_default_context(cafile=self.cafile)
        issued.configure_cert(context)
        return context, x509.load_pem_x509_certificate(issued.cert_chain_pems[0].bytes())

    def revoke(self, path: Path, *certificates: x509.Certificate, days: int = 1) -> Path:
        """Write a list of revoked certificates."""
        now = datetime.now(UTC)
        issuer = x509.load_pem_x509_certificate(self.ca.cert_pem.bytes()).subject
        builder = x509.CertificateRevocationListBuilder().issuer_name(issuer)
        builder = builder.last_update(now - timedelta(days=3)).next_update(now + timedelta(days=days))
        for certificate in certificates:
            entry = x509.RevokedCertificateBuilder().serial_number(certificate.serial_number).revocation_date(now)
            builder = builder.add_revoked_certificate(entry.build())
        key: Any = load_pem_private_key(self.ca.private_key_pem.bytes(), None)
        path.write_bytes(builder.sign(key, SHA256()).public_bytes(Encoding.PEM))
        return path


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority of this test."""
    return Authority(tmp_path)


def over_tls(start: Start, authority: Authority, **tls: Any) -> BrokerProcess:
    """A broker that takes user names from certificates."""
    own = {"certfile": str(authority.server), "cafile": str(authority.cafile), **tls}
    listener = {"name": "tcp", "bind": "127.0.0.1:0", "tls": own}
    return start(sections={"listeners": [listener], "authorization": RULES, "allow_anonymous": True})


def user(client: WireClient, *names: str) -> list[str]:
    """Which of these users a client is: what only that user may publish."""
    found = []
    for name in names:
        client.send(Publish(f"of/{name}".encode(), b"", 1, packet_id=1))
        if client.expect(Puback).reason_code != reason_codes.NOT_AUTHORIZED:
            found.append(name)
    return found


@pytest.mark.parametrize(("template", "name"), [("{cn}", "ann"), ("{email}", "ann@example.org"), ("c-{cn}", "c-ann")])
def test_user(start: Start, authority: Authority, template: str, name: str) -> None:
    """The user is what the certificate says; a user name in CONNECT has to be the same."""
    broker = over_tls(start, authority, username=template, require_client_certificate=True)
    context, _ = authority.client("ann")
    for username, code in ((None, 0), (name, 0), ("ben", reason_codes.NOT_AUTHORIZED)):
        with WireClient(broker.address(), 5, tls=context) as client:
            client.send(Connect("x", True, 0, username=username, version=5))
            assert client.expect(Connack).reason_code == code
            if not code:
                assert user(client, "ann", "ben", "ann@example.org", "c-ann") == [name]


def test_token_with_a_certificate(start: Start, authority: Authority) -> None:
    """A token that is sent as a user name beside a certificate reaches neither CONNACK nor the log."""
    broker = over_tls(start, authority, username="{cn}", require_client_certificate=True)
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2VjcmV0"
    with WireClient(broker.address(), 5, tls=authority.client("ann")[0]) as client:
        client.send(Connect("x", True, 0, username=token, version=5))
        answer = client.expect(Connack)
    assert answer.reason_code == reason_codes.NOT_AUTHORIZED
    assert "certificate of 'ann'" in str(answer.properties)
    wait_for_event(broker, "client_refused")
    assert "eyJ" not in str(answer.properties) + broker.stderr


def test_password_beside_the_certificate(start: Start, authority: Authority, tmp_path: Path) -> None:
    """A listener that requires a certificate and says `allow_anonymous: false` asks for a password too."""
    tls = {"certfile": str(authority.server), "cafile": str(authority.cafile), "require_client_certificate": True}
    listeners = [
        {"name": name, "bind": "127.0.0.1:0", "tls": dict(tls), "allow_anonymous": own}
        for name, own in (("tcp", None), ("both", False))
    ]
    users = write_users(tmp_path / "users", {"ann": "secret"})
    broker = start((Listener(), Listener("both")), sections=sections(users, listeners=listeners))
    context, _ = authority.client("dev-1")
    for name, username, code in (("tcp", None, 0), ("both", None, 0x87), ("both", "ann", 0)):
        with WireClient(broker.address(name), 5, tls=context) as client:
            password = None if username is None else b"secret"
            client.send(Connect("c", True, username=username, password=password, version=5))
            assert (name, username, client.expect(Connack).reason_code) == (name, username, code)


def test_without_a_certificate(start: Start, authority: Authority) -> None:
    """Where certificates are not required, who has none has no name by it."""
    broker = over_tls(start, authority, username="{cn}")
    with WireClient(broker.address(), 5, tls=ssl.create_default_context(cafile=authority.cafile)) as client:
        assert client.connect().reason_code == 0
        assert user(client, "ann", "") == []


def refused(broker: BrokerProcess, context: ssl.SSLContext, count: int) -> str:
    """Why a client is refused, as the log says; it is the one of this number."""
    with pytest.raises((ssl.SSLError, ConnectionError)), WireClient(broker.address(), 5, tls=context) as client:
        client.connect()
    return str(wait_for_event(broker, "tls_handshake_failed", count)[-1]["reason"])


def test_revoked(start: Start, authority: Authority, tmp_path: Path) -> None:
    """A revoked certificate is refused, also when its authority revokes it while the broker runs."""
    (ann, one), (ben, two) = authority.client("ann"), authority.client("ben")
    file = authority.revoke(tmp_path / "crl.pem", one)
    broker = over_tls(start, authority, username="{cn}", require_client_certificate=True, crlfile=str(file))
    assert refused(broker, ann, 1) == "its certificate has been revoked"
    with WireClient(broker.address(), 5, tls=ben) as client:
        assert client.connect().reason_code == 0
    authority.revoke(file, one, two, days=2)
    wait_for_event(broker, "file_read")
    assert refused(broker, ben, 2) == "its certificate has been revoked"


def test_list_that_has_expired(start: Start, authority: Authority, tmp_path: Path) -> None:
    """Without a current list all certificates are refused: which of them are revoked is not known."""
    ann, _ = authority.client("ann")
    file = authority.revoke(tmp_path / "crl.pem", days=-1)
    broker = over_tls(start, authority, require_client_certificate=True, crlfile=str(file))
    assert refused(broker, ann, 1) == "the list of revoked certificates of its authority has expired (crlfile)"


def test_verified_by_a_proxy(start: Start, authority: Authority, tmp_path: Path) -> None:
    """HAProxy ends TLS, verifies the certificate and passes the common name on."""
    proxied = {"trusted": ["127.0.0.1"], "username": "{cn}"}
    listener = {"name": "tcp", "bind": "127.0.0.1:0", "proxy_protocol": proxied}
    broker = start(sections={"listeners": [listener], "authorization": RULES, "allow_anonymous": True})
    bind = f"ssl crt {authority.server} ca-file {authority.cafile} verify optional"
    with haproxy(tmp_path, broker.address(), "send-proxy-v2-ssl-cn", bind) as proxy:
        for context, names in (
            (authority.client("ann")[0], ["ann"]),
            (ssl.create_default_context(cafile=authority.cafile), []),
        ):
            with WireClient(proxy, 5, tls=context) as client:
                assert client.connect().reason_code == 0
                assert user(client, "ann", "ben") == names


@pytest.mark.parametrize(
    ("tls_name", "proxy_name", "certificate", "name"),
    [
        ("{cn}", None, True, "ann"),
        ("{cn}", "{cn}", True, "ann"),
        ("{cn}", "{cn}", False, "ben"),
        ("{cn}", None, False, None),
        (None, "{cn}", True, "ben"),
        (None, None, True, None),
    ],
)
def test_two_certificates(
    start: Start,
    authority: Authority,
    tls_name: str | None,
    proxy_name: str | None,
    certificate: bool,
    name: str | None,
) -> None:
    """Who the broker itself has verified is no one else by a proxy's word, which counts only if it is asked for."""
    tls = {"certfile": str(authority.server), "cafile": str(authority.cafile), "username": tls_name}
    proxied = {"trusted": ["127.0.0.1"], "username": proxy_name}
    listener = {"name": "tcp", "bind": "127.0.0.1:0", "tls": tls, "proxy_protocol": proxied}
    broker = start(sections={"listeners": [listener], "authorization": RULES, "allow_anonymous": True})
    context = authority.client("ann")[0] if certificate else ssl.create_default_context(cafile=authority.cafile)
    with WireClient(broker.address(), 5, first=header_with(b"ben"), tls=context) as client:
        assert client.connect().reason_code == 0
        assert user(client, "ann", "ben") == ([] if name is None else [name])


def header_with(common_name: bytes) -> bytes:
    """The header of a proxy that has verified a certificate with this common name."""

    def tlv(kind: int, value: bytes) -> bytes:
        return struct.pack("!BH", kind, len(value)) + value

    body = bytes(12) + tlv(0x20, b"\x07" + bytes(4) + tlv(0x22, common_name))
    return b"\r\n\r\n\0\r\nQUIT\n" + struct.pack("!BBH", 0x21, 0x11, len(body)) + body


@pytest.mark.parametrize(
    "certificate",
    [
        {},
        {"subject": ()},
        {"subject": ((("organizationName", "ann"),),)},
        {"subject": ((("commonName", "a\nb"),),)},
        {"subject": ((("commonName", ""),),)},
        {"subject": ((("commonName", "x" * 2_000),),)},
        {"subjectAltName": (("DNS", "ann"),)},
    ],
)
def test_no_usable_name(certificate: dict[str, Any]) -> None:
    """A certificate without the name that is asked for lets nobody in as somebody else."""
    with pytest.raises(MQTTError, match="without a usable"):
        user_of(certificate, "{cn}")
