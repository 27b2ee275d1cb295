"""Finds files with a valid footer that cannot be read, after a compaction has failed."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from spark_jobs.compaction.apart import apart
from spark_jobs.compaction.footers import damage_of, damaged
from spark_jobs.storage import Storage
from spark_jobs.store.taken import FileRecord

_READERS: Final = 4  # threads


def damaged_among(storage: Storage, files: Sequence[FileRecord]) -> list[FileRecord]:
    """Read files completely; the records of those that cannot be read, or that end the process that reads them."""
    if not files:
        return []
    try:
        return apart(_damaged, storage, files)
    except ChildProcessError:
        if len(files) == 1:
            return [damaged(files[0], "the process that reads it ends")]
        half = len(files) // 2
        return damaged_among(storage, files[:half]) + damaged_among(storage, files[half:])


def _damaged(storage: Storage, files: Sequence[FileRecord]) -> list[FileRecord]:
    with ThreadPoolExecutor(_READERS) as pool:
        return [bad for bad in pool.map(lambda file: damage_of(storage, file), files) if bad is not None]
