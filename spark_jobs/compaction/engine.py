"""Aggregates raw rows of some hours with Spark to files of the store."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from spark_jobs.compaction import writing
from spark_jobs.compaction.plan import Hour, named
from spark_jobs.datasets import copies, forgotten, intervals, raw
from spark_jobs.datasets.groups import groups
from spark_jobs.datasets.sessions import sessions
from spark_jobs.datasets.starvation import starvation
from spark_jobs.datasets.timeline import timeline
from spark_jobs.formats import counted
from spark_jobs.progress import Progress
from spark_jobs.storage import Storage
from spark_jobs.store.delta import Snapshot, new_folder
from spark_jobs.store.erased import NOTHING, Erased
from spark_jobs.store.frames import stored_rows
from spark_jobs.store.schema import DATASETS, GROUPS, HOUR_US, INTERVALS, SESSIONS, STARVATION, TIMELINE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL: Final = 1_000
"""Rows of a file, below which it takes longer to open it again than to keep its rows."""
PART_ROWS: Final = 500_000
"""Raw rows of a file of the store, approximately. It has at most as many sessions, of 2 kB each."""
_INTERVAL: Final = ("broker", "interval_end_us")
_GROUP: Final = (*_INTERVAL, "share_groups")


class ImpossibleError(ValueError):
    """Rows have values out of their ranges; `damage` says which."""


@dataclass(frozen=True)
class FileHour:
    """The rows of one file, hour and broker, and their first and last interval_end."""

    name: str
    hour_us: int
    broker: str
    rows: int
    first_us: int
    last_us: int


@dataclass(frozen=True)
class Aggregated:
    """What an engine has made of some hours.

    Attributes:
        added: dataset -> files that it has written.
        parts: the raw rows by file, hour and broker, duplicates included.
        dropped: file and hour -> rows left out because their key occurs in another file, or in the store already.
    """

    added: Mapping[str, list[AddAction]]
    parts: Sequence[FileHour]
    dropped: Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class Engine:
    """Aggregates raw rows.

    Attributes:
        spark: the session.
        metrics: the folder of the files.
        erased: clients of which rows are left out.
    """

    spark: "SparkSession"
    metrics: Storage
    erased: Erased = NOTHING

    def aggregate(self, hours: Sequence[Hour], snapshot: Snapshot, progress: Progress) -> Aggregated:
        """Aggregate several hours from raw files, or one hour that is added to its compacted rows."""
        files = {file.name: file.rows or 0 for hour in hours for file in hour.files}
        names = sorted(files)
        with progress.stage(f"{named(hours)}: compacting {counted(len(names), 'file')}") as stage:
            rows = forgotten.without(self._rows(names, [hour.hour_us for hour in hours]), self.erased)
            before = self._before(hours[0], snapshot)
            if sum(files.values()) < SMALL * len(files):
                rows.persist()
            of_sessions = raw.of_sessions(rows)
            counts = intervals.by_file(rows).persist()
            try:
                by_hour = intervals.by_hour(counts).collect()
                parts = _parts(by_hour)
                of_intervals = self._new(raw.of_intervals(rows), _INTERVAL, before)
                kept = self._kept(of_sessions, before)
                kept_counts = counts if kept is of_sessions else intervals.by_file(kept)
                dropped = {}
                if kept is not of_sessions:
                    dropped = _dropped(parts, _parts(intervals.by_hour(kept_counts).collect()))
                listeners = intervals.listeners(counts) or [""]  # Spark has no empty map
                frames = {
                    SESSIONS: sessions(kept, listeners, before.get(SESSIONS)),
                    TIMELINE: timeline(of_intervals, snapshot.slot_us, before.get(TIMELINE)),
                    STARVATION: starvation(kept, before.get(STARVATION)),
                    INTERVALS: intervals.intervals(kept_counts, before.get(INTERVALS)),
                }
                if any(row["grouped"] for row in by_hour) or _has_groups(snapshot, hours[0]):
                    of_groups = self._new(raw.of_groups(rows), _GROUP, before)
                    frames[GROUPS] = groups(of_groups.unionByName(kept), before.get(GROUPS))
                added = self._written(frames, hours, snapshot)
            finally:
                counts.unpersist()
                rows.unpersist()
            stage.note = f"{counted(sum(part.rows for part in parts), 'row')} of sessions"
        return Aggregated(added, parts, dropped)

    def _rows(self, names: Sequence[str], hours: Sequence[int]) -> DataFrame:
        """The raw rows of some hours, given by their sorted starts."""
        rows = raw.read(self.spark, [self.metrics.spark_path(name) for name in names])
        end = F.col("interval_end_us")
        within = rows.where((end >= hours[0]) & (end < hours[-1] + HOUR_US))
        if hours[-1] - hours[0] == (len(hours) - 1) * HOUR_US:
            return within
        return within.where(raw.start_of("interval_end_us", HOUR_US).isin(list(hours)))

    def _before(self, hour: Hour, snapshot: Snapshot) -> dict[str, DataFrame]:
        """The compacted rows that an hour is added to."""
        if not hour.adds:
            return {}
        return {
            name: stored_rows(self.spark, snapshot, name, snapshot.files(name, hour.hour_us, hour.hour_us + 1))
            for name in DATASETS
        }

    def _kept(self, rows: DataFrame, before: dict[str, DataFrame]) -> DataFrame:
        """The rows that are counted: no copies, and none that the compacted rows have."""
        kept = copies.without_copies(rows) if copies.has_copies(rows) else rows
        if not before:
            return kept
        # Rows of a known interval and a known session are copies: their raw file is missing.
        there, known = F.broadcast(before[INTERVALS]), before[SESSIONS]
        again = kept.join(there, list(_INTERVAL), "left_semi")
        new = kept.join(there, list(_INTERVAL), "left_anti")
        return new.unionByName(again.join(known, list(raw.SESSION), "left_anti"))

    def _new(self, rows: DataFrame, key: tuple[str, ...], before: dict[str, DataFrame]) -> DataFrame:
        """Rows that are not of sessions: no copies, and none of intervals that the compacted rows have."""
        found = copies.of_first_files(rows, key)  # a group may end and begin again within an interval
        return found.join(before[INTERVALS].select(*_INTERVAL), list(_INTERVAL), "left_anti") if before else found

    def _written(
        self, frames: dict[str, DataFrame], hours: Sequence[Hour], snapshot: Snapshot
    ) -> dict[str, list[AddAction]]:
        """Write the datasets side by side: most of the time of a small one is planning."""
        folder = new_folder()
        shares = {hour.hour_us: max(1, -(-int(hour.rows) // PART_ROWS)) for hour in hours}

        def write(dataset: str) -> list[AddAction]:
            return writing.write(frames[dataset], dataset, snapshot.storage, folder, shares)

        with ThreadPoolExecutor(len(frames)) as pool:
            return dict(zip(frames, pool.map(write, frames), strict=True))


def name_of(uri: str) -> str:
    """A raw file's name in the metrics folder, by its URI in Spark."""
    return "/".join(unquote(uri, errors="surrogateescape").rsplit("/", 3)[1:])


def _has_groups(snapshot: Snapshot, hour: Hour) -> bool:
    """Whether an hour is added to rows of groups."""
    return hour.adds and bool(snapshot.files(GROUPS, hour.hour_us, hour.hour_us + 1))


def _parts(found: Sequence[Row]) -> list[FileHour]:
    """The rows of sessions by file, hour and broker, of rows of `intervals.by_hour`.

    Raises:
        ImpossibleError: some rows are impossible.
    """
    if any(row["wrong"] for row in found):
        raise ImpossibleError
    names = ("hour_us", "broker", "rows", "first_us", "last_us")
    return [FileHour(name_of(row[raw.FILE]), *[row[name] for name in names]) for row in found if row["rows"]]


def _dropped(parts: Sequence[FileHour], kept: Sequence[FileHour]) -> dict[tuple[str, int], int]:
    """File and hour -> rows that were left out."""
    found: dict[tuple[str, int], int] = defaultdict(int)
    for part in parts:
        found[part.name, part.hour_us] += part.rows
    for part in kept:
        found[part.name, part.hour_us] -= part.rows
    return {place: rows for place, rows in found.items() if rows}
