"""Writes compacted rows with Spark: below a table's folder, in a folder of the run, by date and hour.

Nobody sees the files before they are committed, see `store.delta`, so no file is moved or renamed.
"""

from collections.abc import Sequence
from typing import Final

from deltalake.transaction import AddAction
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.storage import Storage
from spark_jobs.store.delta import added_below
from spark_jobs.store.schema import DATASETS, HOUR_OF, HOUR_US, PARTITIONS, TIMES, keys

TASK_SESSIONS: Final = 100_000  # approximate number of sessions in one file
MOST_TASKS: Final = 200
HOURS_OF_DAY: Final = 24
_OPTIONS: Final = {
    "compression": "zstd",
    # Row groups of half the default size, so that two writing tasks fit into a small driver's memory.
    "parquet.block.size": str(64 << 20),
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # Tasks write to their final place: files that are not committed to the table are not seen.
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
}


def tasks_for(sessions: Sequence[int]) -> int:
    """The number of tasks that write hours with about these numbers of sessions."""
    return max(1, min(-(-sum(sessions) // TASK_SESSIONS), MOST_TASKS))


def write(frame: DataFrame, dataset: str, storage: Storage, folder: str) -> list[AddAction]:
    """Write rows of several hours, sorted by key; returns the new files.

    Args:
        frame: rows of the dataset, times in microseconds.
        dataset: its name.
        storage: the store.
        folder: name of a new folder below the table's.
    """
    # By arithmetic, which does not depend on the session's time zone.
    time = F.col(HOUR_OF[dataset])
    hours = ((time - F.pmod(time, F.lit(HOUR_US))) / HOUR_US).cast("bigint")
    date = F.date_from_unix_date(F.floor(hours / HOURS_OF_DAY).cast("int"))
    hour = F.pmod(hours, F.lit(HOURS_OF_DAY)).cast("int")
    stored = frame.select(*_stored(dataset), date.alias("date"), hour.alias("hour"))
    order = [TIMES.get(name, name) for name in keys(dataset)]
    sorted_rows = stored.sortWithinPartitions(*PARTITIONS, *order)
    sorted_rows.write.options(**_OPTIONS).partitionBy(*PARTITIONS).parquet(storage.uri_of(dataset, folder))
    return added_below(storage, dataset, folder)


def _stored(dataset: str) -> list[Column]:
    """The dataset's columns with times as timestamps."""
    return [
        F.timestamp_micros(c.name).alias(TIMES[c.name]) if c.name in TIMES else F.col(c.name)
        for c in DATASETS[dataset]
    ]
