"""The commands `sluice store ...`: they show, check and copy a journal (FC-27)."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from broker.cli.store_files import DAMAGED, copying, reading
from broker.storage import frame
from broker.storage.errors import StorageError
from broker.storage.found import Found, frames
from broker.storage.salvage import pieces
from broker.storage.saved import Saved

store_app = typer.Typer(help="Show, check and copy the journal of a broker.", no_args_is_help=True)

Directory = Annotated[Path, typer.Argument(metavar="DIRECTORY", help="The broker's persistence.directory.")]
Copy = Annotated[Path, typer.Argument(metavar="COPY", help="The new directory with the copy.")]


def _read(found: Found) -> Saved:
    saved = Saved()
    for number, content in frames(found):
        saved.read(number, content)
    saved.finish()
    return saved


@store_app.command()
def stats(directory: Directory) -> None:
    """Print what is in a journal: sessions, deliveries, retained messages, how many bytes are live and dead, wills.

    Live are the messages and the state of sessions, such as subscriptions, that compaction would keep.
    """
    with reading(directory) as found:
        saved = _read(found)
    size = sum(frame.size for frame in saved.frames.values())
    live = saved.live_bytes()
    queues = saved.sessions.values()
    addresses = [each for each in queues if each.topic]
    groups = [each for each in queues if each.group]
    pages = sum(each.deliveries.length for each in addresses)
    wills = sum(each.is_will() for each in queues)
    print(f"sessions    {len(queues) - len(groups) - len(addresses) - wills}")
    print(f"groups      {len(groups)}")
    print(f"deliveries  {sum(each.deliveries.length for each in queues) - pages}")
    print(f"pages       {pages}")
    print(f"retained    {len(saved.retained)}")
    print(f"frames      {len(saved.frames)}, the last one is {saved.last_frame}")
    print(f"bytes       {size}: {live} live, {max(size - live, 0)} dead")
    print(f"wills       {wills}")


@store_app.command()
def check(directory: Directory) -> None:
    """Read all of a journal, and list every frame that is damaged or missing."""
    damage, count = 0, 0
    with reading(directory, damaged=True) as found:
        for problem in found.damage:
            print(problem)
            damage += 1
        for piece in pieces(found):
            if piece.damage:
                print(f"{piece}: {piece.damage}")
                damage += 1
            else:
                count += piece.count()
    if damage:
        print(f"{count} frames can be read")
        print(f"sluice: {damage} problems; `sluice store salvage` copies what can be read", file=sys.stderr)
        raise typer.Exit(DAMAGED)
    print(f"{count} frames, no damage found")


@store_app.command()
def backup(directory: Directory, copy: Copy) -> None:
    """Copy a journal, also while its broker runs. One that is damaged is not copied."""
    with reading(directory) as found, copying(copy) as new:
        for _, content in frames(found):
            new.add([content[frame.HEAD_SIZE :]])
    print(f"{copy}: {new.count} frames")


@store_app.command()
def salvage(directory: Directory, copy: Copy) -> None:
    """Copy what can be read of a damaged journal, and list what is lost."""
    lost = 0
    saved = Saved()
    with reading(directory, damaged=True) as found, copying(copy) as new:
        for problem in found.damage:
            print(problem)
        for piece in pieces(found):
            if piece.damage:
                print(f"{piece}: {piece.damage}: lost")
                lost += piece.count()
            else:  # they are numbered anew: a gap would be damage
                new.add([piece.content[frame.HEAD_SIZE :]])
                saved.read(new.count, piece.content)
        if not new.count:
            raise StorageError(f"{directory} has no frame that can be read")
    print(f"{new.count} frames are in {copy}, {f'at least {lost}' if found.damage else lost} are lost")
    orphans = sum(session.deliveries.length for session in saved.sessions.values() if not session.begun)
    if orphans:
        print(f"{orphans} deliveries in them are lost too: the sessions that they are for were in what is lost")
    if lost or found.damage:
        raise typer.Exit(DAMAGED)
