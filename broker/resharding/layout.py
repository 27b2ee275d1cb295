"""Which journals a directory has: that of one worker, or one for each cell."""

import re
from pathlib import Path
from typing import Final, NamedTuple

from broker.cluster.cell import JOURNAL, journal_of
from broker.storage import sqlite_journal
from broker.storage.directory import LOCK, READERS
from broker.storage.found import names
from broker.storage.spares import NEW

FOLDER: Final = "resharding"
"""The folder beside them in which new journals are until they are whole."""
SWITCH: Final = "switch"
"""The file in it that says that they are, and how many: from then on they are the journals."""

_CELL: Final = re.compile(rf"{JOURNAL}([1-9][0-9]*)")


class Layout(NamedTuple):
    """The journals of a directory."""

    directory: Path
    single: bool
    """Whether one worker has, or had, its journal here."""
    cells: dict[int, Path]
    """The journals of several workers, by the number of the cell."""
    folder: bool
    """Whether there is what is left of an earlier start that has not ended."""
    switched: bool
    """Whether the new journals in it are the journals."""

    @property
    def workers(self) -> int:
        """Of how many workers there are journals."""
        return len(self.cells) or int(self.single)

    def fits(self, workers: int) -> bool:
        """Whether so many workers can start."""
        if self.folder:
            return False
        if workers == 1:
            return not self.cells
        return not self.single and (not self.cells or set(self.cells) == set(range(1, workers + 1)))

    def change_to(self, workers: int) -> str:
        """What a start with so many workers does with the journals before it serves; empty = nothing."""
        if self.switched:
            return "another number of workers has not all its journals yet: a start ends that first"
        if self.mixed():
            return f"it has the journal of one worker and those of {len(self.cells)}: a start refuses that"
        if self._replace(folder=False).fits(workers):
            return ""
        before = f"the journals of {len(self.cells)} workers" if self.cells else "the journal of one worker"
        return f"it has {before}: a start moves what is in them to {'one' if workers == 1 else workers}"

    def mixed(self) -> bool:
        """Whether there are journals of one worker and of several: nobody knows which one counts."""
        if not self.cells or not self.single:
            return False
        return bool(names(self.directory)) or (self.directory / sqlite_journal.NAME).exists()


def layout_of(directory: Path | None) -> Layout:
    """The journals in `persistence.directory`; None = there are none. Raises OSError."""
    if directory is None or not directory.is_dir():
        return Layout(directory or Path(), False, {}, False, False)
    there = {each.name for each in directory.iterdir()}
    cells = {int(match[1]): journal_of(directory, int(match[1])) for name in there if (match := _CELL.fullmatch(name))}
    single = bool(there.intersection(files_of_one_worker(directory)))
    switched = (directory / FOLDER / SWITCH).exists()
    return Layout(directory, single, dict(sorted(cells.items())), FOLDER in there, switched)


def files_of_one_worker(directory: Path) -> list[str]:
    """The names that the files of one worker's journal have."""
    own = [LOCK, READERS, NEW, sqlite_journal.NAME, sqlite_journal.OLD, sqlite_journal.FOLDER]
    return [*own, *(each.name for each in names(directory))]
