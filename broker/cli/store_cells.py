"""The journals of several workers, for the commands `sluice store ...`: they act on all, and say which cell."""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from broker.cli.store_files import copying, reading, refuse
from broker.cluster.cell import journal_of
from broker.resharding.layout import layout_of
from broker.storage.found import Found, find
from broker.storage.making import NewJournal


class StoredJournal(NamedTuple):
    """One of the journals of a directory."""

    cell: int
    """0 = it is that of one worker."""
    path: Path

    @property
    def label(self) -> str:
        """What a line about it begins with."""
        return f"cell {self.cell}: " if self.cell else ""

    def copy(self, directory: Path) -> Path:
        """Its place in the copy."""
        return journal_of(directory, self.cell) if self.cell else directory


def journals(directory: Path) -> list[StoredJournal]:
    """The journals of a directory, also those of cells that are missing. Ends the command if they are being changed."""
    try:
        layout = layout_of(directory)
    except OSError as error:
        refuse(directory, error.strerror)
    if layout.switched:
        refuse(directory, "another number of workers has not all its journals yet: start the broker, which ends that")
    if not layout.cells:
        return [StoredJournal(0, directory)]
    return [StoredJournal(number, journal_of(directory, number)) for number in range(1, max(layout.cells) + 1)]


@contextmanager
def reading_all(directory: Path, damaged: bool = False) -> Iterator[list[tuple[StoredJournal, Found]]]:
    """All journals of a directory, as `reading` gives each: as they are now, for all of them."""
    with ExitStack() as stack:
        yield [(each, stack.enter_context(reading(each.path, damaged))) for each in journals(directory)]


@contextmanager
def copying_all(copy: Path, those: Iterable[StoredJournal]) -> Iterator[dict[int, NewJournal]]:
    """A new journal for each, by the number of its cell, as `copying` makes it. All are there at the end, or none."""
    if copy == Path():
        refuse(copy, "name a directory for the copy")
    if copy.exists():
        refuse(copy, "File exists: the copy needs a directory that does not exist")
    try:
        with ExitStack() as stack:
            yield {each.cell: stack.enter_context(copying(each.copy(copy))) for each in those}
    except BaseException:
        shutil.rmtree(copy, ignore_errors=True)
        raise


def wrote_meanwhile(those: Iterable[tuple[StoredJournal, Found]]) -> bool:
    """Whether one of several journals has got more since it was looked at."""
    return any(each.cell and find(each.path).next != found.next for each, found in those)
