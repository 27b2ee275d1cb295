"""The new journals become the journals, in one step: a file says that they are whole (FC-27).

Before it is there nothing of the old journals is changed. From then on only the new ones count, and what is not
done yet is done at the next start. A kill or a power cut at any moment loses nothing.
"""

import shutil
from pathlib import Path

from broker.cluster.cell import journal_of
from broker.resharding.layout import FOLDER, SWITCH, files_of_one_worker, layout_of
from broker.storage import fsync
from broker.storage.errors import StorageError
from broker.storage.found import names


def clear(directory: Path) -> None:
    """Remove the folder with all that is in it. Raises OSError."""
    folder = directory / FOLDER
    (folder / SWITCH).unlink(missing_ok=True)  # first: without it the rest does not count
    fsync.sync_names(folder)
    shutil.rmtree(folder)
    fsync.sync_names(directory)


def commit(directory: Path, workers: int) -> None:
    """From now on the new journals, of so many workers, are the journals. Raises OSError."""
    folder = directory / FOLDER
    fsync.sync_names(directory)
    fsync.sync_names(folder)
    fsync.write_file(folder / SWITCH, b"%d\n" % workers)


def finish(directory: Path) -> None:
    """Remove the old journals, and put the new ones in their places. Raises OSError, StorageError."""
    folder = directory / FOLDER
    text = (folder / SWITCH).read_text().strip()
    if not text.isdigit():
        raise StorageError(f"{folder / SWITCH}: it has no number of workers: the file is damaged")
    workers = int(text)
    new = {number: path for number in range(1, workers + 1) if (path := journal_of(folder, number)).exists()}
    for number, path in layout_of(directory).cells.items():
        if workers == 1 or number > workers or number in new:  # else it is a new one already
            shutil.rmtree(path)
    if workers > 1:
        _remove_single(directory)
    fsync.sync_names(directory)
    for number, path in new.items():
        if workers > 1:
            path.replace(journal_of(directory, number))
        else:
            for segment in names(path):
                segment.replace(directory / segment.name)
    fsync.sync_names(directory)
    clear(directory)


def _remove_single(directory: Path) -> None:
    for name in files_of_one_worker(directory):
        path = directory / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
