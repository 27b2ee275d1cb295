"""The files of TLS sections, and what is said about the dates of a certificate."""

from pathlib import Path

import pytest

from broker.server.tls_files import SOON, Certificates, expires_soon, files, out_of_date, read_certificates
from broker.server.x509 import Certificate
from config.tls import Tls

pytestmark = pytest.mark.once

DAY = 86_400.0
YEAR = Certificate(0.0, 365 * DAY, False, False)


def test_files() -> None:
    """Those that are set are named by their keys."""
    tls = Tls(certfile=Path("a.pem"), cafile=Path("ca.pem"))
    assert files("admin.tls", tls) == {"admin.tls.certfile": Path("a.pem"), "admin.tls.cafile": Path("ca.pem")}


@pytest.mark.parametrize(
    ("now", "wrong", "soon"),
    [
        (-1.0, "is not valid before 1970-01-01 00:00 UTC", ""),
        (0.0, "", ""),
        (365 * DAY - SOON, "", ""),
        (365 * DAY - SOON + 1, "", "expires in 13 days, on 1971-01-01 00:00 UTC"),
        (363.5 * DAY, "", "expires in 1 day, on"),
        (364.5 * DAY, "", "expires in less than a day, on"),
        (365 * DAY + 1, "has expired on 1971-01-01 00:00 UTC", ""),
    ],
)
def test_dates(now: float, wrong: str, soon: str) -> None:
    """A certificate is out of date, or expires within 14 days, or neither: one of the two is said at most."""
    for said, expected in ((out_of_date(YEAR, now), wrong), (expires_soon(YEAR, now), soon)):
        assert expected in said
        assert bool(said) == bool(expected)


def test_certificate_of_a_few_days() -> None:
    """A certificate that is renewed every few days is a warning in the last quarter of its time only."""
    days = Certificate(0.0, 4 * DAY, False, False)
    assert [bool(expires_soon(days, now * DAY)) for now in (0, 2, 2.9, 3.1)] == [False, False, False, True]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    """What is no certificate has no dates; whether it can be used is for OpenSSL to say."""
    file = tmp_path / "a.pem"
    for content in (b"", b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"):
        file.write_bytes(content)
        assert read_certificates(Tls(certfile=file, cafile=file)) == Certificates(None, ())
