"""Checks the files that a configuration names, without using them."""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any, Final

from config.file_sizes import USUAL, too_large
from config.layers import Path, dotted
from config.units import found

_CERTIFICATE: Final = (b"-----BEGIN CERTIFICATE-----", b"-----BEGIN TRUSTED CERTIFICATE-----")
_CRL: Final = (b"-----BEGIN X509 CRL-----",)
_KEY: Final = (b"PRIVATE KEY-----",)
_ENCRYPTED: Final = (b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"Proc-Type: 4,ENCRYPTED")


def broken(listeners: object, admin: object = None, bridges: object = None) -> Iterator[tuple[Path, str]]:
    """Find TLS files that are missing, unreadable or of the wrong kind, in raw or loaded values."""
    sections: list[tuple[Path, object]] = [(("admin",), admin)]
    for key, listed in (("listeners", listeners), ("bridges", bridges)):
        sections += [((key, index), each) for index, each in enumerate(listed if isinstance(listed, list) else [])]
    for path, section in sections:
        tls = section.get("tls") if isinstance(section, dict) else None
        if isinstance(tls, dict):
            for key, message in _tls(tls):
                yield (*path, "tls", key), message


def unreadable(names: Mapping[Path, str | None]) -> Iterator[tuple[Path, str]]:
    """Find files that cannot be read, of those that keys name. What is in them is checked by the broker."""
    for path, name in names.items():
        if name is None:
            continue
        _, problem = _read(name, dotted(path))
        if problem:
            missing = path == ("authentication", "password_file") and problem.startswith("there is no")
            yield path, problem + (": `sluice user add --file FILE NAME` creates it" if missing else "")


def no_directory(name: object) -> str:
    """Why files cannot be made below this name: something else has it, or a part of it. Empty = nothing has."""
    if not isinstance(name, str | FilePath):
        return ""
    path = FilePath(name)
    first = next((each for each in (path, *path.parents) if is_there(each)), None)
    if first is None or first.is_dir():
        return ""
    return f"found {found(str(first))}, which is no directory: name another one, or move it away"


def no_journal(name: object) -> str:
    """Why a journal cannot be below this name; empty if nothing is in the way.

    Root checks for the user whom the broker will run as, so that whose the directory is counts for other users only.
    """
    if not isinstance(name, str | FilePath):
        return ""
    judge = writable_by_all if os.geteuid() == 0 else writable_by_others
    return no_directory(name) or judge(FilePath(name))


def writable_by_others(directory: FilePath) -> str:
    """Why users besides this one and root can replace what is in a directory; empty if none can. Raises OSError.

    A group of this user's own may write, as orchestrators arrange it for volumes.
    """
    if not is_there(directory):
        return ""
    status, own = directory.stat(), os.geteuid()
    if status.st_uid not in {0, own}:
        remedy = f"`chown -R {own} {directory}` (the broker is user {own}), or name another directory"
        return f"it belongs to user {status.st_uid}, who can replace the journal: {remedy}"
    strangers = status.st_gid not in {os.getegid(), *os.getgroups()}
    return _writable(directory, stat.S_IWOTH | (stat.S_IWGRP if strangers else 0))


def writable_by_all(directory: FilePath) -> str:
    """Why all users can replace what is in a directory; empty if they cannot, or it is not there. Raises OSError."""
    return _writable(directory, stat.S_IWOTH) if is_there(directory) else ""


def _writable(directory: FilePath, forbidden: int) -> str:
    """The sticky bit does not help, because whoever can make a file can make a segment."""
    mode = stat.S_IMODE(directory.stat().st_mode)
    if not mode & forbidden:
        return ""
    remedy = f"`chmod go-w {directory}`, or name another directory"
    return f"its mode is {mode:04o}, so other users can replace the journal: {remedy}"


def is_irregular(path: FilePath) -> bool:
    """Whether it is neither a file nor a directory: to open a FIFO would wait for its writer."""
    return is_there(path) and not (path.is_file() or path.is_dir())


def is_there(path: FilePath) -> bool:
    """Whether it exists, as far as can be seen: not in a closed folder, nor by a name that is too long."""
    try:
        return path.exists()
    except OSError:
        return False


def _tls(tls: dict[str, Any]) -> Iterator[tuple[str, str]]:
    has_keyfile = tls.get("keyfile") is not None
    wanted: dict[str, list[tuple[str, tuple[bytes, ...]]]] = {
        "certfile": [("certificate", _CERTIFICATE)] + ([] if has_keyfile else [("private key", _KEY)]),
        "keyfile": [("private key", _KEY)],
        "cafile": [("certificate", _CERTIFICATE)],
        "crlfile": [("revocation list", _CRL)],
    }
    for key, contents in wanted.items():
        if not isinstance(tls.get(key), str | FilePath):
            continue
        name = str(tls[key])
        text, problem = _read(name, f"tls.{key}")
        if problem:
            yield key, problem
            continue
        for what, marks in contents:
            if not any(mark in text for mark in marks):
                hint = ", and there is no keyfile" if key == "certfile" and what == "private key" else ""
                yield key, f"{name!r} holds no {what} in PEM form{hint}"
        if any(mark in text for mark in _ENCRYPTED):
            yield key, f"the private key in {name!r} is encrypted: store it without a passphrase"


def _read(name: str, key: str) -> tuple[bytes, str]:
    """The start of the file that a dotted key names, or why it cannot be read."""
    try:
        if is_irregular(FilePath(name)):
            return b"", f"{found(name)} is not a regular file"
        with FilePath(name).open("rb") as file:
            why = too_large(os.fstat(file.fileno()).st_size, key)
            return (b"", f"{found(name)} {why}") if why else (file.read(USUAL), "")
    except FileNotFoundError:
        return b"", f"there is no file {found(name)}"
    except IsADirectoryError:
        return b"", f"{found(name)} is a directory: name the file in it"
    except (OSError, ValueError) as error:
        return b"", f"{found(name)} cannot be read: {getattr(error, 'strerror', None) or error}"
