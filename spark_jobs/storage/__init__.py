"""Folders and files on this machine, in object stores and in HDFS."""

from spark_jobs.storage.opening import is_local, local_path, open_storage
from spark_jobs.storage.storage import Entry, Storage, StorageError, is_hidden

__all__ = ["Entry", "Storage", "StorageError", "is_hidden", "is_local", "local_path", "open_storage"]
