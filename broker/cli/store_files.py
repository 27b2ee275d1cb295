"""Opens a journal without changing its files, and makes a copy that has its name only when it is whole (FC-27)."""

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import typer

from broker.runtime.os_errors import text_of
from broker.storage import fsync, making, sqlite_journal
from broker.storage.directory import READERS
from broker.storage.errors import REMEDY, ForeignError, StorageError
from broker.storage.found import Found, find
from broker.storage.making import NewJournal
from broker.storage.records import DamagedError

DAMAGED: Final = 1
"""Exit status of `check` and `salvage` for a damaged journal, and of all commands for one that cannot be read."""

_UNFINISHED: Final = "unfinished"
"""The folder in a copy's directory where it is while it is made."""

_ATTEMPTS: Final = 5
"""How often the files are looked at that a broker changes meanwhile."""


def refuse(path: Path, why: object) -> NoReturn:
    """End the command with a message."""
    print(f"sluice: {path}: {why}", file=sys.stderr)
    raise typer.Exit(DAMAGED) from None


@contextmanager
def reading(directory: Path, damaged: bool = False) -> Iterator[Found]:
    """The segments of a journal, which a broker may use meanwhile. Ends the command if they cannot be read.

    `damaged`: whether the command looks for damage itself.
    """
    try:
        with _shared(directory):
            found = _find(directory)
            if found.damage and not damaged:
                refuse(directory, f"{found.damage[0]}: the journal is damaged; {REMEDY}")
            yield found
    except ForeignError as foreign:
        refuse(directory, foreign)
    except DamagedError as damage:
        refuse(directory, f"{damage}: the journal is damaged; {REMEDY}")
    except OSError as error:
        refuse(directory, error.strerror if error.filename == str(directory) else text_of(error))


@contextmanager
def _shared(directory: Path) -> Iterator[None]:
    """Meanwhile a broker uses no segment again. Raises OSError."""
    try:
        file = os.open(directory / READERS, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield  # there is no broker
        return
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield
    finally:
        os.close(file)


def _find(directory: Path) -> Found:
    """What there is. Raises OSError, ForeignError."""
    for attempt in range(_ATTEMPTS):
        try:
            found = find(directory)
        except FileNotFoundError:
            if not directory.exists() or attempt == _ATTEMPTS - 1:
                raise
            continue  # a broker has removed a file that was in the list
        if found.segments or found.damage or (directory / READERS).exists():
            return found
    if (directory / sqlite_journal.NAME).exists():
        refuse(directory, "the journal of an older broker: start this one with it, which converts it")
    refuse(directory, "there is no journal")


@contextmanager
def copying(copy: Path) -> Iterator[NewJournal]:
    """A new journal, which is put in the directory `copy` at the end. Nothing of it stays if that fails.

    Ends the command with a message if the copy cannot be written.
    """
    unfinished = copy / _UNFINISHED
    try:
        copy.mkdir(mode=0o700, parents=True)
    except OSError as error:
        refuse(copy, f"{error.strerror}: the copy needs a directory that does not exist")
    try:
        new = NewJournal(unfinished)
        try:
            yield new
        finally:
            new.close()
        making.move(unfinished, copy)
        shutil.rmtree(unfinished)
        fsync.sync_names(copy)
        fsync.sync_names(copy.parent)
    except (StorageError, OSError) as error:
        shutil.rmtree(copy, ignore_errors=True)
        refuse(copy, f"{text_of(error)}: there is no copy")
    except BaseException:
        shutil.rmtree(copy, ignore_errors=True)
        raise
