"""The chain of a server certificate that Mosquitto takes from a cafile or capath: OpenSSL completes it from there."""

import re
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from config import imported, mosquitto

INCOMPLETE: Final = (
    "Mosquitto sends intermediate certificates from it with the server's, and Sluice only what is in certfile: "
    "clients may not trust it. Write them into one file, cat {certfile} INTERMEDIATES > chain.pem, and name that as "
    "tls.certfile"
)
_HASHED: Final = re.compile(r"[0-9a-f]{8}\.\d+")
"""The names of the files in a folder that OpenSSL looks at."""


def missing(chains: Sequence[tuple[str, imported.Line]], paths: mosquitto.Paths) -> Iterator[str]:
    """What has to be said about certificates and lines `cafile` or `capath` that are for nothing but their chain."""
    for certfile, line in chains:
        try:
            found = set().union(*map(_intermediates, _files(Path(paths.of(line)))))
        except OSError as error:
            yield f"{line}: the folder cannot be read: {error.strerror}"
            continue
        if found - _authorities(Path(certfile)):
            yield f"{line}: {INCOMPLETE.format(certfile=certfile)}"


def _files(place: Path) -> list[Path]:
    """A cafile, or what OpenSSL looks at in a capath. Raises OSError if that cannot be listed."""
    return [each for each in place.iterdir() if _HASHED.fullmatch(each.name)] if place.is_dir() else [place]


def _intermediates(path: Path) -> set[bytes]:
    """The authorities in a file that another one vouches for."""
    context = _loaded(path)
    found = zip(context.get_ca_certs(), context.get_ca_certs(binary_form=True), strict=True)
    return {data for names, data in found if names["subject"] != names["issuer"]}


def _authorities(path: Path) -> set[bytes]:
    return set(_loaded(path).get_ca_certs(binary_form=True))


def _loaded(path: Path) -> ssl.SSLContext:
    """A context with the authorities of a file; without any if it cannot be read, which is told elsewhere."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if path.is_file():
            context.load_verify_locations(cafile=path)
    except (OSError, ValueError):
        pass
    return context
