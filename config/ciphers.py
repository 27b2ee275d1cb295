"""Ciphers and curves of TLS: what OpenSSL accepts, without what is no protection."""

import platform
import ssl
from typing import Any, Final

from config.units import found

CURVES: Final = ("X25519", "prime256v1", "secp384r1", "X448", "secp521r1")
"""Those of TLS 1.3, by the names that Python takes. `prime256v1` is also called secp256r1 and P-256."""

EXAMPLE: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"

_BROKEN: Final = {"rc4": "RC4", "des-ede3-cbc": "3DES"}
_EXPORT: Final = 56
"""Bits of the strongest ciphers that were weakened for export. CCM8 has 64 by its short tag, as OpenSSL 3.5 counts."""
_MOST: Final = 2_000
"""Characters of a list."""


def check_ciphers(value: object) -> object:
    """Check a list in OpenSSL's form."""
    if value is None:
        return None
    if not isinstance(value, str) or not (value.isascii() and value.isprintable() and 0 < len(value) <= _MOST):
        raise ValueError(f"found {found(value)}: write ciphers as OpenSSL names them, such as {EXAMPLE}")
    for name in value.replace(",", ":").replace(" ", ":").split(":"):
        _check_name(name)
    meant = _meant(value)
    if not meant:
        raise ValueError(f"found {found(value)}, which leaves no cipher: write some, such as {EXAMPLE}")
    for cipher in meant:
        if weakness := _weakness(cipher):
            raise ValueError(
                f"found {found(value)}, which includes {cipher['name']} ({weakness}): leave it out, "
                "such as by adding :!aNULL:!eNULL:!EXPORT:!RC4:!3DES:!MD5"
            )
    return value


def check_curve(value: object) -> object:
    """Check the name of a curve."""
    if value is None:
        return None
    if not isinstance(value, str) or value not in CURVES:
        raise ValueError(f"found {found(value)}: write {', '.join(CURVES[:-1])} or {CURVES[-1]}")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ecdh_curve(value)
    except (ValueError, ssl.SSLError) as error:
        here = f"Python {platform.python_version()} with {ssl.OPENSSL_VERSION}"
        raise ValueError(f"found {value!r}, which {here} does not take: write another") from error
    return value


def _check_name(name: str) -> None:
    """Refuse what OpenSSL would pass over in silence, and what would change more than the ciphers."""
    if name.startswith("@SECLEVEL"):
        raise ValueError(f"found {found(name)}, which is about keys and certificates too: leave it out")
    if name.startswith("TLS_"):
        raise ValueError(f"found {found(name)}: the ciphers of TLS 1.3 cannot be chosen: leave it out")
    if name and name[0] not in "!-+@" and not _meant(name):
        raise ValueError(f"found {found(name)}, which names no cipher: write OpenSSL's names, such as {EXAMPLE}")


def _meant(ciphers: str) -> list[dict[str, Any]]:
    """The ciphers of TLS 1.2 that a list stands for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.set_ciphers(ciphers)
    except ssl.SSLError:
        return []
    listed: list[dict[str, Any]] = [dict(cipher) for cipher in context.get_ciphers()]
    return [cipher for cipher in listed if not cipher["name"].startswith("TLS_")]


def _weakness(cipher: dict[str, Any]) -> str:
    """Why a cipher is no protection; empty if it is one."""
    symmetric = cipher["symmetric"]
    if cipher["auth"] == "auth-null":
        return "anonymous"
    if symmetric is None or cipher["strength_bits"] == 0:
        return "NULL, without encryption"
    if symmetric in _BROKEN:
        return _BROKEN[symmetric]
    if cipher["digest"] == "md5":
        return "MD5"
    return "export" if cipher["strength_bits"] <= _EXPORT else ""
