"""The files of TLS sections: which there are, and from when until when the certificates in them are valid."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from broker.server.x509 import Certificate, certificates
from config.models import Config
from config.tls import Tls

CERTIFICATE: Final = ("certfile", "keyfile")
"""Keys of `tls` that say who the broker is."""
KEYS: Final = (*CERTIFICATE, "cafile", "crlfile")

_NAMES: Final = {"certfile": "certificate", "cafile": "last authority"}
"""What has dates, for messages."""

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


class Certificates(NamedTuple):
    """What has dates in the files of a section."""

    own: Certificate | None
    """What clients are shown; None = one that only OpenSSL can read."""
    authorities: tuple[Certificate, ...]
    """Those that issue client certificates; none = without `cafile`, or only OpenSSL can read them."""

    def out_of_date(self, now: float) -> dict[str, str]:
        """What is not valid at this Unix time, by key: the certificate of `certfile`, all authorities of `cafile`."""
        found = {
            "certfile": "" if self.own is None else out_of_date(self.own, now),
            "cafile": no_authority(self.authorities, now),
        }
        return {key: why for key, why in found.items() if why}

    def expire_soon(self, now: float) -> dict[str, str]:
        """What expires soon, by key: the certificate, the last authority."""
        last = {"certfile": self.own, "cafile": max(self.authorities, key=lambda each: each.not_after, default=None)}
        found = {key: expires_soon(each, now, _NAMES[key]) for key, each in last.items() if each is not None}
        return {key: why for key, why in found.items() if why}


def read_certificates(tls: Tls) -> Certificates:
    """What the files of a section hold now. Raises OSError."""
    return Certificates(next(iter(_readable(tls.certfile)), None), _readable(tls.cafile))


def _readable(file: Path | None) -> tuple[Certificate, ...]:
    try:
        return () if file is None else tuple(certificates(file.read_bytes()))
    except ValueError:
        return ()  # one that only OpenSSL can read may be valid


def out_of_date(certificate: Certificate, now: float) -> str:
    """Why a certificate is not valid at this Unix time; empty if it is."""
    if now > certificate.not_after:
        return f"the certificate has expired on {_date(certificate.not_after)}: clients refuse it"
    if now < certificate.not_before:
        return f"the certificate is not valid before {_date(certificate.not_before)}: clients refuse it"
    return ""


def no_authority(authorities: Sequence[Certificate], now: float) -> str:
    """Why no client's certificate can be verified at this Unix time; empty = one can be, or there are none."""
    if not authorities or not all(out_of_date(each, now) for each in authorities):
        return ""
    latest = max(authorities, key=lambda each: each.not_after)
    return f"no authority is valid now (the last one: {_date(latest.not_before)} to {_date(latest.not_after)}): add one"


def refuse_out_of_date(tls: Tls, new: Certificates, old: Certificates | None, now: float) -> None:
    """Raises OSError if something that is not valid at this Unix time would replace what is; None = nothing is used."""
    before = {} if old is None else old.out_of_date(now)
    for key, wrong in new.out_of_date(now).items():
        if key not in before:
            raise OSError(f"{key} {getattr(tls, key)} is not used: {wrong}; write one that is valid now")


def expires_soon(certificate: Certificate, now: float, name: str = "certificate") -> str:
    """How soon a certificate, called by this name, expires that is valid now; empty if there is time."""
    left = certificate.not_after - now
    if not 0 <= left < min(SOON, (certificate.not_after - certificate.not_before) / 4):
        return ""
    days = int(left // 86_400)
    rest = f"{days} day{'s' * (days != 1)}" if days else "less than a day"
    return f"the {name} expires in {rest}, on {_date(certificate.not_after)}: renew it"


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
