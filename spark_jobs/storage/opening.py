"""Opens a storage by its plain path, file: URI, or the URI of an object store or HDFS."""

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from spark_jobs.storage.local import LocalStorage
from spark_jobs.storage.storage import Storage, StorageError

_SCHEME: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):/")


def scheme_of(uri: str) -> str:
    """The scheme of a URI in lower case; "file" for a plain path."""
    match = _SCHEME.match(uri)
    return match[1].lower() if match else "file"


def is_local(uri: str) -> bool:
    """Whether it is on this machine."""
    return scheme_of(uri) == "file"


def local_path(uri: str) -> Path:
    """The path of a plain path or file: URI.

    Raises:
        StorageError: the URI names another machine.
    """
    if not _SCHEME.match(uri):
        return Path(uri)
    rest = uri.partition(":")[2]
    if rest.startswith("//") and not rest.startswith("///"):
        host = rest[2:].partition("/")[0]
        raise StorageError(f"{uri}: names the host {host}; expected file:///PATH or a plain path")
    return Path(unquote("/" + rest.lstrip("/")))


def open_storage(uri: str) -> Storage:
    """The folder at a path or URI, as the user wrote it.

    Raises:
        StorageError: its kind is unknown, or it cannot be reached.
    """
    if is_local(uri):
        return LocalStorage(local_path(uri), uri)
    from spark_jobs.storage.objects import ObjectStorage  # a folder on this machine needs no deltalake

    return ObjectStorage(uri)
