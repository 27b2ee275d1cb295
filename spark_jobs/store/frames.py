"""Rows of a store as DataFrames, with times in microseconds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.store.schema import DATASETS, TIMES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.store.delta import Snapshot, StoredFile


def stored_rows(spark: "SparkSession", snapshot: "Snapshot", dataset: str, files: "Sequence[StoredFile]") -> DataFrame:
    """The rows of some files of a dataset."""
    columns = DATASETS[dataset]
    if not files:
        return spark.createDataFrame([], ", ".join(f"`{column.name}` {column.type}" for column in columns))
    kinds = ((TIMES.get(c.name, c.name), "timestamp" if c.name in TIMES else c.type) for c in columns)
    reader = spark.read.schema(", ".join(f"`{name}` {kind}" for name, kind in kinds))
    rows = reader.parquet(*[snapshot.storage.spark_path(f"{dataset}/{file.path}") for file in files])
    return rows.select(
        *[F.unix_micros(TIMES[c.name]).alias(c.name) if c.name in TIMES else F.col(c.name) for c in columns]
    )
