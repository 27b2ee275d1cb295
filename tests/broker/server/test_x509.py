"""Dates and roots in PEM files, compared with what a library for X.509 reads in them."""

from datetime import UTC, datetime, timedelta
from ssl import DER_cert_to_PEM_cert, PEM_cert_to_DER_cert

import pytest
import trustme
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from broker.server.x509 import certificates

pytestmark = pytest.mark.once

CA = trustme.CA()
PEM = CA.cert_pem.bytes()
FIRST = datetime(1951, 1, 1, tzinfo=UTC)
DAYS = st.integers(0, 90_000 * 86_400).map(lambda seconds: FIRST + timedelta(seconds=seconds))


@given(DAYS, st.integers(1, 40_000))
def test_dates(begin: datetime, days: int) -> None:
    """From when until when a certificate is valid is what was written, before 2050 and after."""
    end = begin + timedelta(days=days)
    issued = CA.issue_cert("a.example", not_before=begin, not_after=end)
    (found,) = certificates(issued.cert_chain_pems[0].bytes())
    assert (found.not_before, found.not_after) == (begin.timestamp(), end.timestamp())
    assert (found.self_issued, found.trusted) == (False, False)


def test_files_of_several() -> None:
    """All certificates of a file are found, with text around them, and only roots issue themselves."""
    text = b"a comment\n" + CA.create_child_ca().cert_pem.bytes() + b"\n# another\r\n" + PEM.replace(b"\n", b"\r\n")
    assert [each.self_issued for each in certificates(text)] == [False, True]
    trusted = PEM.replace(b" CERTIFICATE", b" TRUSTED CERTIFICATE")
    assert [each.trusted for each in certificates(trusted)] == [True]
    assert certificates(b"-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n") == []


@given(st.data())
def test_damage(data: st.DataObject) -> None:
    """Whatever a file holds, either its certificates are read as by the library, or it is a ValueError."""
    der = bytearray(PEM_cert_to_DER_cert(PEM.decode()))
    for _ in range(data.draw(st.integers(1, 3))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(der)))
    try:
        known = x509.load_der_x509_certificate(bytes(der[:cut]))
        dates = (known.not_valid_before_utc.timestamp(), known.not_valid_after_utc.timestamp())
    except ValueError:
        dates = None
    try:
        found = certificates(DER_cert_to_PEM_cert(bytes(der[:cut])).encode())
    except ValueError:
        assert dates is None
    else:
        assert dates in (None, (found[0].not_before, found[0].not_after))
