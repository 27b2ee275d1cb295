"""Reads raw rows with Spark and scans a few of their columns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.compaction.hour_builder import FileHour
from spark_jobs.metrics import ADDED, BEFORE, NO_CLIENT, OF_INTERVALS, QOS, SCHEMA, SESSION_KEY
from spark_jobs.storage import Storage
from spark_jobs.store.schema import DATASETS, HOUR_US, earlier_name, stored_ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.store.delta import Snapshot

ROW_KEY: Final = (*SESSION_KEY, "interval_end")
"""Rows with the same key are duplicates."""

_SQL_TYPES: Final = {"int64": "bigint", "int32": "int", "bool": "boolean", "histogram": "array<bigint>"}


def read(spark: "SparkSession", storage: Storage, names: Sequence[str]) -> DataFrame:
    """The rows of valid files, with the columns of the schema file and `file`, the source of each row.

    Columns that an older file lacks are 0; histograms are in the column of their version, and null in the other.
    """
    types = {field.name: _SQL_TYPES.get(field.type, field.type) for field in SCHEMA.fields}
    types |= dict.fromkeys(BEFORE.values(), "array<bigint>") | dict.fromkeys(OF_INTERVALS, "bigint")
    columns = ", ".join(f"`{name}` {kind}" for name, kind in types.items())
    # Without checksums a flipped bit in a page would mostly give a wrong number instead of an error.
    reader = spark.read.schema(columns).option("parquet.page.verify-checksum.enabled", "true")
    rows = reader.parquet(*[storage.spark_path(name) for name in names])
    return rows.withColumns(
        {
            **{name: F.coalesce(F.col(name), F.lit(0).cast(types[name])) for name in ADDED},
            "file": F.col("_metadata.file_path"),
        }
    )


def of_sessions(rows: DataFrame) -> DataFrame:
    """Without the rows of broker and interval."""
    return rows.where(F.col("client_id") != NO_CLIENT)


def of_intervals(rows: DataFrame) -> DataFrame:
    """The rows of broker and interval, each once."""
    return rows.where(F.col("client_id") == NO_CLIENT).dropDuplicates(["broker", "interval_end"])


def compacted(spark: "SparkSession", snapshot: "Snapshot", dataset: str, hour_us: int) -> DataFrame | None:
    """The rows of a table's hour as they are stored; None without any. Columns newer than the hour are null."""
    files = snapshot.files(dataset, hour_us, hour_us + 1)
    if not files:
        return None
    paths = [snapshot.storage.spark_path(dataset, file.path) for file in files]
    earlier = [f"`{name}` array<bigint>" for c in DATASETS[dataset] if (name := earlier_name(c.name)) is not None]
    return spark.read.schema(", ".join([stored_ddl(dataset), *earlier])).parquet(*paths)


def of_hours(rows: DataFrame, hours: Sequence[int]) -> DataFrame:
    """The rows of some hours, given by their sorted starts."""
    end = F.col("interval_end")
    first, last = F.timestamp_micros(F.lit(hours[0])), F.timestamp_micros(F.lit(hours[-1] + HOUR_US))
    within = rows.where((end >= first) & (end < last))
    if hours[-1] - hours[0] == (len(hours) - 1) * HOUR_US:
        return within
    return within.where(hour().isin(list(hours)))


def hour() -> Column:
    """The start of the hour that a raw row belongs to."""
    end = F.unix_micros("interval_end")
    return end - F.pmod(end, F.lit(HOUR_US))


def name_of(path: str) -> str:
    """A file's name relative to the metrics folder: the last three parts of its URI in Spark."""
    return "/".join(unquote(path, errors="surrogateescape").rsplit("/", 3)[1:])


def refused(error: str) -> tuple[str, str] | None:
    """The file that Spark could not read and the reason, from an error with its stack; None for other errors."""
    named = re.search(r"error while reading file (\S+)\.\s", error)
    causes = re.findall(r"^Caused by: [\w.$]+: (.*)", error, re.MULTILINE)
    return (name_of(named[1]), causes[-1] if causes else "Spark cannot read it") if named else None


@dataclass(frozen=True)
class Scan:
    """The result of a scan; its size depends on the numbers of files, hours, brokers and listeners.

    Attributes:
        groups: one row per broker, interval_end, file and listener with `rows`; cached by Spark.
        parts: rows of each file by hour and broker.
        listeners: all listeners, sorted.
        widest: hour -> rows of its largest interval, summed over brokers: the approximate number of sessions.
        shared: URIs of the files that share a broker's interval with another file.
    """

    groups: DataFrame
    parts: tuple[FileHour, ...]
    listeners: tuple[str, ...]
    widest: dict[int, int]
    shared: tuple[str, ...]


def scan(rows: DataFrame) -> Scan:
    """Scan the files, brokers, listeners and times of the rows."""
    groups = rows.groupBy("broker", "interval_end", "file", "listener").agg(F.count(F.lit(1)).alias("rows")).persist()
    timed = groups.withColumn("hour_us", hour())
    parts = (
        timed.groupBy("file", "hour_us", "broker")
        .agg(
            F.sum("rows").alias("rows"),
            F.min(F.unix_micros("interval_end")).alias("first_us"),
            F.max(F.unix_micros("interval_end")).alias("last_us"),
        )
        .collect()
    )
    listeners = sorted(row[0] for row in groups.select("listener").distinct().collect())
    by_interval = timed.groupBy("hour_us", "broker", "interval_end").agg(
        F.sum("rows").alias("rows"), F.collect_set("file").alias("files")
    )
    widest = by_interval.groupBy("hour_us", "broker").agg(F.max("rows").alias("rows"))
    sizes: dict[int, int] = {}
    for row in widest.collect():
        sizes[row["hour_us"]] = sizes.get(row["hour_us"], 0) + row["rows"]
    several = by_interval.where(F.size("files") > 1).select(F.explode("files").alias("file")).distinct()
    names = ("hour_us", "broker", "rows", "first_us", "last_us")
    return Scan(
        groups,
        tuple(FileHour(name_of(row["file"]), *[row[name] for name in names]) for row in parts),
        tuple(listeners),
        sizes,
        tuple(sorted(row[0] for row in several.collect())),
    )


def without_duplicates(rows: DataFrame, shared: Sequence[str]) -> tuple[DataFrame, DataFrame]:
    """Remove duplicate rows.

    Only files that share intervals with others are searched. Of rows with the same key, the one in the first file by
    name is kept.

    Returns:
        The remaining rows; and file, hour_us and dropped for each file with removed rows.
    """
    suspect = F.col("file").isin(list(shared))
    order = Window.partitionBy(*ROW_KEY).orderBy("file")
    numbered = rows.where(suspect).withColumn("copy", F.row_number().over(order))
    lost = numbered.where(F.col("copy") > 1).groupBy("file", hour().alias("hour_us"))
    kept = rows.where(~suspect).unionByName(numbered.where(F.col("copy") == 1).drop("copy"))
    return kept, lost.agg(F.count(F.lit(1)).alias("dropped"))


def usual_interval(rows: DataFrame) -> int:
    """The median length of an interval in microseconds, of active sessions if there are any."""
    active = F.greatest(*[F.col(f"{name}_qos{qos}") for name in ("offered", "sent") for qos in QOS]) > 0
    length = F.greatest(F.unix_micros("interval_end") - F.unix_micros("interval_start"), F.lit(0))
    found = rows.agg(
        F.percentile_approx(F.when(active, length), 0.5, 200), F.percentile_approx(length, 0.5, 200)
    ).first()
    return int((found and (found[0] or found[1])) or 0)
