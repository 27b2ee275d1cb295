"""Folders and files at local paths and Hadoop URIs."""

from spark_jobs.storage.opening import is_local, local_path, open_storage, scheme_of
from spark_jobs.storage.storage import Entry, Storage, StorageError, is_hidden

__all__ = ["Entry", "Storage", "StorageError", "is_hidden", "is_local", "local_path", "open_storage", "scheme_of"]
