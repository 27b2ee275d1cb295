"""What can be wrong with a journal, and what to say of it."""

import errno
from typing import Final

from mypy_extensions import mypyc_attr

from broker.storage.records import DamagedError

REMEDY: Final = "`sluice store check` lists all damage; restore a backup, or `sluice store salvage`"

DISK_FULL: Final = "the disk has room"
"""What has to be before the journal has room again."""

PASSING: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR})
"""Errors of reading a file that say nothing of it."""

RIGHTS: Final = "the broker's user has to be able to read and write all files of the directory"


@mypyc_attr(native_class=False)  # mypyc cannot compile a subclass of OSError
class StorageError(OSError):
    """The directory cannot be used; the text says why, and what was expected."""


@mypyc_attr(native_class=False)
class FailedError(StorageError):
    """The disk has failed while the broker ran."""


class ForeignError(DamagedError):
    """It is whole, but not a journal that this broker can use."""


@mypyc_attr(native_class=False)
class UnreadableError(StorageError, DamagedError):
    """The disk does not give what it holds: what that is cannot be told."""


def unusable(error: OSError) -> str:
    """What to say of a directory that cannot be used."""
    if isinstance(error, PermissionError):
        return f"{error.strerror}: {RIGHTS}"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "it has to be a directory, and something else is in its way: move that away, or name another directory"
    if error.errno == errno.EROFS:
        return f"{error.strerror}: mount it for writing, or name another directory"
    return error.strerror or str(error)


def until(error: OSError) -> str:
    """What has to be before there is room again, if this error says that there is none."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DISK_FULL
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "another file can be opened (ulimit -n, LimitNOFILE)"
    return f"another file can be made in the directory ({error.strerror})"
