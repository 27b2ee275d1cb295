"""Finds files with a valid footer that cannot be read or aggregated, after a compaction has failed."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from spark_jobs.compaction.aggregate import Aggregation
from spark_jobs.compaction.apart import apart
from spark_jobs.compaction.footers import damage_of, damaged, first_line
from spark_jobs.storage import Storage
from spark_jobs.store.schema import HOUR_US
from spark_jobs.store.taken import FileRecord

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_READERS: Final = 4  # threads


def damaged_among(storage: Storage, files: Sequence[FileRecord]) -> list[FileRecord]:
    """Read and aggregate files completely, each by itself.

    Returns:
        The records of those with which that fails, or that end the process that does it.
    """
    if not files:
        return []
    try:
        return apart(_damaged, storage, files)
    except ChildProcessError:
        if len(files) == 1:
            return [damaged(files[0], "the process that reads it ends")]
        half = len(files) // 2
        return damaged_among(storage, files[:half]) + damaged_among(storage, files[half:])


def unread_by(spark: "SparkSession", storage: Storage, files: Sequence[FileRecord]) -> list[FileRecord]:
    """The records of files of which Spark cannot read each row: it leaves these out, and the footer says how many."""
    from pyspark.sql import functions as F

    from spark_jobs.compaction.spark_engine import name_of
    from spark_jobs.datasets import raw

    if not files:
        return []
    partial = {"ignoreCorruptFiles": "true", "ignoreMissingFiles": "true"}
    rows = raw.read(spark, [storage.spark_path(file.name) for file in files], partial)
    everything = F.max(F.xxhash64(*[name for name in rows.columns if name != raw.FILE])).alias("all")
    found = rows.groupBy(raw.FILE).agg(F.count(F.lit(1)).alias("rows"), everything).collect()
    there = {name_of(row[raw.FILE]): row["rows"] for row in found}
    return [
        damaged(file, f"Spark can read {there.get(file.name, 0):,} of its {file.rows:,} rows")
        for file in files
        if there.get(file.name, 0) != file.rows
    ]


def _damaged(storage: Storage, files: Sequence[FileRecord]) -> list[FileRecord]:
    with ThreadPoolExecutor(_READERS) as pool:
        return [bad for bad in pool.map(lambda file: _damage(storage, file), files) if bad is not None]


def _damage(storage: Storage, file: FileRecord) -> FileRecord | None:
    if (bad := damage_of(storage, file)) is not None:
        return bad
    try:
        for _ in Aggregation(storage, file.hours, HOUR_US).of([[file.name]]):
            pass
    except Exception as error:  # whatever the values of a file cause
        return damaged(file, first_line(error))
    return None
