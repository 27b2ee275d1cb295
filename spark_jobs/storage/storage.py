"""The interface to a folder on any file system."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from spark_jobs.errors import ReportError

_HIDDEN: Final = ("_", ".")
_ARROW: Final = re.compile(r"\s*\x1b\[\d+m↳\x1b\[0m\s*")
"""What deltalake has between the lines of a message: what failed, and why."""


class StorageError(ReportError):
    """A folder or file cannot be used; the message names it."""


@dataclass(frozen=True)
class Entry:
    """A file: its name relative to the folder, size in bytes, and modification time (us since 1970)."""

    name: str
    size: int
    modified_us: int

    @property
    def folder(self) -> str:
        """The name without its last part; empty directly below the root."""
        return self.name.rpartition("/")[0]


class Storage(ABC):
    """A folder and its content. Names are relative to it, with `/` between their parts; "" is the folder itself.

    Every method raises StorageError if it fails.

    Attributes:
        uri: the folder's URI, without a slash at its end.
        shown: the path or URI as the user wrote it, for messages.
    """

    uri: str
    shown: str

    def uri_of(self, *names: str) -> str:
        """The URI of a file or folder, not encoded."""
        return "/".join([self.uri, *[name for name in names if name]])

    def spark_path(self, name: str) -> str:
        """The name of a file for Spark's readers, which take some characters for patterns."""
        return re.sub(r"([\\\[\]{}*?])", r"\\\1", self.uri_of(name))

    @abstractmethod
    def files(self, name: str = "") -> Iterator[Entry]:
        """The files below, sorted by name, without those in folders whose name begins with _ or a dot; none if there is
        no such folder."""

    @abstractmethod
    def exists(self, name: str = "") -> bool:
        """Whether there is such a file or folder."""

    @abstractmethod
    def is_folder(self, name: str = "") -> bool:
        """Whether there is such a folder."""

    @abstractmethod
    def folders(self, name: str = "") -> list[str]:
        """The names (last part) of the folders directly below a folder, sorted; empty if it does not exist."""

    @abstractmethod
    def open(self, name: str) -> BinaryIO:
        """Open a file for reading; it is seekable."""

    def source(self, name: str) -> Path | BinaryIO:
        """What Arrow reads a file from: its path if it is on this machine, which is faster, or the open file."""
        return self.open(name)

    def in_place_of_file(self, name: str) -> str:
        """What there is in place of a file, such as a FIFO, which must not be opened; empty if it is a file."""
        return ""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Create or replace a file atomically; its parent folders are created."""

    @abstractmethod
    def make_folder(self, name: str = "") -> None:
        """Create a folder and its parents; nothing happens if it exists."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, or a folder with its content; nothing happens if it does not exist."""


def is_hidden(name: str) -> bool:
    """Whether the last part of a name begins with _ or a dot: unfinished files, or not data."""
    return name.rpartition("/")[2].startswith(_HIDDEN)


def reason_of(error: Exception) -> str:
    """What an error of deltalake or Arrow says, in one line."""
    return ": ".join(part for part in _ARROW.split(str(error).strip())[:3] if part).partition("\n")[0]
