"""Where the pages of one run of the broker are: a directory of its own, locked for as long as it lives.

```
<paging.directory>/<node name>-<run id>.pages/lock             held by the run that it belongs to
                                             /<address>-<number of the first message>.page
```
Sessions do not outlive a run, so what an earlier one has left behind is for nobody: it is stale, and removed. What
tells the two apart is the lock, which the operating system gives back whatever way a process ends.
"""

import fcntl
import os
import re
import secrets
from pathlib import Path
from typing import Final, final

from broker.addresses.paging.queue import PageQueue
from broker.addresses.paging.record import count_messages
from broker.addresses.paging.segment import SUFFIX

_LOCK: Final = "lock"
_RUN: Final = re.compile(r".+-[0-9a-f]{16}\.pages")
_PAGE: Final = re.compile(r"([0-9]+)-([0-9]+)" + re.escape(SUFFIX))
_TRIES: Final = 100
"""Somebody else's start may take a directory that is not locked yet for a stale one: then another is made."""


@final
class Removed:
    """What has been removed, in all."""

    def __init__(self) -> None:
        self.directories = 0
        self.bytes = 0
        self.messages = 0
        """What the stale ones held, so far as that can be told; some of it had been handed over."""
        self.problems: list[str] = []
        """What could not be removed, and why."""


@final
class RunDirectory:
    """This run's directory. The files in it are for one thread at a time."""

    def __init__(self, parent: Path, node: str) -> None:
        """Make and lock it. Raises OSError."""
        parent.mkdir(parents=True, exist_ok=True)
        for _ in range(_TRIES):
            path = parent / f"{node}-{secrets.token_hex(8)}.pages"
            path.mkdir(mode=0o700)
            lock = _lock(path, os.O_CREAT)
            if lock >= 0:
                break
        else:
            raise OSError(f"{parent}: no directory in it can be kept: something else removes them")
        self.path = path
        self._lock = lock
        self._addresses = 0

    def queue(self) -> PageQueue:
        """The pages of another address."""
        self._addresses += 1
        return PageQueue(self.path, str(self._addresses))

    def remove(self) -> Removed:
        """Remove the directory, and what is left in it: the run is over."""
        removed = Removed()
        _remove(self.path, self._lock, removed, False)
        return removed


def remove_stale(parent: Path) -> Removed:
    """Remove the directories of runs that are over, whatever their node; what is not ours stays.

    Does not raise OSError.
    """
    removed = Removed()
    try:
        entries = [entry.path for entry in os.scandir(parent) if entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        removed.problems.append(str(error))
        return removed
    for path in sorted(map(Path, entries)):
        if _RUN.fullmatch(path.name):
            _remove_if_stale(path, removed)
    return removed


def _remove_if_stale(path: Path, removed: Removed) -> None:
    try:
        lock = _lock(path, 0)
    except FileNotFoundError:  # the start of that run did not come far, or its removal did
        try:
            path.rmdir()
        except OSError:
            pass  # there is something in it, so it is not ours
    except OSError as error:
        removed.problems.append(str(error))
    else:
        if lock >= 0:
            _remove(path, lock, removed, True)


def _lock(path: Path, create: int) -> int:
    """Lock a run's directory; returns what holds the lock, -1 if somebody else does or has removed it just now.

    Raises OSError where locks do not work, and FileNotFoundError where there is nothing to lock unless `create` is set.
    """
    name = path / _LOCK
    try:
        lock = os.open(name, os.O_RDWR | os.O_CLOEXEC | create, 0o600)
    except FileNotFoundError:
        if create:
            return -1
        raise
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_nlink:
            return lock
    except BlockingIOError:
        pass
    except OSError as error:
        os.close(lock)
        raise OSError(error.errno, f"cannot be locked: {error.strerror}", str(name)) from error
    os.close(lock)
    return -1


def _remove(path: Path, lock: int, removed: Removed, count: bool) -> None:
    """Remove a directory that we have locked, the lock last: who finds no lock in it is to find nothing else."""
    try:
        pages = _pages(path)
        if count:
            for numbers in pages.values():
                _count(numbers, removed)
        for numbers in pages.values():
            for page in numbers.values():
                page.unlink()
        (path / _LOCK).unlink()
        path.rmdir()
        removed.directories += 1
    except OSError as error:
        removed.problems.append(str(error))
    finally:
        os.close(lock)


def _pages(path: Path) -> dict[str, dict[int, Path]]:
    """The page files of each address, by the number of their first message."""
    pages: dict[str, dict[int, Path]] = {}
    with os.scandir(path) as entries:
        for entry in entries:
            match = _PAGE.fullmatch(entry.name)
            if match is not None:
                pages.setdefault(match[1], {})[int(match[2])] = Path(entry.path)
    return pages


def _count(pages: dict[int, Path], removed: Removed) -> None:
    """Count what the files of one address hold. Only the last has to be read: there may be gigabytes."""
    last = max(pages)
    removed.messages += last - min(pages)
    try:
        removed.bytes += sum(page.stat().st_size for page in pages.values())
        removed.messages += count_messages(pages[last].read_bytes())
    except OSError:
        pass  # it may be possible to remove them nevertheless
