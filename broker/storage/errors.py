"""What can be wrong with a journal, and what to say of it."""

from typing import Final

from mypy_extensions import mypyc_attr

from broker.storage.records import DamagedError

REMEDY: Final = "`sluice store check` lists all damage; restore a backup, or `sluice store salvage`"

RIGHTS: Final = "the broker's user has to be able to read and write all files of the directory"


@mypyc_attr(native_class=False)  # mypyc cannot compile a subclass of OSError
class StorageError(OSError):
    """The directory cannot be used; the text says why, and what was expected."""


@mypyc_attr(native_class=False)
class FailedError(StorageError):
    """The disk has failed while the broker ran."""


class ForeignError(DamagedError):
    """It is whole, but not a journal that this broker can use."""


def text_of(error: OSError) -> str:
    """What to say of a call that has failed."""
    if isinstance(error, StorageError):
        return str(error)
    what = error.strerror or str(error)
    return f"{error.filename}: {what}" if error.filename else what


def unusable(error: OSError) -> str:
    """What to say of a directory that cannot be used."""
    if isinstance(error, PermissionError):
        return f"{error.strerror}: {RIGHTS}"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "it has to be a directory, and there is a file in its way: move that away, or name another directory"
    return error.strerror or str(error)
