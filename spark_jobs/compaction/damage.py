"""Finds files with a valid footer that cannot be read, after a compaction has failed.

They are read in processes of their own: on some damage pyarrow ends the process. Spark's workers may end so too.
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import Final

from spark_jobs.compaction.footers import damage_of, damaged
from spark_jobs.storage import Storage
from spark_jobs.store.taken import FileRecord

_READERS: Final = 4  # processes


def damaged_among(storage: Storage, files: Sequence[FileRecord]) -> list[FileRecord]:
    """Read files completely; the records of those that are damaged."""
    if not files:
        return []
    try:
        with ProcessPoolExecutor(min(_READERS, len(files)), get_context("spawn")) as pool:
            return [bad for bad in pool.map(partial(damage_of, storage), files) if bad is not None]
    except BrokenProcessPool:
        if len(files) == 1:
            return [damaged(files[0], "the process that reads it ends")]
        half = len(files) // 2
        return damaged_among(storage, files[:half]) + damaged_among(storage, files[half:])
