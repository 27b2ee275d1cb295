"""Reading a store: the compacted rows of a range, and what is known of the raw files behind them."""

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
    """A part of a store: from start up to, not including, end, in microseconds; None leaves a side open.

    `broker` is the name of one broker; None for all.
    """

    start_us: int | None = None
    end_us: int | None = None
    broker: str | None = None

    def has_hour(self, hour_us: int) -> bool:
        """Whether the hour that starts then has a part in the range."""
        return (self.start_us is None or hour_us + HOUR_US > self.start_us) and (
            self.end_us is None or hour_us < self.end_us
        )


ALL: Final = Selection()


@dataclass(frozen=True)
class Store:
    """A store as its manifest had it when it was opened.

    Attributes:
        spark: the session that reads.
        storage: where it lies.
        manifest: what of it is valid.
    """

    spark: "SparkSession"
    storage: Storage
    manifest: Manifest

    def sessions(self, selection: Selection = ALL) -> "DataFrame":
        """One row per session and hour. Sessions are only known by whole hours: all that have a part in the range."""
        return self._of(SESSIONS, selection)

    def timeline(self, selection: Selection = ALL) -> "DataFrame":
        """One row per broker and slot, of the slots that begin in the range."""
        from pyspark.sql import functions as F  # noqa: N812  # its usual name

        frame = self._of(TIMELINE, selection)
        if selection.start_us is not None:
            frame = frame.where(F.col("slot") >= selection.start_us)
        if selection.end_us is not None:
            frame = frame.where(F.col("slot") < selection.end_us)
        return frame

    def starvation(self, selection: Selection = ALL) -> "DataFrame":
        """Runs of starved intervals in the hours that have a part in the range; cut where an hour ends."""
        return self._of(STARVATION, selection)

    def ledgers(self, selection: Selection = ALL) -> list[Ledger]:
        """The ledgers of the hours that have a part in the range, in order; last the store's own, with no hour."""
        names = [f"{folder}/{LEDGER}" for folder in self.folders(selection)]
        if self.manifest.ledger is not None:
            names.append(self.manifest.ledger)
        return read_ledgers(self.storage, names)

    def hours(self, selection: Selection = ALL) -> list[int]:
        """The starts of the compacted hours that have a part in the range."""
        return [hour for hour, _ in self._folders(selection)]

    def folders(self, selection: Selection = ALL) -> list[str]:
        """The folders, below the store, of the compacted hours that have a part in the range."""
        return [folder for _, folder in self._folders(selection)]

    def _folders(self, selection: Selection) -> list[tuple[int, str]]:
        hours = sorted((hour_start(name), folder) for name, folder in self.manifest.hours.items())
        return [(hour, folder) for hour, folder in hours if selection.has_hour(hour)]

    def _of(self, dataset: str, selection: Selection) -> "DataFrame":
        from pyspark.sql import functions as F  # noqa: N812  # its usual name

        frame = read_dataset(self.spark, self.storage, dataset, self.folders(selection))
        return frame if selection.broker is None else frame.where(F.col("broker") == selection.broker)


def open_store(spark: "SparkSession", uri: str) -> Store:
    """The store at an address.

    Raises:
        ReportError: there is none.
    """
    storage = open_storage(uri, spark)
    manifest = read_manifest(storage)
    if manifest is None:
        raise ReportError(
            f"{uri}: is no store of compacted metrics (it has no {MANIFEST}); make one: "
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
    """Make a manifest the valid one.

    Object stores cannot put a file in the place of another at once, so there may be a moment without a manifest, and a
    run may be ended in it. Then the next one, written before and whole, is the valid one.
    """
    storage.write(NEXT_MANIFEST, manifest.to_json())
    storage.write(MANIFEST, manifest.to_json())
    storage.remove(NEXT_MANIFEST)


def settle_manifest(storage: Storage) -> None:
    """Bring to an end what a run has left that was ended while it wrote the manifest."""
    if storage.exists(NEXT_MANIFEST):
        if not storage.exists(MANIFEST):
            storage.write(MANIFEST, storage.read(NEXT_MANIFEST))
        storage.remove(NEXT_MANIFEST)


def read_ledgers(storage: Storage, names: Sequence[str]) -> list[Ledger]:
    """Ledgers by their names below the store."""
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(lambda name: parse_ledger(storage.read(name), storage.address(name)), names))


def read_dataset(spark: "SparkSession", storage: Storage, dataset: str, folders: Sequence[str]) -> "DataFrame":
    """One dataset of some hours. Counters that came later than the hour was compacted are 0."""
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    if not folders:
        return spark.createDataFrame([], ddl(dataset))
    frame = spark.read.schema(ddl(dataset)).parquet(*[storage.spark_path(folder, dataset) for folder in folders])
    sums = [c.name for c in DATASETS[dataset] if c.how in (How.SUM, How.MAX)]
    return frame.withColumns({name: F.coalesce(F.col(name), F.lit(0).cast("bigint")) for name in sums})
