"""The commands `sluice store ...`: they show, check and copy a journal (FC-27)."""

import fcntl
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from broker.storage import frame
from broker.storage.database import LOCK, NAME, Database, StorageError, check_files, check_head, read_frames
from broker.storage.records import DamagedError
from broker.storage.saved import Saved

DAMAGED: Final = 1
"""Exit status of `check` and `salvage` for a damaged journal, and of all commands for one that cannot be read."""

store_app = typer.Typer(help="Show, check and copy the journal of a broker.", no_args_is_help=True)

Directory = Annotated[Path, typer.Argument(metavar="DIRECTORY", help="The broker's persistence.directory.")]


@contextmanager
def _reading(directory: Path) -> Iterator[sqlite3.Connection]:
    """The database, which a broker may use meanwhile. Ends the command with a message if it cannot be read."""
    path = directory / NAME
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            yield connection
    except (sqlite3.Error, DamagedError, UnicodeError) as error:
        print(f"sluice: {path}: {error}", file=sys.stderr)
        raise typer.Exit(DAMAGED) from None


def _is_used(directory: Path) -> bool:
    """Whether a broker has it open: its files change while they are read."""
    try:
        with (directory / LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass  # what reads it next says why it cannot be read
    return False


def _damage_of_files(directory: Path) -> str:
    """What is wrong with the files as such; empty if nothing is, or a broker uses them."""
    try:
        if not _is_used(directory):
            check_files(directory / NAME)
    except DamagedError as error:
        return str(error)
    except OSError:
        pass  # what reads it next says why it cannot be read
    return ""


def _read(connection: sqlite3.Connection) -> Saved:
    saved = Saved()
    for number, content in read_frames(connection):
        saved.read(number, content)
    saved.finish()
    return saved


@store_app.command()
def stats(directory: Directory) -> None:
    """Print what is in a journal: sessions, deliveries, retained messages, and how many bytes are live and dead."""
    with _reading(directory) as connection:
        try:
            saved = _read(connection)
        except DamagedError as error:
            print(f"sluice: {directory / NAME}: {error}; `sluice store check` lists all damage", file=sys.stderr)
            raise typer.Exit(DAMAGED) from None
    size = sum(frame.size for frame in saved.frames.values())
    live = saved.live_bytes()
    queues = saved.sessions.values()
    addresses = [each for each in queues if each.topic]
    groups = [each for each in queues if each.group]
    pages = sum(each.deliveries.length for each in addresses)
    print(f"sessions    {len(queues) - len(groups) - len(addresses)}")
    print(f"groups      {len(groups)}")
    print(f"deliveries  {sum(each.deliveries.length for each in queues) - pages}")
    print(f"pages       {pages}")
    print(f"retained    {len(saved.retained)}")
    print(f"frames      {len(saved.frames)}, the last one is {saved.last_frame}")
    print(f"bytes       {size}: {live} live, {max(size - live, 0)} dead")


@store_app.command()
def check(directory: Directory) -> None:
    """Read all of a journal, and list every frame that is damaged."""
    saved, damaged, count = Saved(), 0, 0
    if found := _damage_of_files(directory):
        print(found)
        damaged += 1
    with _reading(directory) as connection:
        try:
            check_head(connection)
        except DamagedError as error:
            print(error)
            damaged += 1
        (intact,) = connection.execute("pragma integrity_check").fetchone()
        if intact != "ok":
            print(f"SQLite: {intact}")
            damaged += 1
        for number, content in read_frames(connection):
            count += 1
            try:
                saved.read(number, content)
            except DamagedError as error:
                print(error)
                damaged += 1
    if damaged:
        print(f"sluice: {damaged} problems; `sluice store salvage` copies what can be read", file=sys.stderr)
        raise typer.Exit(DAMAGED)
    print(f"{count} frames, no damage found")


@store_app.command()
def backup(
    directory: Directory, copy: Annotated[Path, typer.Argument(help="The new directory with the copy.")]
) -> None:
    """Copy a journal, also while its broker runs."""
    with _reading(directory) as connection:
        _make(copy)
        with closing(sqlite3.connect(copy / NAME)) as target:
            connection.backup(target)
    print(f"{copy / NAME}: {(copy / NAME).stat().st_size} bytes")


@store_app.command()
def salvage(
    directory: Directory, copy: Annotated[Path, typer.Argument(help="The new directory with the copy.")]
) -> None:
    """Copy what can be read of a damaged journal, and list what is lost."""
    lost = kept = 0
    if found := _damage_of_files(directory):
        print(f"{found}: all frames behind it are lost")
        lost += 1
    _make(copy)
    try:
        target = Database(copy)
    except StorageError as error:
        print(f"sluice: {error}", file=sys.stderr)
        raise typer.Exit(DAMAGED) from None
    with closing(target), _reading(directory) as connection:
        for number, content in read_frames(connection):
            try:
                Saved().read(number, content)
            except DamagedError as error:
                print(f"{error}: {len(content)} bytes are lost")
                lost += 1
            else:
                kept += 1  # they are numbered anew: a gap would be damage
                target.append(kept, frame.encode(kept, [content[frame.HEAD_SIZE :]]))
    print(f"{kept} frames are in {copy / NAME}, {lost} are lost")
    if lost:
        raise typer.Exit(DAMAGED)


def _make(copy: Path) -> None:
    try:
        copy.mkdir(mode=0o700, parents=True)
    except OSError as error:
        print(f"sluice: {copy}: {error.strerror}: the copy needs a directory that does not exist", file=sys.stderr)
        raise typer.Exit(DAMAGED) from None
