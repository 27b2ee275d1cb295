"""Ciphers and curves: what is accepted, and what a mistake is answered with."""

import ssl

import pytest
from pydantic import ValidationError

from config.ciphers import CURVES, check_ciphers, check_curve
from config.tls import Tls


@pytest.mark.parametrize(
    "ciphers",
    ["ECDHE+AESGCM", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE+AESGCM:!AES128", "HIGH:!aNULL", "ECDHE,DHE !aNULL !eNULL"],
)
def test_ciphers(ciphers: str) -> None:
    """A list in OpenSSL's form is accepted as it is."""
    assert check_ciphers(ciphers) == ciphers


@pytest.mark.parametrize(
    ("ciphers", "message"),
    [
        ("HIGH", "which includes ADH-AES256-GCM-SHA384 (anonymous): leave it out, such as by adding :!aNULL"),
        ("aNULL", "(anonymous)"),
        ("ECDHE:eNULL", "(NULL, without encryption)"),
        ("NULL-MD5", "(NULL, without encryption)"),
        ("RC4-MD5", "names no cipher"),
        ("3DES", "names no cipher"),
        ("ECDHE+AESGCM:typo", "found 'typo', which names no cipher: write OpenSSL's names, such as ECDHE+AESGCM:"),
        ("ECDHE+AESGCM:!ECDHE", "which leaves no cipher: write some"),
        ("ECDHE:@SECLEVEL=0", "found '@SECLEVEL=0', which is about keys and certificates too: leave it out"),
        ("TLS_AES_128_GCM_SHA256", "the ciphers of TLS 1.3 cannot be chosen: leave it out"),
        ("ä", "write ciphers as OpenSSL names them"),
        ("ECDHE\0", "write ciphers as OpenSSL names them"),
    ],
)
def test_no_protection(ciphers: str, message: str) -> None:
    """What is no protection, or would be passed over, is refused with the reason and what to do."""
    with pytest.raises(ValueError, match="found") as caught:
        check_ciphers(ciphers)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("symmetric", "digest", "bits", "message"),
    [("rc4", "md5", 128, "RC4"), ("des-ede3-cbc", "sha1", 112, "3DES"), ("des-cbc", "sha1", 40, "export")],
)
def test_old_library(
    monkeypatch: pytest.MonkeyPatch, symmetric: str, digest: str, bits: int, message: str
) -> None:
    """A library that still has what is broken does not make it acceptable."""
    own = {"name": "OLD", "auth": "auth-rsa", "symmetric": symmetric, "digest": digest, "strength_bits": bits}
    monkeypatch.setattr(ssl.SSLContext, "set_ciphers", lambda _, __: None)
    monkeypatch.setattr(ssl.SSLContext, "get_ciphers", lambda _: [own])
    with pytest.raises(ValueError, match=rf"which includes OLD \({message}\)"):
        check_ciphers("OLD")


@pytest.mark.parametrize("curve", CURVES)
def test_curves(curve: str) -> None:
    """Each curve of TLS 1.3 is accepted by its name, if this Python takes it: X25519 and X448 not by Debian 12's."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ecdh_curve(curve)
    except (ValueError, ssl.SSLError):
        with pytest.raises(ValueError, match="does not take: write another"):
            check_curve(curve)
    else:
        assert check_curve(curve) == curve


@pytest.mark.parametrize("curve", ["P-256", "secp256r1", "x25519", "sect163k1", "X25519:prime256v1"])
def test_other_curves(curve: str) -> None:
    """Other names are refused with those that are right."""
    with pytest.raises(ValueError, match="write X25519, prime256v1, secp384r1, X448 or secp521r1"):
        check_curve(curve)


def test_ciphers_of_another_version() -> None:
    """Ciphers beside a version that does not use them are a mistake."""
    with pytest.raises(ValidationError, match=r"ciphers are those of TLS 1\.2: leave them out"):
        Tls.model_validate({"certfile": "a.pem", "minimum_version": "1.3", "ciphers": "ECDHE+AESGCM"})
