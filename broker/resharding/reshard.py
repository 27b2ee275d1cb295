"""Brings the journals of a directory to another number of workers, before any of them starts (FC-27)."""

import gc
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import structlog

from broker.resharding import switch
from broker.resharding.layout import FOLDER, Layout, layout_of
from broker.resharding.moves import Moves
from broker.resharding.new_journals import making
from broker.resharding.old_journal import OldJournal
from broker.resharding.progress import Progress
from broker.resharding.unrouted import Unrouted
from broker.runtime.os_errors import text_of
from broker.storage import spares
from broker.storage.directory import occupy
from broker.storage.errors import StorageError

_MIB = 2**20


def reshard(directory: Path, workers: int, merge: bool = True) -> None:
    """Bring the journals that there are to so many workers. Raises StorageError.

    `merge`: whether overlapping subscriptions of a session give one delivery; otherwise one each.
    """
    try:
        while not layout_of(directory).fits(workers):
            _step(directory, workers, merge)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"persistence.directory {directory}: {text_of(error)}") from error


def _step(directory: Path, workers: int, merge: bool) -> None:
    """End what an earlier start has begun, or do all."""
    with ExitStack() as stack:
        for file in occupy(directory / FOLDER):
            stack.callback(os.close, file)
        layout = layout_of(directory)  # once nobody else changes it
        if layout.switched:
            switch.finish(directory)
            structlog.get_logger("sluice").info("workers_changed", detail="the end of what an earlier start has begun")
        elif layout._replace(folder=False).fits(workers):
            switch.clear(directory)
        else:
            _change(layout, workers, merge)


def _change(layout: Layout, workers: int, merge: bool) -> None:
    directory, log = layout.directory, structlog.get_logger("sluice")
    before = layout.workers
    with _undoing(directory), _not_collecting(), _open(layout) as journals:
        progress = Progress(
            2 * sum(each.size for each in journals),
            lambda percent: log.info("workers_changing", before=before, workers=workers, percent=percent),
        )
        log.info("workers_changing", before=before, workers=workers, percent=0)
        for journal in journals:
            journal.read(progress.add)
        moves = Moves(journals, workers)
        unrouted = Unrouted(journals, moves, merge)
        _check_room(directory, journals, workers)
        with making(directory / FOLDER, workers) as new:
            new.write(journals, moves, unrouted, progress)
        switch.commit(directory, workers)
        switch.finish(directory)
        log.info(
            "workers_changed",
            before=before,
            workers=workers,
            sessions=moves.sessions,
            messages=new.messages,
            seconds=progress.seconds(),
        )


@contextmanager
def _undoing(directory: Path) -> Iterator[None]:
    """Begin with an empty folder; leave none if it fails before the new journals count."""
    try:
        for path in (directory / FOLDER).iterdir():
            if path.is_dir():
                shutil.rmtree(path)
        yield
    except BaseException:
        with suppress(OSError):
            if not layout_of(directory).switched:
                switch.clear(directory)
        raise


@contextmanager
def _not_collecting() -> Iterator[None]:
    """What is read stays: to search it for garbage takes longer than to read it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _open(layout: Layout) -> Iterator[list[OldJournal]]:
    """The journals that there are, locked. Raises StorageError."""
    if layout.mixed():
        raise StorageError(
            f"{layout.directory} has the journal of one worker and those of {len(layout.cells)}: move away what is not "
            "yours, or name another directory"
        )
    device = layout.directory.stat().st_dev
    for path in layout.cells.values():
        if path.is_symlink() or path.stat().st_dev != device or path.is_mount():
            raise StorageError(
                f"{path}: it is a link, or on another disk: to change the number of workers it has to be a folder"
            )
    places = ({0: layout.directory} if layout.single else {}) | layout.cells
    with ExitStack() as stack:
        journals: list[OldJournal] = []
        for number, path in places.items():
            journals.append(OldJournal(number, path))
            stack.callback(journals[-1].close)
        yield journals


def _check_room(directory: Path, journals: list[OldJournal], workers: int) -> None:
    """Raise StorageError unless there is room for the new journals beside the old ones."""
    needed = workers * spares.SEGMENT
    for journal in journals:
        own, queues = 0, journal.saved.sessions.values()
        for queue in queues:
            needed += queue.state_bytes()
            own += queue.deliveries.record_bytes()
        needed += min(own, workers * journal.size)  # a message is written once for each cell, whoever gets it there
    needed += workers * max((each.retained_bytes() for each in journals), default=0)
    disk = shutil.disk_usage(directory)
    if disk.total and disk.free < needed:
        raise StorageError(
            f"persistence.directory {directory}: the journals of {workers} workers need up to {needed // _MIB + 1} MiB "
            f"beside the old ones, and {disk.free // _MIB} are free: make room, or start with as many workers as before"
        )
