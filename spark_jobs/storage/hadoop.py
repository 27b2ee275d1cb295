"""Folders at Hadoop URIs, through the file systems of Spark's Java.

Each call goes to Java by py4j and takes some tenths of a millisecond. Only small files are read and written this way:
manifests, ledgers, the footers of Parquet files.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from spark_jobs.storage.storage import Entry, Storage, StorageError, is_hidden

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from pyspark.sql import SparkSession

_BLOCK: Final = 1 << 20  # bytes read at once


class HadoopStorage(Storage):
    """A folder in a Hadoop file system: hdfs://, s3a://, viewfs:// and so on."""

    def __init__(self, uri: str, spark: "SparkSession") -> None:
        self.shown = uri
        self.uri = uri.rstrip("/")
        self._gateway: Any = spark.sparkContext._gateway
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()
        with self._storage_errors("reached", ""):
            self._system: Any = self._path("").getFileSystem(self._conf)

    def files(self, name: str = "") -> Iterator[Entry]:
        """See Storage."""
        with self._storage_errors("listed", name):
            yield from self._below(name, self._system.listStatus(self._path(name)))

    def _below(self, name: str, statuses: Any) -> Iterator[Entry]:  # an array of Java
        for last, status in sorted((status.getPath().getName(), status) for status in statuses):
            path = f"{name}/{last}" if name else last
            if not status.isDirectory():
                yield Entry(path, status.getLen(), status.getModificationTime() * 1000)
            elif not is_hidden(path):
                yield from self._below(path, self._listed(path))

    def _listed(self, name: str) -> Any:  # an array of Java
        """The content of a folder; empty if it has been deleted meanwhile."""
        from py4j.protocol import Py4JJavaError

        try:
            return self._system.listStatus(self._path(name))
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == "java.io.FileNotFoundException":
                return ()
            raise

    def exists(self, name: str = "") -> bool:
        """See Storage."""
        with self._storage_errors("looked at", name):
            return bool(self._system.exists(self._path(name)))

    def is_folder(self, name: str = "") -> bool:
        """See Storage."""
        with self._storage_errors("looked at", name):
            path = self._path(name)
            return bool(self._system.exists(path) and self._system.getFileStatus(path).isDirectory())

    def folders(self, name: str = "") -> list[str]:
        """See Storage."""
        if not self.is_folder(name):
            return []
        with self._storage_errors("listed", name):
            statuses = self._system.listStatus(self._path(name))
            return sorted(status.getPath().getName() for status in statuses if status.isDirectory())

    def open(self, name: str) -> BinaryIO:
        """See Storage."""
        with self._storage_errors("read", name):
            path = self._path(name)
            size = self._system.getFileStatus(path).getLen()
            return cast("BinaryIO", io.BufferedReader(_Stream(self._system.open(path), size), _BLOCK))

    def write(self, name: str, data: bytes) -> None:
        """See Storage."""
        temporary = _temporary(name)
        with self._storage_errors("written to", name):
            self._fill(temporary, data)
            self._replace(temporary, name)

    def make_folder(self, name: str = "") -> None:
        """See Storage."""
        with self._storage_errors("made", name):
            self._system.mkdirs(self._path(name))

    def remove(self, name: str) -> None:
        """See Storage."""
        with self._storage_errors("removed", name):
            self._system.delete(self._path(name), True)

    def _path(self, name: str) -> Any:  # an object of Java
        return self._jvm.org.apache.hadoop.fs.Path(self.uri_of(name) or "/")

    def _fill(self, name: str, data: bytes) -> None:
        stream = self._system.create(self._path(name), True)
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()

    def _replace(self, source: str, target: str) -> None:
        """Rename and replace: atomically if the file system supports it, else by deleting first."""
        options = self._jvm.org.apache.hadoop.fs.Options.Rename
        path = self._path(source)
        try:
            context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(path.toUri(), self._conf)
        except Exception:  # py4j's own; object stores have no FileContext
            self._system.delete(self._path(target), False)
            self._system.rename(path, self._path(target))
            return
        overwrite = self._gateway.new_array(options, 1)
        overwrite[0] = options.OVERWRITE
        context.rename(path, self._path(target), overwrite)

    @contextmanager
    def _storage_errors(self, what: str, name: str) -> Iterator[None]:
        from py4j.protocol import Py4JError, Py4JJavaError

        try:
            yield
        except Py4JJavaError as error:
            raise StorageError(f"{self.uri_of(name)} cannot be {what}: {_reason(error.java_exception)}") from error
        except Py4JError as error:
            raise StorageError(f"{self.uri_of(name)} cannot be {what}: {str(error).partition(chr(10))[0]}") from error


class _Stream(io.RawIOBase):
    """A seekable Java stream as a Python file."""

    def __init__(self, stream: Any, size: int) -> None:  # an object of Java
        self._stream = stream
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), self._size - self._position)
        if wanted <= 0:
            return 0
        self._stream.seek(self._position)
        data = bytes(self._stream.readNBytes(wanted))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def _temporary(name: str) -> str:
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}.{last}.tmp"


def _reason(error: Any) -> str:  # an exception of Java
    text = str(error.getMessage() or error.getClass().getSimpleName()).partition("\n")[0]
    kind = error.getClass().getSimpleName()
    return f"{text} ({kind})"
