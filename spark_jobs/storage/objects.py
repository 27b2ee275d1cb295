"""Folders elsewhere, at s3a://, gs://, abfss://, hdfs:// and so on, through the object stores of the package deltalake.

The store's tables are reached in the same way, so metrics, store and reports need the same credentials. Spark is not
asked: its file systems are Java's, which only private attributes of pyspark can reach.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, cast

import pyarrow as pa
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileInfo, FileSelector, FileType, PyFileSystem

from spark_jobs.storage.storage import Entry, Storage, StorageError, is_hidden, reason_of

_BLOCK: Final = 1 << 20  # bytes read, or written, at once
_PIECE: Final = 1 << 16  # bytes; pieces shorter than a block reach deltalake as bytes, which is all that it writes


class ObjectStorage(Storage):
    """A folder in an object store or HDFS. A folder there is what the names of files begin with."""

    def __init__(self, uri: str) -> None:
        self.shown = uri
        self.uri = uri.rstrip("/")
        with self._storage_errors("reached", ""):
            self._system = PyFileSystem(DeltaStorageHandler(self.uri))

    def __reduce__(self) -> tuple[type["ObjectStorage"], tuple[str]]:
        """Spark's workers open it again."""
        return ObjectStorage, (self.uri,)

    def files(self, name: str = "") -> Iterator[Entry]:
        """See Storage. One folder after the other is listed, such as that of a date: memory does not grow with them."""
        for found in sorted(self._listed(name, recursive=False), key=lambda found: found.path):
            if found.type == FileType.File:
                yield _entry(found)
            elif not is_hidden(found.path):
                below = sorted(self._listed(found.path, recursive=True), key=lambda each: each.path.split("/"))
                yield from (
                    _entry(each)
                    for each in below
                    if each.type == FileType.File and not any(map(is_hidden, each.path.split("/")[:-1]))
                )

    def exists(self, name: str = "") -> bool:
        """See Storage."""
        return bool(self._kind(name) != FileType.NotFound)

    def is_folder(self, name: str = "") -> bool:
        """See Storage."""
        return bool(self._kind(name) == FileType.Directory)

    def folders(self, name: str = "") -> list[str]:
        """See Storage."""
        found = self._listed(name, recursive=False)
        return sorted(each.base_name for each in found if each.type == FileType.Directory)

    def open(self, name: str) -> BinaryIO:
        """See Storage."""
        with self._storage_errors("read", name):
            return cast("BinaryIO", io.BufferedReader(self._system.open_input_file(name), _BLOCK))

    def write(self, name: str, data: bytes) -> None:
        """See Storage."""
        with (
            self._storage_errors("written to", name),
            self._system.open_output_stream(name, buffer_size=_BLOCK) as file,
        ):
            for start in range(0, len(data), _PIECE):
                file.write(data[start : start + _PIECE])

    def make_folder(self, name: str = "") -> None:
        """See Storage; a folder comes with its first file."""

    def remove(self, name: str) -> None:
        """See Storage."""
        with self._storage_errors("removed", name):
            kind = self._kind(name)
            if kind == FileType.Directory:
                self._system.delete_dir(name)
            elif kind == FileType.File:
                self._system.delete_file(name)

    def _listed(self, name: str, *, recursive: bool) -> list[FileInfo]:
        with self._storage_errors("listed", name):
            return list(self._system.get_file_info(FileSelector(name, recursive=recursive)))

    def _kind(self, name: str) -> FileType:
        with self._storage_errors("looked at", name):
            kind = self._system.get_file_info(name).type
            if kind == FileType.Directory and not self._listed(name, recursive=False):
                return FileType.NotFound
            return kind

    @contextmanager
    def _storage_errors(self, what: str, name: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException, DeltaError) as error:
            raise StorageError(f"{self.uri_of(name)} cannot be {what}: {reason_of(error)}") from error


def _entry(found: FileInfo) -> Entry:
    return Entry(found.path, found.size, found.mtime_ns // 1000)
