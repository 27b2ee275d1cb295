"""A certificate authority for one test session, with one server and one client certificate."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificate:
    """PEM files of one party."""

    certfile: Path
    keyfile: Path


@dataclass(frozen=True)
class Certificates:
    """PEM files: who signs, the server that is 127.0.0.1, ::1 and localhost, and a client."""

    cafile: Path
    server: Certificate
    client: Certificate

    def client_context(self, *, with_certificate: bool) -> ssl.SSLContext:
        """Return what a client needs to trust the server and, if asked, to present itself."""
        context = ssl.create_default_context(cafile=self.cafile)
        if with_certificate:
            context.load_cert_chain(self.client.certfile, self.client.keyfile)
        return context


def make_certificates(folder: Path, not_after: datetime | None = None) -> Certificates:
    """Issue all certificates into `folder`, for this test run only; `not_after`: when the server's expires."""
    authority = trustme.CA()
    cafile = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(cafile))
    server = authority.issue_cert("127.0.0.1", "::1", "localhost", not_after=not_after)
    client = authority.issue_cert("client@example.org", common_name="client")
    return Certificates(cafile, _write(server, folder, "server"), _write(client, folder, "client"))


def write_revocations(file: Path) -> None:
    """Write a list of revocations, of an authority that is in no other file, without any."""
    now = datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    builder = x509.CertificateRevocationListBuilder(name, now, now + timedelta(days=1))
    signed = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))


def _write(issued: trustme.LeafCert, folder: Path, name: str) -> Certificate:
    certificate = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    for number, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(str(certificate.certfile), append=number > 0)
    issued.private_key_pem.write_to_path(str(certificate.keyfile))
    return certificate
