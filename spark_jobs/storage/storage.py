"""What the jobs ask of a folder, wherever it lies."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from spark_jobs.errors import ReportError

_HIDDEN: Final = ("_", ".")
_WILDCARDS: Final = frozenset("{}[]*?\\^")


class StorageError(ReportError):
    """A folder or file cannot be used; the message names its address."""


@dataclass(frozen=True)
class Entry:
    """A file: its name relative to the folder with `/` between, bytes, and when it was last changed (us since 1970)."""

    name: str
    size: int
    modified_us: int

    @property
    def folder(self) -> str:
        """The name without its last part; empty right below the root."""
        return self.name.rpartition("/")[0]


class Storage(ABC):
    """A folder and what lies below it. Names are relative to it, with `/` between their parts; "" is the folder itself.

    Every method raises StorageError if the storage does not let it.

    Attributes:
        uri: the folder's address for Hadoop, without a slash at its end.
        shown: the same as the user wrote it, for messages.
    """

    uri: str
    shown: str

    def spark_path(self, *names: str) -> str:
        """The address of something below the folder for Spark, which would take some characters for wildcards."""
        return "".join(f"\\{letter}" if letter in _WILDCARDS else letter for letter in self.address(*names))

    def address(self, *names: str) -> str:
        """The address of something below the folder, for Hadoop and for messages."""
        return "/".join([self.uri, *[name for name in names if name]])

    @abstractmethod
    def files(self, name: str = "") -> Iterator[Entry]:
        """The files below, in the order of their names; not those in folders whose name begins with _ or a dot."""

    @abstractmethod
    def exists(self, name: str = "") -> bool:
        """Whether there is such a file or folder."""

    @abstractmethod
    def is_folder(self, name: str = "") -> bool:
        """Whether there is such a folder."""

    @abstractmethod
    def folders(self, name: str = "") -> list[str]:
        """The names (last part only) of the folders right below a folder, sorted; none if there is no such folder."""

    @abstractmethod
    def open(self, name: str) -> BinaryIO:
        """A file to read from, which can seek."""

    def read(self, name: str) -> bytes:
        """A whole file."""
        with self.open(name) as file:
            return file.read()

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Make or replace a file, whole or not at all; folders above it are made."""

    @abstractmethod
    def create(self, name: str, data: bytes) -> bool:
        """Make a file; False if it is there already. Of several who try at once, one gets True."""

    @abstractmethod
    def make_folder(self, name: str = "") -> None:
        """Make a folder and those above it; nothing happens if it is there."""

    @abstractmethod
    def rename(self, source: str, target: str) -> None:
        """Give a file or folder another name; `target` must not be there yet."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it; nothing happens if it is not there."""


def is_hidden(name: str) -> bool:
    """Whether the last part of a name begins with _ or a dot: what is being written, or nobody's data."""
    return name.rpartition("/")[2].startswith(_HIDDEN)
