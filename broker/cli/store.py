"""The commands `sluice store ...`: they show, check and copy a journal (FC-27)."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from broker.cli.store_files import DAMAGED, copying, damage_of_log, reading, refuse, writing
from broker.storage import frame
from broker.storage.database import NAME, Database, read_frames
from broker.storage.salvage import pieces, problems
from broker.storage.saved import Saved

store_app = typer.Typer(help="Show, check and copy the journal of a broker.", no_args_is_help=True)

Directory = Annotated[Path, typer.Argument(metavar="DIRECTORY", help="The broker's persistence.directory.")]
Copy = Annotated[Path, typer.Argument(metavar="COPY", help="The new directory with the copy.")]


def _read(connection: sqlite3.Connection) -> Saved:
    saved = Saved()
    for number, content in read_frames(connection):
        saved.read(number, content)
    saved.finish()
    return saved


@store_app.command()
def stats(directory: Directory) -> None:
    """Print what is in a journal: sessions, deliveries, retained messages, and how many bytes are live and dead.

    Live are the messages and the state of sessions, such as subscriptions, that compaction would keep.
    """
    with reading(directory) as connection:
        saved = _read(connection)
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
    """Read all of a journal, and list every frame that is damaged or missing."""
    damage, count = 0, 0
    with reading(directory, damaged=True) as connection:
        for found in (*damage_of_log(directory), *problems(connection)):
            print(found)
            damage += 1
        for piece in pieces(connection):
            if piece.damage:
                print(f"{piece}: {piece.damage}")
                damage += 1
            else:
                count += 1
    if damage:
        print(f"{count} frames can be read")
        print(f"sluice: {damage} problems; `sluice store salvage` copies what can be read", file=sys.stderr)
        raise typer.Exit(DAMAGED)
    print(f"{count} frames, no damage found")


@store_app.command()
def backup(directory: Directory, copy: Copy) -> None:
    """Copy a journal, also while its broker runs."""
    with (
        copying(copy) as folder,
        reading(directory) as connection,
        writing(),
        closing(sqlite3.connect(folder / NAME)) as target,
    ):
        connection.backup(target)
    print(f"{copy / NAME}: {(copy / NAME).stat().st_size} bytes")


@store_app.command()
def salvage(directory: Directory, copy: Copy) -> None:
    """Copy what can be read of a damaged journal, and list what is lost."""
    kept = lost = 0
    with copying(copy) as folder, reading(directory, damaged=True) as connection:
        of_log, of_database = damage_of_log(directory), problems(connection)
        for found in (*of_log, *of_database):
            print(found)
        unknown = len(of_log)
        with closing(Database(folder)) as target:
            for piece in pieces(connection):
                if piece.damage:
                    print(f"{piece}: {piece.damage}: lost")
                    lost += piece.count()
                    unknown += not piece.count()
                    continue
                kept += 1  # they are numbered anew: a gap would be damage
                with writing():
                    target.append(kept, frame.encode(kept, [piece.content[frame.HEAD_SIZE :]]))
        if not kept:
            refuse(directory / NAME, "it has no frame that can be read: there is no copy")
    print(f"{kept} frames are in {copy / NAME}, {f'at least {lost + unknown}' if unknown else lost} are lost")
    if lost or unknown or of_database:
        raise typer.Exit(DAMAGED)
