"""The page directory of one run of the broker, locked until the process ends.

```
<paging.directory>/<node name>-<run id>.pages/lock             held by the run that it belongs to
                                             /<address>-<number of the first message>.page
```
Sessions do not outlive a run, so pages of an earlier run are stale, and removed. A directory is stale if it is not
locked: the operating system releases the lock however a process ends.
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
"""Attempts: another broker that starts may remove a directory that is not locked yet; then another one is made."""


@final
class Removed:
    """What has been removed, in total."""

    def __init__(self) -> None:
        self.directories = 0
        self.bytes = 0
        self.messages = 0
        """Messages in the stale files, as far as known; some of them had been routed."""
        self.problems: list[str] = []
        """What could not be removed, and why."""


@final
class RunDirectory:
    """This run's directory. Only one thread at a time may use the files in it."""

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
            raise OSError(f"{parent}: another program removes the directories that are made in it")
        self.path = path
        self._lock = lock
        self._addresses = 0

    def queue(self) -> PageQueue:
        """A queue for one more address."""
        self._addresses += 1
        return PageQueue(self.path, str(self._addresses))

    def remove(self) -> Removed:
        """Remove the directory with its files: the run has ended."""
        removed = Removed()
        _remove(self.path, self._lock, removed, False)
        return removed


def remove_stale(parent: Path) -> Removed:
    """Remove the directories of runs that have ended, of any node; keep everything else.

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
    except FileNotFoundError:  # the run ended before the lock was made, or after it was removed
        try:
            path.rmdir()
        except OSError:
            pass  # it is not empty, so it is not a page directory
    except OSError as error:
        removed.problems.append(str(error))
    else:
        if lock >= 0:
            _remove(path, lock, removed, True)


def _lock(path: Path, create: int) -> int:
    """Lock a run's directory; returns the file descriptor, -1 if another process has locked or just removed it.

    Raises OSError if locks do not work, and FileNotFoundError if there is no lock file and `create` is not set.
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
    """Remove a directory that we have locked, the lock file last: without a lock file it has to be empty."""
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
    """Count the messages of one address. Only the last file is read, because there may be gigabytes."""
    last = max(pages)
    removed.messages += last - min(pages)
    try:
        removed.bytes += sum(page.stat().st_size for page in pages.values())
        removed.messages += count_messages(pages[last].read_bytes())
    except OSError:
        pass  # removing them may still work
