"""All that the journal syncs: what these functions write is on disk when they return (FC-27)."""

import errno
import os
from pathlib import Path
from typing import Final

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE})
"""Errors that mean that there is no room, on the disk, in a quota, or for another open file. There may be later."""

NO_FILE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
"""Errors that mean that no file can be made."""

_PIECE: Final = 64 * 1024

_DSYNC: Final = frozenset({"ext2", "ext3", "ext4", "xfs", "f2fs", "tmpfs", "overlay"})
"""File systems of Linux that are known to sync what is written with RWF_DSYNC."""


def flag_of(directory: Path) -> int:
    """The flag with which `write` need not sync: RWF_DSYNC, or 0 where the file system is not known to honour it."""
    flag: int = getattr(os, "RWF_DSYNC", 0)
    return flag if flag and _file_system(directory) in _DSYNC else 0


def _file_system(directory: Path) -> str:
    """The kind of the file system that holds this directory; empty if that is not known."""
    device = directory.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        before, _, behind = line.partition(" - ")
        if before.split()[2] == number:
            return behind.split()[0]
    return ""


def write(file: int, content: bytes, position: int, flag: int) -> None:
    """Write it there, in one call unless less is written than asked for. Raises OSError."""
    written = os.pwritev(file, [content], position, flag)
    while written < len(content):
        written += os.pwritev(file, [memoryview(content)[written:]], position + written, flag)
    if not flag:
        os.fdatasync(file)


def make(path: Path, size: int) -> None:
    """Make a file of so many zeros. They are written: a file with holes is synced slower later. Raises OSError."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        zeros = bytes(_PIECE)
        for start in range(0, size, _PIECE):
            _write_all(file, zeros[: size - start])
        os.fsync(file)
    finally:
        os.close(file)


def write_file(path: Path, content: bytes) -> None:
    """Make a small file, which is there whole or not at all. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        _write_all(file, content)
        os.fsync(file)
    finally:
        os.close(file)
    new.replace(path)
    sync_names(path.parent)


def _write_all(file: int, content: bytes) -> None:
    written = os.write(file, content)
    while written < len(content):
        written += os.write(file, memoryview(content)[written:])


def sync(file: int) -> None:
    """Put on disk what has been written to this file, by whomever. Raises OSError."""
    os.fsync(file)


def sync_names(directory: Path) -> None:
    """Put on disk which files the directory has. Raises OSError."""
    number = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)
