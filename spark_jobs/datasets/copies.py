"""Rows with the same key: the one of the first file is kept."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_jobs.datasets import raw


def has_copies(rows: DataFrame) -> bool:
    """Whether two raw rows of sessions have the same key, or hashes of keys are equal by chance."""
    same = rows.groupBy(F.xxhash64(*raw.ROW_KEY)).agg(F.count(F.lit(1)).alias("rows")).where("rows > 1")
    return not same.isEmpty()


def without_copies(rows: DataFrame, key: tuple[str, ...] = raw.ROW_KEY) -> DataFrame:
    """The rows without copies: of rows with the same key, one of the first file by name stays."""
    order = Window.partitionBy(*key).orderBy(raw.FILE)
    return rows.withColumn("copy", F.row_number().over(order)).where("copy = 1").drop("copy")


def of_first_files(rows: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Of rows with the same key those of the first file by name: a file may have several, which are no copies."""
    order = Window.partitionBy(*key).orderBy(raw.FILE)
    return rows.withColumn("copy", F.rank().over(order)).where("copy = 1").drop("copy")
