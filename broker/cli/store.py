"""The commands `sluice store ...`: they show, check and copy a journal (FC-27)."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from broker.cli.store_cells import StoredJournal, copying_all, journals, reading_all, wrote_meanwhile
from broker.cli.store_figures import Figures
from broker.cli.store_files import DAMAGED, reading
from broker.storage import frame
from broker.storage.errors import StorageError
from broker.storage.found import Found, frames
from broker.storage.making import NewJournal
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

    Live are the messages and the state of sessions, such as subscriptions, that compaction would keep. With several
    workers there is a block of lines for each cell, and one for all.
    """
    total = Figures()
    with reading_all(directory) as found:
        for journal, own in found:
            figures = Figures()
            figures.add(_read(own), journal.cell)
            total.join(figures)
            if journal.cell:
                print(f"cell {journal.cell}")
                print(*figures.lines(), "", sep="\n")
    if found[0][0].cell:
        print("all cells")
    print(*total.lines(), sep="\n")


@store_app.command()
def check(directory: Directory) -> None:
    """Read all of a journal, and list every frame that is damaged or missing."""
    damage, unreadable = 0, False
    for journal in journals(directory):
        try:
            damage += _check(journal)
        except typer.Exit:
            if not journal.cell:
                raise
            unreadable = True  # the others may be looked at
    if damage:
        print(f"sluice: {damage} problems; `sluice store salvage` copies what can be read", file=sys.stderr)
    if damage or unreadable:
        raise typer.Exit(DAMAGED)


def _check(journal: StoredJournal) -> int:
    """Check one journal; returns the number of its problems."""
    damage, count, label = 0, 0, journal.label
    with reading(journal.path, damaged=True) as found:
        for problem in found.damage:
            print(f"{label}{problem}")
            damage += 1
        for piece in pieces(found):
            if piece.damage:
                print(f"{label}{piece}: {piece.damage}")
                damage += 1
            else:
                count += piece.count()
    print(f"{label}{count} frames can be read" if damage else f"{label}{count} frames, no damage found")
    return damage


@store_app.command()
def backup(directory: Directory, copy: Copy) -> None:
    """Copy a journal, also while its broker runs. One that is damaged is not copied.

    With several workers those of all cells are copied. Stop the broker for a copy of one moment: else what was on its
    way from one cell to another may be missing in it, or come twice.
    """
    with reading_all(directory) as found, copying_all(copy, [journal for journal, _ in found]) as new:
        for journal, own in found:
            for _, content in frames(own):
                new[journal.cell].add([content[frame.HEAD_SIZE :]])
        changed = wrote_meanwhile(found)
    for journal, _ in found:
        print(f"{journal.copy(copy)}: {new[journal.cell].count} frames")
    if changed:
        print(f"{copy}: the broker wrote meanwhile: what was on its way between cells may be missing, or come twice")


@store_app.command()
def salvage(directory: Directory, copy: Copy) -> None:
    """Copy what can be read of a damaged journal, and list what is lost."""
    ends: list[str] = []
    with reading_all(directory, damaged=True) as found, copying_all(copy, [journal for journal, _ in found]) as new:
        wrong = [_salvage(journal, own, new[journal.cell], copy, ends) for journal, own in found]
    print(*ends, sep="\n")
    if any(wrong):
        raise typer.Exit(DAMAGED)


def _salvage(journal: StoredJournal, found: Found, new: NewJournal, copy: Path, ends: list[str]) -> bool:
    """Copy what can be read of one journal; returns whether anything is lost. `ends`: what is to be said at the end."""
    lost, label = 0, journal.label
    saved = Saved()
    for problem in found.damage:
        print(f"{label}{problem}")
    for piece in pieces(found):
        if piece.damage:
            print(f"{label}{piece}: {piece.damage}: lost")
            lost += piece.count()
        else:  # they are numbered anew: a gap would be damage
            new.add([piece.content[frame.HEAD_SIZE :]])
            saved.read(new.count, piece.content)
    if not new.count and (lost or not journal.cell):
        raise StorageError(f"{journal.path} has no frame that can be read")
    missing = f"at least {lost}" if found.damage else lost
    ends.append(f"{label}{new.count} frames are in {journal.copy(copy)}, {missing} are lost")
    orphans = sum(session.deliveries.length for session in saved.sessions.values() if not session.begun)
    if orphans:
        why = "the sessions that they are for were in what is lost"
        ends.append(f"{label}{orphans} deliveries in them are lost too: {why}")
    return bool(lost or found.damage)
