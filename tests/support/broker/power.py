"""What a power cut leaves of what this process does to the files of a directory, as POSIX allows it."""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.durability.disk import File
from tests.durability.shim import Event


class Folder:
    """A directory: its names on disk, and what has changed since it was synced."""

    def __init__(self) -> None:
        self.names: dict[str, Folder | File] = {}
        """As a program sees them."""
        self.synced: dict[str, Folder | File] = {}
        self.changes: list[Change] = []


class Change:
    """A name has gone from one directory, and is in another one: both at once."""

    def __init__(self, source: Folder | None, old: str, target: Folder | None, new: str, node: Folder | File) -> None:
        self.source, self.old, self.target, self.new, self.node = source, old, target, new, node

    def apply(self, names: Callable[[Folder], dict[str, Folder | File]]) -> None:
        """Do it to these names of both directories."""
        if self.source is not None:
            names(self.source).pop(self.old, None)
        if self.target is not None:
            names(self.target)[self.new] = self.node


Call = tuple[str, Path, Any]
"""o, m: a file or a directory is made; u: one is removed; r: it is renamed; s: it is synced; w, d: bytes are written
there, and synced."""


class Platter:
    """Follows the calls of a program."""

    def __init__(self, directory: Path) -> None:
        """`directory`: what was there before, all of it synced."""
        self._directory = directory
        self._root = self._taken(directory)

    def _taken(self, path: Path) -> Folder:
        folder = Folder()
        for each in path.iterdir():
            folder.names[each.name] = self._taken(each) if each.is_dir() else File(bytearray(each.read_bytes()))
        folder.synced = dict(folder.names)
        return folder

    def _at(self, path: Path) -> "Folder | File":
        node: Folder | File = self._root
        for name in path.relative_to(self._directory).parts:
            assert isinstance(node, Folder)
            node = node.names[name]
        return node

    def _folder(self, path: Path) -> Folder:
        node = self._at(path)
        assert isinstance(node, Folder)
        return node

    def follow(self, call: Call) -> None:
        """Take note of a call."""
        kind, path, data = call
        if kind == "s":
            node = self._at(path)
            if isinstance(node, File):
                node.sync()
            else:
                for change in node.changes:
                    change.apply(lambda folder: folder.synced)
                node.changes = []
        elif kind in "wd":
            node = self._at(path)
            assert isinstance(node, File)
            node.pending.append(Event(kind, path.name, *data))
        elif kind == "r":
            source, target = self._folder(path.parent), self._folder(data.parent)
            self._change(Change(source, path.name, target, data.name, source.names[path.name]), target)
        elif kind == "u":
            source = self._folder(path.parent)
            self._change(Change(source, path.name, None, "", source.names[path.name]), source)
        else:
            target = self._folder(path.parent)
            self._change(Change(None, "", target, path.name, File() if kind == "o" else Folder()), target)

    def _change(self, change: Change, folder: Folder) -> None:
        change.apply(lambda each: each.names)
        folder.changes.append(change)

    def cut(self, directory: Path, rng: random.Random) -> None:
        """Write what is left to a new directory: of the changes of each directory the first ones."""
        folders: list[Folder] = []
        _all(self._root, folders)
        left = {id(folder): dict(folder.synced) for folder in folders}
        for folder in folders:
            for change in folder.changes[: rng.randrange(len(folder.changes) + 1)]:
                change.apply(lambda each: left.setdefault(id(each), dict(each.synced)))
        _write(directory, self._root, left, rng)


def _all(folder: Folder, found: list[Folder]) -> None:
    """A directory, and all in it, also those that are gone for the program only."""
    if folder in found:
        return
    found.append(folder)
    for node in (*folder.names.values(), *folder.synced.values(), *(change.node for change in folder.changes)):
        if isinstance(node, Folder):
            _all(node, found)


def _write(path: Path, folder: Folder, left: dict[int, dict[str, Folder | File]], rng: random.Random) -> None:
    path.mkdir()
    for name, node in left[id(folder)].items():
        if isinstance(node, Folder):
            _write(path / name, node, left, rng)
        else:
            (path / name).write_bytes(node.after_cut(rng))


class Recorder:
    """Takes the place of functions of `os`, and writes down what they have done below a directory."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[Call] = []
        self._directory = directory
        self._open, self._mkdir, self._write, self._pwritev = os.open, os.mkdir, os.write, os.pwritev
        patch.setattr(os, "open", self.open)
        patch.setattr(os, "mkdir", self.mkdir)
        patch.setattr(os, "write", self.write)
        patch.setattr(os, "pwritev", self.pwritev)
        for name in ("unlink", "rmdir"):
            patch.setattr(os, name, self._removing(getattr(os, name)))
        for name in ("rename", "replace"):
            patch.setattr(os, name, self._renaming(getattr(os, name)))
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, self._syncing(getattr(os, name)))

    def _inside(self, path: Any, folder: int | None = None) -> Path | None:
        own = Path(f"/proc/self/fd/{path}").readlink() if isinstance(path, int) else Path(path)
        if folder is not None:
            own = Path(f"/proc/self/fd/{folder}").readlink() / own
        return own if own.is_relative_to(self._directory) else None

    def _note(self, kind: str, path: Path | None, data: Any = None) -> None:
        if path is not None:
            self.calls.append((kind, path, data))

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        """As os.open."""
        own = self._inside(path, dir_fd)
        is_new = own is not None and flags & os.O_CREAT and not own.exists()
        file = self._open(path, flags, mode, dir_fd=dir_fd)
        if is_new:
            self._note("o", own)
        return file

    def mkdir(self, path: Any, mode: int = 0o777) -> None:
        """As os.mkdir."""
        self._mkdir(path, mode)
        self._note("m", self._inside(path))

    def write(self, file: int, content: Any) -> int:
        """As os.write."""
        own = self._inside(file)
        position = os.lseek(file, 0, os.SEEK_CUR) if own is not None else 0
        count = self._write(file, content)
        self._note("w", own, (position, bytes(content)[:count]))
        return count

    def pwritev(self, file: int, parts: Any, position: int, flags: int = 0) -> int:
        """As os.pwritev."""
        count = self._pwritev(file, parts, position, flags)
        self._note("d" if flags else "w", self._inside(file), (position, b"".join(parts)[:count]))
        return count

    def _removing(self, call: Callable[..., None]) -> Callable[..., None]:
        def remove(path: Any, *, dir_fd: int | None = None) -> None:
            own = self._inside(path, dir_fd)
            call(path, dir_fd=dir_fd)
            self._note("u", own)

        return remove

    def _renaming(self, call: Callable[..., None]) -> Callable[..., None]:
        def rename(old: Any, new: Any) -> None:
            call(old, new)
            self._note("r", self._inside(old), self._inside(new))

        return rename

    def _syncing(self, call: Callable[..., None]) -> Callable[..., None]:
        def sync(file: int) -> None:
            call(file)
            self._note("s", self._inside(file))

        return sync


@contextmanager
def recording(directory: Path) -> Iterator[list[Call]]:
    """All that this process does to files below this directory meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        yield Recorder(directory, patch).calls
