"""Folders on this machine."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from spark_jobs.storage.storage import Entry, Storage, StorageError, is_hidden

_OTHERS: Final = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class LocalStorage(Storage):
    """A folder on this machine."""

    def __init__(self, root: Path, shown: str = "") -> None:
        self.root = root.absolute()
        self.uri = f"file://{self.root}".rstrip("/")
        self.shown = shown or str(root)

    def path(self, name: str = "") -> Path:
        """The path of a file or folder in it."""
        return self.root / name if name else self.root

    def files(self, name: str = "") -> Iterator[Entry]:
        """See Storage."""
        if not self.exists(name):
            return
        with self._storage_errors("listed", name):
            for path, status in _files_below(self.path(name), frozenset()):
                yield Entry(path.relative_to(self.root).as_posix(), status.st_size, status.st_mtime_ns // 1000)

    def exists(self, name: str = "") -> bool:
        """See Storage."""
        return self.path(name).exists()

    def is_folder(self, name: str = "") -> bool:
        """See Storage."""
        return self.path(name).is_dir()

    def folders(self, name: str = "") -> list[str]:
        """See Storage."""
        folder = self.path(name)
        if not folder.is_dir():
            return []
        with self._storage_errors("listed", name):
            return sorted(entry.name for entry in folder.iterdir() if entry.is_dir())

    def open(self, name: str) -> BinaryIO:
        """See Storage."""
        with self._storage_errors("read", name):
            return self.path(name).open("rb")

    def source(self, name: str) -> Path:
        """See Storage."""
        return self.path(name)

    def in_place_of_file(self, name: str) -> str:
        """See Storage."""
        with suppress(OSError):  # it has been deleted
            return _OTHERS.get(stat.S_IFMT(self.path(name).stat().st_mode), "")
        return ""

    def write(self, name: str, data: bytes) -> None:
        """See Storage."""
        path = self.path(name)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        with self._storage_errors("written to", name):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with temporary.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)

    def make_folder(self, name: str = "") -> None:
        """See Storage."""
        with self._storage_errors("made", name):
            self.path(name).mkdir(parents=True, exist_ok=True)

    def remove(self, name: str) -> None:
        """See Storage."""
        path = self.path(name)
        with self._storage_errors("removed", name):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    @contextmanager
    def _storage_errors(self, what: str, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            place = error.filename if error.filename is not None else self.path(name)
            why = error.strerror or str(error)
            raise StorageError(f"{self._named(Path(os.fsdecode(place)))} cannot be {what}: {why}") from error

    def _named(self, place: Path) -> str:
        """A file or folder as the user writes it; one outside, such as a parent, with this folder before it."""
        if place.is_relative_to(self.root):
            return str(Path(self.shown) / place.relative_to(self.root))
        return f"{self.shown}: {place}"


def _files_below(folder: Path, above: frozenset[tuple[int, int]]) -> Iterator[tuple[Path, os.stat_result]]:
    """The files below a folder; `above` are the folders on the path to it.

    Brokers write and delete meanwhile: files that have been deleted since the folder was listed are skipped.
    """
    above |= {_identity(folder.stat())}
    # A name that is not UTF-8 is kept in Python's form; messages escape it.
    for path in sorted(folder.iterdir()):
        with suppress(FileNotFoundError):
            status = _status(path)
            if not stat.S_ISDIR(status.st_mode):
                yield path, status
            elif not is_hidden(path.name) and _identity(status) not in above:  # a link may lead back up
                yield from _files_below(path, above)


def _status(path: Path) -> os.stat_result:
    """The status, of a link that of its target; of a broken link its own, so that opening it reports the reason."""
    try:
        return path.stat()
    except OSError:
        return path.lstat()


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
