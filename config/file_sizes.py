"""How large files may be that a configuration names: their size is looked at before memory is taken for them."""

import errno
import os
from pathlib import Path as FilePath
from typing import Final

from config.units import format_size

_MIB: Final = 1024 * 1024

USUAL: Final = _MIB
"""Bytes of certificates, keys, rules and secrets."""
_LARGER: Final = {
    "authentication.password_file": 64 * _MIB,
    "authorization.acl_file": 16 * _MIB,
    "tls.crlfile": 64 * _MIB,
}
"""By the ends of dotted keys. A user takes about 115 bytes in the file, and a client with a topic of its own 60 in an
ACL file, but far more in memory."""


def most_bytes(key: str) -> int:
    """How large the file may be that this dotted key names."""
    return next((most for end, most in _LARGER.items() if key.endswith(end)), USUAL)


def too_large(size: int, key: str) -> str:
    """Why a file of this size is not read; empty if it is."""
    most = most_bytes(key)
    return "" if size <= most else f"has {size} bytes: expected at most {most} ({format_size(most)}) in such a file"


def read_bytes(path: FilePath, key: str) -> bytes:
    """What the file holds that this key names. Raises OSError, also if it is too large."""
    with path.open("rb") as file:
        if why := too_large(os.fstat(file.fileno()).st_size, key):
            raise OSError(errno.EFBIG, why, str(path))
        return file.read(most_bytes(key))
