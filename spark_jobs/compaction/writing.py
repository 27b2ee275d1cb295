"""Writes compacted rows: with Spark to a folder of the run, from which files are moved to the folder of each hour.

Files of an hour are named part-00000.parquet and so on. Their number, content and order depend only on the hour's raw
files, so the same input gives the same bytes, whatever else is compacted with it.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs import parquet
from spark_jobs.compaction.schema import DATASETS, HOUR_US, SESSIONS, TIMELINE, keys
from spark_jobs.storage import Storage

PART_ROWS: Final = 1_000_000  # approximate number of sessions in one file
PART: Final = "in_part"
_HOUR: Final = "in_hour"
# Row groups of half the default size, so that two writing tasks fit into a small driver's memory.
_OPTIONS: Final = {
    **parquet.OPTIONS,
    "parquet.block.size": str(64 << 20),
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
_ARROW: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "array<bigint>": pa.list_(pa.int64()),
}


def parts_of(sessions: int) -> int:
    """The number of files of an hour with about this many sessions."""
    return max(1, -(-sessions // PART_ROWS))


def part(hour: Column, parts: Mapping[int, int]) -> Column:
    """The number of a session's file within its hour, by a digest of its key."""
    number: Column = F.lit(0)
    digest = F.xxhash64("broker", "client_id", "session_started")
    for hour_us, count in sorted(parts.items()):
        if count > 1:
            number = F.when(hour == hour_us, F.pmod(digest, F.lit(count)).cast("int")).otherwise(number)
    return number


def stage(frame: DataFrame, dataset: str, storage: Storage, folder: str, tasks: int) -> None:
    """Write rows of several hours to FOLDER/DATASET, sorted, by hour and part.

    Args:
        frame: rows of the dataset; sessions have the column `in_part` and are already partitioned by hour and part.
        dataset: its name.
        storage: the store.
        folder: the run's folder below the store.
        tasks: the number of tasks for the hours.
    """
    if dataset == SESSIONS:
        placed = frame.withColumn(_HOUR, F.col("hour_us"))
    else:
        time = "slot" if dataset == TIMELINE else "start_us" if "start_us" in frame.columns else "interval_end_us"
        hour = F.col("hour_us") if "hour_us" in frame.columns else F.col(time) - F.pmod(F.col(time), F.lit(HOUR_US))
        placed = frame.withColumn(_HOUR, hour).withColumn(PART, F.lit(0)).repartition(tasks, _HOUR)
    order = [*keys(dataset), *(["end_us"] if "end_us" in frame.columns else [])]
    columns = [column.name for column in DATASETS[dataset]]
    placed.select(_HOUR, PART, *columns).sortWithinPartitions(_HOUR, PART, *order).write.options(
        **_OPTIONS
    ).partitionBy(_HOUR, PART).parquet(storage.uri_of(folder, dataset))


def collect(storage: Storage, folder: str, hours: Mapping[int, str]) -> None:
    """Move the staged files of each hour to its folder; an hour without rows gets an empty file."""
    for dataset in DATASETS:
        staged: dict[int, list[str]] = {hour: [] for hour in hours}
        below = f"{folder}/{dataset}"
        if storage.exists(below):
            for entry in storage.files(below):
                if entry.name.endswith(".parquet"):
                    values = dict(part.split("=", 1) for part in entry.name.split("/") if part.startswith("in_"))
                    staged[int(values[_HOUR])].append(entry.name)
        for hour, names in staged.items():
            target = f"{hours[hour]}/{dataset}"
            for number, name in enumerate(sorted(names, key=_part_number)):
                storage.rename(name, f"{target}/part-{number:05}.parquet")
            if not names:
                storage.write(f"{target}/part-00000.parquet", _empty(dataset))


def _part_number(name: str) -> tuple[int, str]:
    number = next(part for part in name.split("/") if part.startswith(f"{PART}="))
    return int(number.partition("=")[2]), name


def _empty(dataset: str) -> bytes:
    fields = [pa.field(column.name, _ARROW[column.type]) for column in DATASETS[dataset]]
    buffer = io.BytesIO()
    pq.write_table(pa.schema(fields).empty_table(), buffer, compression="zstd")
    return buffer.getvalue()


def tasks_for(parts: Sequence[int]) -> int:
    """The number of tasks for the files of several hours; hours may share a task."""
    return max(1, min(sum(parts), 200))
