"""Rows of a store as DataFrames."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.store.schema import DATASETS, PARTITIONS, TIMES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.store.delta import Snapshot, StoredFile


def timed_rows(spark: "SparkSession", snapshot: "Snapshot", dataset: str, files: "Sequence[StoredFile]") -> DataFrame:
    """The rows of some files of a dataset as they are stored, without partition columns."""
    kinds = [(TIMES.get(c.name, c.name), "timestamp" if c.name in TIMES else c.type) for c in DATASETS[dataset]]
    schema = ", ".join(f"`{name}` {kind}" for name, kind in kinds)
    if not files:
        return spark.createDataFrame([], schema)
    paths = [snapshot.storage.spark_path(f"{dataset}/{file.path}") for file in files]
    return spark.read.schema(schema).parquet(*paths).drop(*PARTITIONS)  # Spark takes `date=` of a path as a column


def stored_rows(spark: "SparkSession", snapshot: "Snapshot", dataset: str, files: "Sequence[StoredFile]") -> DataFrame:
    """The same with times in microseconds, under the names that programs use."""
    times = [column.name for column in DATASETS[dataset] if column.name in TIMES]
    rows = timed_rows(spark, snapshot, dataset, files)
    return rows.withColumns({name: F.unix_micros(TIMES[name]) for name in times}).drop(*[TIMES[name] for name in times])
