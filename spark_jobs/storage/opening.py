"""From what a user writes to a storage: a plain path, file:PATH, or any other address of Hadoop."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from spark_jobs.storage.hadoop import HadoopStorage
from spark_jobs.storage.local import LocalStorage
from spark_jobs.storage.storage import Storage, StorageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):/")


def scheme_of(uri: str) -> str:
    """The scheme of an address, in small letters; "file" for a plain path."""
    match = _SCHEME.match(uri)
    return match[1].lower() if match else "file"


def is_local(uri: str) -> bool:
    """Whether it lies on this machine, and can be looked at without Spark."""
    return scheme_of(uri) == "file"


def local_path(uri: str) -> Path:
    """The path of a plain path or file: address.

    Raises:
        StorageError: the address names another machine.
    """
    if not _SCHEME.match(uri):
        return Path(uri)
    rest = uri.partition(":")[2]
    if rest.startswith("//") and not rest.startswith("///"):
        host = rest[2:].partition("/")[0]
        raise StorageError(f"{uri}: names the host {host}; file:///PATH would be right, or a plain path")
    return Path(unquote("/" + rest.lstrip("/")))


def open_storage(uri: str, spark: "SparkSession | None" = None) -> Storage:
    """The folder at an address.

    Args:
        uri: as the user wrote it.
        spark: a running session; what lies on this machine needs none.

    Raises:
        StorageError: no such file system, or it cannot be reached.
    """
    if is_local(uri):
        return LocalStorage(local_path(uri), uri)
    if spark is None:
        raise StorageError(f"{uri}: can only be reached once Spark runs")
    return HadoopStorage(uri, spark)
