"""Checks of users' entries. Messages never quote a value that may be secret."""

import binascii
from base64 import b64decode
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final
from unicodedata import normalize

from pydantic import SecretStr

from config import units

MAX_USERNAME: Final = 255
"""Bytes of the longest user name."""

MIN_SALT: Final = 12
"""Bytes of the shortest salt."""

KEY_BYTES: Final = 32
"""Bytes of a key, the length of a SHA-256 digest."""

_HINT: Final = "`sluice user scram NAME` prints such entries"


def check_username(value: object) -> object:
    """Refuse names that no client can send: SCRAM clients normalize the name first (RFC 4013)."""
    if isinstance(value, str):
        if not value or not value.isprintable() or len(value.encode()) > MAX_USERNAME:
            raise ValueError(f"found {units.found(value)}: write 1 to {MAX_USERNAME} bytes of printable characters")
        if normalize("NFKC", value) != value:
            raise ValueError(f"found {units.found(value)}: write its normal form, {normalize('NFKC', value)!r}")
    return value


def check_salt(value: object) -> object:
    """Base64 of at least MIN_SALT bytes."""
    if len(_decode(value)) < MIN_SALT:
        raise ValueError(f"expected at least {MIN_SALT} bytes in base64; {_HINT}")
    return value


def check_key(value: object) -> object:
    """Base64 of KEY_BYTES bytes."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if len(_decode(value)) != KEY_BYTES:
        raise ValueError(f"expected {KEY_BYTES} bytes in base64; {_HINT}")
    return value


def check_different(users: Sequence[Any]) -> Sequence[Any]:
    """Each user has one entry."""
    for name, count in Counter(user.username for user in users).items():
        if count > 1:
            raise ValueError(f"found {units.found(name)} {count} times: keep one entry of each user")
    return users


def _decode(value: object) -> bytes:
    """The decoded bytes; empty if the value is not base64."""
    try:
        return b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        return b""
