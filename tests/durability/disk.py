"""A disk after a power cut: what was synced is there, and any part of the rest.

What POSIX promises, and no more: a file's content is safe when the file has been synced, its name when its directory
has been. Writes that are not synced are there in any combination, in sectors of 512 bytes. Changes of one directory are
there in their order, as every journaling file system keeps them.
"""

import random
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from tests.durability.shim import Event

SECTOR: Final = 512
PAGE: Final = 4096


@dataclass
class File:
    """One file, under any of its names."""

    synced: bytearray = field(default_factory=bytearray)
    pending: list[Event] = field(default_factory=list)
    """Writes and truncations since the last sync. Those of the kind `d` are on disk already."""

    def sync(self) -> None:
        """All of it is on disk."""
        for event in self.pending:
            _change(self.synced, event)
        self.pending = []

    def current(self) -> bytearray:
        """The content that a program reads."""
        content = bytearray(self.synced)
        for event in self.pending:
            _change(content, event)
        return content

    def after_syncs(self) -> bytearray:
        """The content that is on disk in any case."""
        content = bytearray(self.synced)
        for event in self.pending:
            if event.kind == "d":
                _change(content, event)
        return content

    def after_cut(self, rng: random.Random) -> bytearray:
        """The content that a power cut leaves."""
        content = bytearray(self.synced)
        pending = self.pending
        how = rng.choice(("nothing", "all", "first", "some", "all but one", "sectors", "pages", "zeros"))
        if how == "nothing" or not pending:
            return self.after_syncs()
        first = rng.randrange(len(pending) + 1)
        for index, event in enumerate(pending):
            if event.kind == "d":
                _change(content, event)
                continue
            if how == "first" and index >= first:
                continue
            if how == "all but one" and index == first:
                continue
            if how in {"some", "zeros"} and rng.random() < 0.5:
                if how == "zeros" and event.kind == "w":  # the size has reached the disk, the data has not
                    end = event.number + len(event.data)
                    content.extend(bytes(max(0, end - len(content))))
                continue
            if how in {"sectors", "pages"}:
                _tear(content, event, SECTOR if how == "sectors" else PAGE, rng)
            else:
                _change(content, event)
        return content


def _change(content: bytearray, event: Event) -> None:
    start = event.number
    if event.kind == "t":
        del content[start:]
    content.extend(bytes(max(0, start - len(content))))
    content[start : start + len(event.data)] = event.data


def _tear(content: bytearray, event: Event, unit: int, rng: random.Random) -> None:
    """Some units of a write have reached the disk."""
    if event.kind == "t":
        if rng.random() < 0.5:
            _change(content, event)
        return
    start, end = event.number, event.number + len(event.data)
    while start < end:
        stop = min(end, (start // unit + 1) * unit)
        if rng.random() < 0.5:
            part = event.data[start - event.number : stop - event.number]
            _change(content, Event("w", event.name, start, part))
        start = stop


@dataclass
class Change:
    """A change of a directory: `old` is removed, `new` is this file; None: a directory."""

    old: str
    new: str
    file: File | None


class Disk:
    """Follows a record event by event; an image can be made after each event."""

    def __init__(self, directory: Path | None = None) -> None:
        """`directory`: what was there before, all of it synced."""
        found = sorted(directory.rglob("*")) if directory is not None else []
        self.files: dict[str, File | None] = {".": None}
        """The files as a program sees them, by path; None: a directory."""
        for path in found:
            file = File(bytearray(path.read_bytes())) if path.is_file() else None
            self.files[str(path.relative_to(directory or path))] = file
        self._synced = {name: file for name, file in self.files.items() if name != "."}
        self._changes: dict[str, list[Change]] = {}
        """The changes that are not synced, by directory."""

    def follow(self, event: Event) -> bool:
        """Apply an event; returns whether it was about files."""
        name = event.name
        if event.kind in "wdts" and name in self.files:
            self._use(event, self.files[name])
        elif event.kind in "om":
            self._change("", name, File() if event.kind == "o" else None)
        elif event.kind == "u":
            self._change(name, "", None)
        elif event.kind == "r":
            self._change(name, event.data.decode(), self.files[name])
        else:
            return False
        return True

    def _use(self, event: Event, file: File | None) -> None:
        if file is None:
            self._apply(self._synced, self._changes.pop(event.name, []))
        elif event.kind == "s":
            file.sync()
        else:
            file.pending.append(event)

    def _change(self, old: str, new: str, file: File | None) -> None:
        change = Change(old, new, file)
        self._apply(self.files, [change])
        self._changes.setdefault(str(PurePosixPath(new or old).parent), []).append(change)

    @staticmethod
    def _apply(names: dict[str, File | None], changes: list[Change]) -> None:
        for change in changes:
            names.pop(change.old, None)
            if change.new:
                names[change.new] = change.file

    def survive_kill(self, directory: Path) -> None:
        """A process was killed: take the content of its files; the last call may be missing in the record."""
        for name, file in self.files.items():
            path = directory / name
            if file is None or not path.exists():
                continue
            content, known = path.read_bytes(), file.current()
            if content != known:
                file.pending.append(Event("t", name, len(content), b""))
            for start in range(0, len(content), SECTOR):
                if content[start : start + SECTOR] != known[start : start + SECTOR]:
                    file.pending.append(Event("w", name, start, content[start : start + SECTOR]))

    def cut(self, directory: Path, rng: random.Random, *, synced_only: bool = False) -> None:
        """Write the files that a power cut leaves to an empty directory."""
        names = dict(self._synced)
        for changes in self._changes.values():
            self._apply(names, changes[: 0 if synced_only else rng.randrange(len(changes) + 1)])
        for name in sorted(names):  # a directory comes before its files
            path, file = directory / name, names[name]
            if not path.parent.is_dir():
                continue  # its directory is not there
            if file is None:
                path.mkdir()
            else:
                path.write_bytes(file.after_syncs() if synced_only else file.after_cut(rng))
