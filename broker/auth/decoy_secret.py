"""The secret that the salts of unknown SCRAM users are made from, kept beside the journal.

Salts of users stay over a restart: if those of decoys did not, they would tell which names are users. The secret is
random, because passwords could be tested against salts that were made from users' keys.
"""

import os
from pathlib import Path
from secrets import token_bytes
from typing import Final

import structlog

from config.credentials import KEY_BYTES

FILE: Final = "scram.secret"
"""In `persistence.directory`, mode 0600."""


def decoy_secret(directory: Path | None) -> bytes:
    """The secret that this directory keeps, made if it has none; None = one that ends with the process.

    An OSError is logged, and the secret is one that ends with the process.
    """
    if directory is None:
        return token_bytes(KEY_BYTES)
    path = directory / FILE
    try:
        return _kept(path) or _make(path)
    except OSError as error:
        detail = f"{error.filename or path}: {error.strerror}; after a restart, salts tell which names are users"
        structlog.get_logger("sluice").warning("scram_secret_not_kept", detail=detail)
        return token_bytes(KEY_BYTES)


def _kept(path: Path) -> bytes | None:
    """What the file holds; None if it is not there, or a crash has cut it off."""
    try:
        with path.open("rb") as file:
            secret = file.read(KEY_BYTES + 1)
    except FileNotFoundError:
        return None
    return secret if len(secret) == KEY_BYTES else None


def _make(path: Path) -> bytes:
    secret = token_bytes(KEY_BYTES)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secret)
        file.flush()
        os.fsync(descriptor)
    return secret
