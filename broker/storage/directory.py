"""The directory of a journal: who may use it, and that one broker does (FC-27)."""

import errno
import fcntl
import os
from pathlib import Path
from typing import Final

from broker.storage import fsync
from broker.storage.errors import StorageError, unusable
from broker.storage.found import names
from broker.storage.spares import NEW
from config.files import writable_by_others

LOCK: Final = "journal.lock"
"""A broker holds it."""
READERS: Final = "journal.readers"
"""Tools share it while they read: no segment is used again meanwhile."""

_UNLOCKABLE: Final = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK})
"""Errors of file systems that lock no directories, such as NFS."""


def occupy(directory: Path) -> list[int]:
    """Make the directory if it is not there, and lock it: these files hold the locks until they are closed, in order.

    Raises StorageError.
    """
    try:
        _make(directory)
        if why := writable_by_others(directory):
            raise StorageError(f"persistence.directory {directory}: {why}")
        _check_kinds(directory)
        return _lock(directory)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"persistence.directory {directory}: {unusable(error)}") from error


def _make(directory: Path) -> None:
    """Make it, with its parents, and have a power cut not take their names away.

    Raises OSError, also if no files can be made in it: a segment will be needed later.
    """
    new = [each for each in (directory, *directory.parents) if not each.exists()]
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in new:
        fsync.sync_names(each.parent)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _check_kinds(directory: Path) -> None:
    """Raise StorageError if what has the name of one of the journal's files is none. Raises OSError."""
    for path in (directory / LOCK, directory / READERS, directory / NEW, *names(directory)):
        if path.exists() and not path.is_file():
            raise StorageError(f"{path}: this is not a file, and the journal needs one of this name: move it away")


def _lock(directory: Path) -> list[int]:
    """Lock the directory itself, because a file in it can be removed, and then another broker would lock a new one.

    The file is locked too: some file systems lock no directories, and brokers before this one look at the file only.
    """
    files: list[int] = []
    try:
        files.append(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        try:
            fcntl.flock(files[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _UNLOCKABLE:
                raise
        files.append(os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        fcntl.flock(files[1], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        for file in files:
            os.close(file)
        if isinstance(error, BlockingIOError):
            remedy = "stop that one, or name another directory"
            raise StorageError(f"persistence.directory {directory}: another broker uses it: {remedy}") from error
        raise
    return files
