"""Says when certificates of the broker, or authorities of its clients, are about to expire or are not valid."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import structlog

from broker.server.listening import server_context
from broker.server.tls_files import Certificates, read_certificates, sections
from config.models import Config
from config.tls import Tls

INTERVAL: Final = 1.0
"""Seconds between two looks, as often as at the files: a new one may have expired."""


class Shown(NamedTuple):
    """The certificates of one place where TLS is used."""

    place: str
    """Where, for the log: the name of a listener, or `admin`."""
    tls: Tls
    certificates: Certificates


class CertificateDates:
    """Logs once for each file that its certificates expire soon, and once that they have."""

    def __init__(self, shown: Callable[[], Iterable[Shown]], clock: Callable[[], float] = time.time) -> None:
        """`shown`: the certificates in use now; `clock`: Unix time, in seconds."""
        self._shown = shown
        self._clock = clock
        self._told: dict[tuple[str, str], tuple[object, bool, bool]] = {}
        self._log = structlog.get_logger("sluice")

    def look(self) -> None:
        """Log what has not been logged yet."""
        now = self._clock()
        for place, tls, found in self._shown():
            wrong, soon = found.out_of_date(now), found.expire_soon(now)
            for key, dated in (("certfile", found.own), ("cafile", found.authorities)):
                state = (dated, key in wrong, key in soon)
                if self._told.get((place, key)) == state:
                    continue
                self._told[place, key] = state
                fields = {"listener": place, "file": str(getattr(tls, key))}
                if key in wrong:
                    self._log.error("certificate_expires", **fields, detail=wrong[key])
                elif key in soon:
                    self._log.warning("certificate_expires", **fields, detail=soon[key])

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
    read = {place: read_certificates(tls) for place, tls in sections(config).items()}
    wrong = {f"{place}.{key}": why for place, each in read.items() for key, why in each.out_of_date(now).items()}
    soon = {f"{place}.{key}": why for place, each in read.items() for key, why in each.expire_soon(now).items()}
    return wrong, soon
