"""A file system of its own for the journal, which can be filled: a tmpfs, so that a machine's disk does not matter."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SIZE: Final = 256 * 1024 * 1024
LEFT: Final = 12 * 1024 * 1024
"""Bytes that are free on a disk that is full: less than the journal's reserve, and than a segment (FC-29)."""

PIECE: Final = 1024 * 1024


class Disk:
    """Where the journal is."""

    def __init__(self, path: Path, mounted: bool) -> None:
        self.path = path
        self.can_fill = mounted
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Leave hardly any room. The broker may write meanwhile."""
        size = 0
        with self._ballast.open("wb") as file:
            while self._left() > LEFT:
                os.posix_fallocate(file.fileno(), size, PIECE)
                size += PIECE

    def _left(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def free(self) -> None:
        """There is room again."""
        self._ballast.unlink(missing_ok=True)


@contextmanager
def own_disk(path: Path) -> Iterator[Disk]:
    """A folder on a file system of its own; an ordinary one, which is never full, where none can be mounted."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(path)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield Disk(path, mounted)
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=True)
