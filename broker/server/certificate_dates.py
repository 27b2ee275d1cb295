"""Says when the broker's certificates are about to expire, have expired, or are not valid yet."""

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from broker.server.listening import server_context
from broker.server.tls_files import expires_soon, no_authority, out_of_date, own_certificate, sections
from broker.server.x509 import Certificate
from config.models import Config

INTERVAL: Final = 1.0
"""Seconds between two looks, as often as at the files: a new one may have expired."""


class Shown(NamedTuple):
    """A certificate that the broker shows to its clients."""

    place: str
    """Where, for the log: the name of a listener, or `admin`."""
    file: Path
    certificate: Certificate


class CertificateDates:
    """Logs once for each certificate that it expires soon, and once that it has."""

    def __init__(self, shown: Callable[[], Iterable[Shown]], clock: Callable[[], float] = time.time) -> None:
        """`shown`: the certificates in use now; `clock`: Unix time, in seconds."""
        self._shown = shown
        self._clock = clock
        self._told: dict[str, tuple[Certificate, bool, bool]] = {}
        self._log = structlog.get_logger("sluice")

    def look(self) -> None:
        """Log what has not been logged yet."""
        now = self._clock()
        for place, file, certificate in self._shown():
            wrong, soon = out_of_date(certificate, now), expires_soon(certificate, now)
            state = (certificate, wrong != "", soon != "")
            if self._told.get(place) == state:
                continue
            self._told[place] = state
            if wrong:
                self._log.error("certificate_expires", listener=place, file=str(file), detail=wrong)
            elif soon:
                self._log.warning("certificate_expires", listener=place, file=str(file), detail=soon)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            self.look()


def unusable(config: Config) -> dict[str, str]:
    """Why TLS sections cannot be used at all, by key: OpenSSL is given all their files."""
    found = {}
    for place, tls in sections(config).items():
        try:
            server_context(tls, "")
        except OSError as error:
            found[place] = str(error)
    return found


def dates(config: Config, now: float) -> tuple[dict[str, str], dict[str, str]]:
    """The certificates that are not valid at this Unix time, by key, and those that expire soon. Raises OSError.

    Authorities are wrong if all of them are.
    """
    own = {f"{place}.certfile": own_certificate(tls) for place, tls in sections(config).items()}
    read = {key: certificate for key, certificate in own.items() if certificate is not None}
    wrong = {key: out_of_date(certificate, now) for key, certificate in read.items()}
    wrong |= {f"{place}.cafile": no_authority(tls, now) for place, tls in sections(config).items()}
    soon = {key: expires_soon(certificate, now) for key, certificate in read.items()}
    return {key: why for key, why in wrong.items() if why}, {key: why for key, why in soon.items() if why}
