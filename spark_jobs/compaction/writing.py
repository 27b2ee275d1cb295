"""Writes compacted rows with Spark: below a table's folder, in a folder of the run, by date and hour.

Readers see a file after its commit only (`store.delta`), so no file is moved or renamed.
"""

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_jobs.storage import Storage, is_hidden
from spark_jobs.storage.local import LocalStorage
from spark_jobs.store.delta import added, stored_file
from spark_jobs.store.schema import DATASETS, HOUR_OF, HOUR_US, PARTITIONS, TIMES, keys

MOST_TASKS: Final = 200
_OPTIONS: Final = {
    "compression": "zstd",
    # Row groups of half the default size, so that two writing tasks fit into a small driver's memory.
    "parquet.block.size": str(64 << 20),
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # Tasks write to their final place: files that are not committed to the table are not seen.
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
}
_LONGEST: Final = 256  # letters of a text in the statistics


def write(frame: DataFrame, dataset: str, storage: Storage, folder: str, shares: Mapping[int, int]) -> list[AddAction]:
    """Write rows of several hours, sorted by key; returns the new files.

    Args:
        frame: rows of the dataset, times in microseconds.
        dataset: its name.
        storage: the store.
        folder: name of a new folder below the table's.
        shares: hour -> number of its files.
    """
    hour = F.col(HOUR_OF[dataset])
    start = hour - F.pmod(hour, F.lit(HOUR_US))
    most = max(shares.values())
    who = F.col("client_id" if "client_id" in keys(dataset) else "broker")
    parts = F.pmod(F.hash(who), _share(start, shares)) if most > 1 else F.lit(0)
    tasks = min(sum(shares.values()), MOST_TASKS)
    moment = F.timestamp_micros(start)
    times = {TIMES[c.name]: F.timestamp_micros(c.name) for c in DATASETS[dataset] if c.name in TIMES}
    parted = frame.repartition(tasks, start, parts)
    stored = parted.withColumns({**times, "date": F.to_date(moment), "hour": F.hour(moment)}).to(_stored(dataset))
    order = [TIMES.get(name, name) for name in keys(dataset)]
    ordered = stored.sortWithinPartitions(*PARTITIONS, *order)
    ordered.write.options(**_OPTIONS).partitionBy(*PARTITIONS).parquet(storage.uri_of(dataset, folder))
    written = storage.files(f"{dataset}/{folder}")
    return [_added(storage, dataset, entry.name, entry.size) for entry in written if not is_hidden(entry.name)]


def _share(start: Column, shares: Mapping[int, int]) -> Column:
    """The number of files of an hour."""
    found = F.lit(1)
    for hour_us, number in shares.items():
        if number > 1:
            found = F.when(start == hour_us, number).otherwise(found)
    return found


def _stored(dataset: str) -> StructType:
    """The dataset's columns as they are stored, with times as timestamps, and the partition columns."""
    kinds = [(TIMES.get(c.name, c.name), "timestamp" if c.name in TIMES else c.type) for c in DATASETS[dataset]]
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in [*kinds, ("date", "date"), ("hour", "int")])
    return cast("StructType", StructType.fromDDL(ddl))


def _added(storage: Storage, dataset: str, name: str, size: int) -> AddAction:
    """The entry of a written file, which is on the disk by then."""
    with storage.open(name) as source:
        metadata = pq.ParquetFile(source).metadata
        if isinstance(storage, LocalStorage):
            os.fsync(source.fileno())
    path = name.removeprefix(f"{dataset}/")
    return added(path, size, stored_file(path).hour_us, _statistics(dataset, metadata))


def _statistics(dataset: str, metadata: pq.FileMetaData) -> dict[str, Any]:
    """What Delta's readers skip files by: the number of rows, and the least and greatest value of each key column."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    for name in (TIMES.get(name, name) for name in keys(dataset)):
        place = metadata.schema.names.index(name)
        found = [metadata.row_group(number).column(place).statistics for number in range(metadata.num_row_groups)]
        if found and all(each is not None and each.has_min_max for each in found):
            least, most = min(each.min for each in found), max(each.max for each in found)
            if isinstance(least, datetime):
                low[name], high[name] = _moment(least), _moment(most + timedelta(microseconds=999))
            elif max(len(least), len(most)) <= _LONGEST:
                low[name], high[name] = least, most
    return {"numRecords": metadata.num_rows, "minValues": low, "maxValues": high}


def _moment(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
