"""Hashes of passwords as password files hold them.

    $argon2id$v=19$m=MEMORY,t=PASSES,p=LANES$SALT$HASH    ours, and Mosquitto's from 2.1 on
    $7$ITERATIONS$SALT$HASH                               Mosquitto 2.0: PBKDF2 with SHA-512
    $6$SALT$HASH                                          Mosquitto 1: one round of SHA-512
"""

import binascii
import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from typing import Final

MEMORY: Final = 19_456
"""KiB of memory that a hash takes; with PASSES and LANES the least that OWASP recommends for argon2id."""
PASSES: Final = 2
LANES: Final = 1
_SALT_BYTES: Final = 16
_HASH_BYTES: Final = 32

MOST_MEMORY: Final = 1024 * 1024
"""KiB. What a hash costs is in the file; these limits keep one entry from taking the memory or time of the broker."""
MOST_PASSES: Final = 64
MOST_LANES: Final = 64
"""Each is a thread."""
MOST_ITERATIONS: Final = 10_000_000

_ARGON2: Final = re.compile(
    r"\$argon2id(\$v=(16|19))?\$m=(?P<memory>[1-9][0-9]{0,9}),t=(?P<passes>[1-9][0-9]{0,9}),p=(?P<lanes>[1-9][0-9]{0,7})"
    r"\$(?P<salt>[A-Za-z0-9+/]+)\$(?P<hash>[A-Za-z0-9+/]+)"
)
_LEAST_SALT: Final = 8
"""Bytes, by argon2 itself."""
_LEAST_HASH: Final = 4
_SHA512_BYTES: Final = 64
_LONGEST: Final = 512
"""Characters of the longest hash; Mosquitto's have up to 200."""


def make(password: bytes) -> str:
    """Hash a password with argon2id and a new salt."""
    from secrets import token_bytes

    from argon2.low_level import Type, hash_secret

    salt = token_bytes(_SALT_BYTES)
    return hash_secret(password, salt, PASSES, MEMORY, LANES, _HASH_BYTES, Type.ID).decode()


def check(encoded: str) -> None:
    """Raise ValueError if this is no hash that `verify` can work with. The message does not quote it."""
    kind = encoded.split("$", 2)[1:2]
    if len(encoded) > _LONGEST or kind not in (["argon2id"], ["7"], ["6"]) or not encoded.startswith("$"):
        raise ValueError("the password is not a hash of a known kind ($argon2id$, $7$ or $6$)")
    if kind == ["argon2id"]:
        _check_argon2(encoded)
    else:
        _parts(encoded)


def kind(encoded: str) -> str:
    """The name of a hash's kind. `encoded` has passed `check`."""
    name = encoded.split("$", 2)[1]
    return {"7": "pbkdf2-sha512", "6": "sha512"}.get(name, name)


def verify(encoded: str, password: bytes) -> bool:
    """Whether this is the password. It takes the same time if it is not. `encoded` has passed `check`."""
    if encoded.startswith("$argon2id$"):
        return _verify_argon2(encoded, password)
    iterations, salt, expected = _parts(encoded)
    if iterations:
        computed = hashlib.pbkdf2_hmac("sha512", password, salt, iterations)
    else:
        computed = hashlib.sha512(password + salt).digest()
    return hmac.compare_digest(computed, expected)


def _check_argon2(encoded: str) -> None:
    found = _ARGON2.fullmatch(encoded)
    if found is None:
        raise ValueError("the argon2id hash is not complete")
    if len(_unpadded(found["salt"])) < _LEAST_SALT or len(_unpadded(found["hash"])) < _LEAST_HASH:
        raise ValueError("the argon2id hash is not complete")
    memory, passes, lanes = (int(found[name]) for name in ("memory", "passes", "lanes"))
    if memory > MOST_MEMORY or passes > MOST_PASSES or lanes > MOST_LANES:
        raise ValueError(f"the argon2id hash asks for more than m={MOST_MEMORY},t={MOST_PASSES},p={MOST_LANES}")
    if memory < 8 * lanes:
        raise ValueError("the argon2id hash asks for less than 8 KiB of memory for each lane")


def _unpadded(text: str) -> bytes:
    """What base64 without padding stands for; empty if it is none."""
    try:
        value = b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        return b""
    return value if b64encode(value).decode().rstrip("=") == text else b""  # else bits are left over


def _verify_argon2(encoded: str, password: bytes) -> bool:
    from argon2.exceptions import VerifyMismatchError
    from argon2.low_level import Type, verify_secret

    try:
        return verify_secret(encoded.encode(), password, Type.ID)
    except VerifyMismatchError:
        return False


def _parts(encoded: str) -> tuple[int, bytes, bytes]:
    """Iterations (0 = one round without PBKDF2), salt and hash of Mosquitto's own kinds. Raises ValueError."""
    _, kind, *fields = encoded.split("$")
    try:
        iterations = int(fields.pop(0)) if kind == "7" else 0
        salt, expected = (b64decode(field, validate=True) for field in fields)
    except (ValueError, IndexError, binascii.Error):
        raise ValueError(f"the ${kind}$ hash is not complete") from None
    if len(expected) != _SHA512_BYTES or not salt or not (kind == "6" or 0 < iterations <= MOST_ITERATIONS):
        raise ValueError(f"the ${kind}$ hash is not complete")
    return iterations, salt, expected
