"""The files of a certificate: a reload says which of them have other contents than before, under the same name."""

import hashlib
from pathlib import Path
from typing import Final

from config.tls import Tls

CERTIFICATE: Final = ("certfile", "keyfile")
"""Keys of `tls` that say who the broker is."""
KEYS: Final = (*CERTIFICATE, "cafile")
"""Those that a reload reads. Lists of revoked certificates are followed, and read without a reload."""

Digests = dict[str, tuple[Path, bytes]]
"""The file of each key that is set, and a digest of its contents."""


def digests(tls: Tls) -> Digests:
    """Read the files. Raises OSError."""
    paths = {key: getattr(tls, key) for key in KEYS}
    return {key: (path, hashlib.sha256(path.read_bytes()).digest()) for key, path in paths.items() if path is not None}


def renewed(before: Digests, after: Digests) -> list[str]:
    """Return the keys whose files have the same names and other contents."""
    both = before.keys() & after.keys()
    return [key for key in KEYS if key in both and before[key] != after[key] and before[key][0] == after[key][0]]
