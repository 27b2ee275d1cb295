"""Reads a store: the compacted rows of a range, and the ledgers."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_jobs.compaction.schema import DATASETS, HOUR_US, SESSIONS, STARVATION, TIMELINE, How, ddl
from spark_jobs.compaction.state import (
    LEDGER,
    MANIFEST,
    NEXT_MANIFEST,
    Ledger,
    Manifest,
    hour_start,
    parse_ledger,
    parse_manifest,
)
from spark_jobs.errors import ReportError
from spark_jobs.storage import Storage, open_storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READERS: Final = 16  # threads that read ledgers


@dataclass(frozen=True)
class Selection:
    """A part of a store: [start, end) in microseconds; None: open.

    `broker` is the name of one broker; None: all.
    """

    start_us: int | None = None
    end_us: int | None = None
    broker: str | None = None

    def has_hour(self, hour_us: int) -> bool:
        """Whether the hour with this start overlaps the range."""
        return (self.start_us is None or hour_us + HOUR_US > self.start_us) and (
            self.end_us is None or hour_us < self.end_us
        )


ALL: Final = Selection()


@dataclass(frozen=True)
class Store:
    """A store with its manifest at the time of opening.

    Attributes:
        spark: the session.
        storage: its folder.
        manifest: its valid content.
    """

    spark: "SparkSession"
    storage: Storage
    manifest: Manifest

    def sessions(self, selection: Selection = ALL) -> "DataFrame":
        """One row per session and hour, of all hours that overlap the range."""
        return self._of(SESSIONS, selection)

    def timeline(self, selection: Selection = ALL) -> "DataFrame":
        """One row per broker and slot, of the slots that start in the range."""
        from pyspark.sql import functions as F  # noqa: N812  # its usual name

        frame = self._of(TIMELINE, selection)
        if selection.start_us is not None:
            frame = frame.where(F.col("slot") >= selection.start_us)
        if selection.end_us is not None:
            frame = frame.where(F.col("slot") < selection.end_us)
        return frame

    def starvation(self, selection: Selection = ALL) -> "DataFrame":
        """Runs of starved intervals in the hours that overlap the range; split at the end of each hour."""
        return self._of(STARVATION, selection)

    def ledgers(self, selection: Selection = ALL) -> list[Ledger]:
        """The ledgers of the hours that overlap the range, in order; the last one is the store's, without an hour."""
        names = [f"{folder}/{LEDGER}" for folder in self.folders(selection)]
        if self.manifest.ledger is not None:
            names.append(self.manifest.ledger)
        return read_ledgers(self.storage, names)

    def hours(self, selection: Selection = ALL) -> list[int]:
        """The starts of the compacted hours that overlap the range."""
        return [hour for hour, _ in self._folders(selection)]

    def folders(self, selection: Selection = ALL) -> list[str]:
        """The folders, below the store, of the compacted hours that overlap the range."""
        return [folder for _, folder in self._folders(selection)]

    def _folders(self, selection: Selection) -> list[tuple[int, str]]:
        hours = sorted((hour_start(name), folder) for name, folder in self.manifest.hours.items())
        return [(hour, folder) for hour, folder in hours if selection.has_hour(hour)]

    def _of(self, dataset: str, selection: Selection) -> "DataFrame":
        from pyspark.sql import functions as F  # noqa: N812  # its usual name

        frame = read_dataset(self.spark, self.storage, dataset, self.folders(selection))
        return frame if selection.broker is None else frame.where(F.col("broker") == selection.broker)


def open_store(spark: "SparkSession", uri: str) -> Store:
    """The store at a URI.

    Raises:
        ReportError: there is no store.
    """
    storage = open_storage(uri, spark)
    manifest = read_manifest(storage)
    if manifest is None:
        raise ReportError(
            f"{uri}: is not a store of compacted metrics (it has no {MANIFEST}); create one: "
            f"sluice compact --metrics METRICS --store {uri}"
        )
    return Store(spark, storage, manifest)


def read_manifest(storage: Storage) -> Manifest | None:
    """The store's manifest; None if there is no store."""
    for name in (MANIFEST, NEXT_MANIFEST):
        if storage.exists(name):
            return parse_manifest(storage.read(name), storage.shown)
    return None


def write_manifest(storage: Storage, manifest: Manifest) -> None:
    """Replace the manifest.

    Object stores cannot replace a file atomically, so a killed run may leave the store without a manifest. Then the
    next one, which is written before, is valid.
    """
    storage.write(NEXT_MANIFEST, manifest.to_json())
    storage.write(MANIFEST, manifest.to_json())
    storage.remove(NEXT_MANIFEST)


def settle_manifest(storage: Storage) -> None:
    """Finish the replacement of the manifest if a run was killed during it."""
    if storage.exists(NEXT_MANIFEST):
        if not storage.exists(MANIFEST):
            storage.write(MANIFEST, storage.read(NEXT_MANIFEST))
        storage.remove(NEXT_MANIFEST)


def read_ledgers(storage: Storage, names: Sequence[str]) -> list[Ledger]:
    """Read ledgers by their names below the store."""
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(lambda name: parse_ledger(storage.read(name), storage.uri_of(name)), names))


def read_dataset(spark: "SparkSession", storage: Storage, dataset: str, folders: Sequence[str]) -> "DataFrame":
    """One dataset of some hours. Counters that are newer than the compacted hour are 0."""
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    if not folders:
        return spark.createDataFrame([], ddl(dataset))
    frame = spark.read.schema(ddl(dataset)).parquet(*[storage.spark_path(folder, dataset) for folder in folders])
    sums = [c.name for c in DATASETS[dataset] if c.how in (How.SUM, How.MAX)]
    return frame.withColumns({name: F.coalesce(F.col(name), F.lit(0).cast("bigint")) for name in sums})
