"""Finds files with a valid footer that cannot be read or have impossible values, after a compaction has failed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_jobs.compaction.engine import name_of
from spark_jobs.compaction.footers import IMPOSSIBLE, damaged
from spark_jobs.datasets import limits, raw
from spark_jobs.storage import Storage
from spark_jobs.store.taken import FileRecord

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARTIAL: Final = {"ignoreCorruptFiles": "true", "ignoreMissingFiles": "true"}


def damaged_among(spark: "SparkSession", storage: Storage, files: Sequence[FileRecord]) -> list[FileRecord]:
    """The records of files of which not all rows can be read, or a row is impossible.

    Spark leaves out what it cannot read, so those files have fewer rows than their footers say.
    """
    rows = raw.read(spark, [storage.spark_path(file.name) for file in files], _PARTIAL)
    found = rows.groupBy(raw.FILE).agg(
        F.count(F.lit(1)).alias("rows"), F.first(limits.fault(), ignorenulls=True).alias("fault")
    )
    seen = {name_of(row[raw.FILE]): row for row in found.collect()}
    bad = []
    for file in files:
        row = seen.get(file.name)
        there = row["rows"] if row is not None else 0
        if there != file.rows:
            bad.append(damaged(file, f"{there:,} of its {file.rows:,} rows can be read"))
        elif row is not None and row["fault"] is not None:
            bad.append(_judged(file, row["fault"]))
    return bad


def _judged(file: FileRecord, fault: str) -> FileRecord:
    return FileRecord(file.name, file.size, file.modified_us, IMPOSSIBLE, f"impossible values: {fault}", rows=file.rows)
