"""Keys beside which secrets are written: what is found at them may be a secret at the wrong place."""

import re
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any, Final

from config.layers import Path
from config.units import found
from config.urls import HIDDEN

_TOKENS: Final = ("admin", "tokens")
_USERS: Final = ("authentication", "password_file")
_SECRET_FILES: Final = {
    ("authentication", "http", "header_file"),
    ("authentication", "jwt", "key_file"),
    ("authentication", "postgres", "password_file"),
    ("bridges", "password_file"),
}
_BESIDE_SECRETS: Final = {
    ("authentication", "http", "header"),
    ("authentication", "postgres", "host"),
    ("authentication", "postgres", "query"),
}
_MASKED: Final = ("bridges", "address")
"""What the message quotes of it is no secret."""
_NO_FILE_NAME: Final = re.compile(r"[\s:$]")
"""In passwords, their hashes and lines of password files, but hardly in the names of such files."""


def without_secrets(message: str, path: Path, values: Mapping[str, Any]) -> str:
    """A message about the value at `path` of these, which does not quote it if it may be a secret."""
    value = _at(path, values)
    if not isinstance(value, str | int | float) or isinstance(value, bool) or not _may_be_secret(path, str(value)):
        return message
    message = message.replace(f"found {found(value)}", f"found {HIDDEN}")
    if not isinstance(value, str):
        return message
    return message.replace(repr(value), HIDDEN).replace(found(value), HIDDEN)  # a long one is shortened


def _at(path: Path, values: Mapping[str, Any]) -> object:
    """The value as written; None if there is none."""
    value: Any = values
    try:
        for key in path:
            value = value[key]
    except (KeyError, IndexError, TypeError):
        return None
    return value


def _may_be_secret(path: Path, text: str) -> bool:
    key = tuple(each for each in path if isinstance(each, str))
    if key == _USERS:
        return _NO_FILE_NAME.search(text) is not None
    if key in _SECRET_FILES:
        return not _is_in_folder(text)
    return key in _BESIDE_SECRETS or key[:2] == _TOKENS or ("://" in text and key != _MASKED)


def _is_in_folder(text: str) -> bool:
    """Whether it names a place in a folder that exists, and so is no secret."""
    folder = FilePath(text).parent
    try:
        return folder.name != "" and folder.is_dir()
    except OSError:  # too long for a name
        return False
