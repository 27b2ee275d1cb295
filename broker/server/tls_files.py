"""The files of TLS sections: which there are, and from when until when the broker's own certificates are valid."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from broker.server.x509 import Certificate, certificates
from config.models import Config
from config.tls import Tls

CERTIFICATE: Final = ("certfile", "keyfile")
"""Keys of `tls` that say who the broker is."""
KEYS: Final = (*CERTIFICATE, "cafile", "crlfile")

SOON: Final = 14 * 86_400.0
"""Seconds before a certificate expires in which that is a warning, if they are the last quarter of its time too: those
that are valid for days are renewed later."""


def sections(config: Config) -> dict[str, Tls]:
    """The TLS sections of a configuration, by their dotted keys."""
    found = {f"listeners[{index}].tls": listener.tls for index, listener in enumerate(config.listeners)}
    found["admin.tls"] = config.admin.tls
    return {key: tls for key, tls in found.items() if tls is not None}


def files(place: str, tls: Tls) -> dict[str, Path]:
    """The files of a section, by key; `place`: the key of the section."""
    paths: dict[str, Path | None] = {f"{place}.{key}": getattr(tls, key) for key in KEYS}
    return {key: path for key, path in paths.items() if path is not None}


def own_certificate(tls: Tls) -> Certificate | None:
    """The certificate that clients are shown; None if it is one that only OpenSSL can read. Raises OSError."""
    try:
        return next(iter(certificates(tls.certfile.read_bytes())), None)
    except ValueError:
        return None


def out_of_date(certificate: Certificate, now: float) -> str:
    """Why a certificate is not valid at this Unix time; empty if it is."""
    if now > certificate.not_after:
        return f"the certificate has expired on {_date(certificate.not_after)}: clients refuse it"
    if now < certificate.not_before:
        return f"the certificate is not valid before {_date(certificate.not_before)}: clients refuse it"
    return ""


def no_authority(tls: Tls, now: float) -> str:
    """Why no client's certificate can be verified at this Unix time; empty = one can be, or none is. Raises OSError."""
    if tls.cafile is None:
        return ""
    try:
        found = certificates(tls.cafile.read_bytes())
    except ValueError:
        return ""  # one that only OpenSSL can read may be valid
    if not found or not all(out_of_date(each, now) for each in found):
        return ""
    latest = max(found, key=lambda each: each.not_after)
    return f"no authority is valid now (the last one: {_date(latest.not_before)} to {_date(latest.not_after)}): add one"


def refuse_out_of_date(new: Certificate | None, old: Certificate | None, file: Path, now: float) -> None:
    """Raises OSError if one that is not valid at this Unix time would replace one that is; None = nobody can say."""
    wrong = "" if new is None else out_of_date(new, now)
    if wrong and (old is None or not out_of_date(old, now)):
        raise OSError(f"certificate {file} is not used: {wrong}; write one that is valid now")


def expires_soon(certificate: Certificate, now: float) -> str:
    """How soon a certificate expires that is valid now; empty if there is time."""
    left = certificate.not_after - now
    if not 0 <= left < min(SOON, (certificate.not_after - certificate.not_before) / 4):
        return ""
    days = int(left // 86_400)
    rest = f"{days} day{'s' * (days != 1)}" if days else "less than a day"
    return f"the certificate expires in {rest}, on {_date(certificate.not_after)}: renew it"


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
