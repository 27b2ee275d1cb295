"""Aggregates raw rows in Spark: any number of them, on one machine or a cluster."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltalake.transaction import AddAction
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.compaction import raw, workers, writing
from spark_jobs.compaction.hour_builder import Aggregated, named
from spark_jobs.compaction.plan import Hour
from spark_jobs.progress import Progress
from spark_jobs.spark import cached
from spark_jobs.storage import Storage
from spark_jobs.store.delta import Snapshot, new_folder
from spark_jobs.store.schema import INTERVALS, SESSIONS, ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class SparkEngine:
    """See `hour_builder.Engine`."""

    spark: "SparkSession"
    metrics: Storage

    def aggregate(self, hours: Sequence[Hour], snapshot: Snapshot, progress: Progress) -> Aggregated:
        """See `hour_builder.Engine`."""
        starts = [hour.hour_us for hour in hours]
        names = sorted({file.name for hour in hours for file in hour.files})
        every = raw.of_hours(raw.read(self.spark, self.metrics, names), starts)
        rows, intervals = raw.of_sessions(every), raw.of_intervals(every)
        with progress.stage(f"{named(hours)}: scanning {len(names)} files") as stage:
            scan = raw.scan(rows)
            stage.note = f"{sum(part.rows for part in scan.parts):,} rows"
        with cached(scan.groups):
            dropped: dict[tuple[str, int], int] = defaultdict(int)
            groups = scan.groups
            if scan.shared:
                with progress.stage(f"{len(scan.shared)} files share intervals: searching duplicates") as stage:
                    rows, lost = raw.without_duplicates(rows, scan.shared)
                    for row in lost.collect():
                        dropped[raw.name_of(row["file"]), row["hour_us"]] += row["dropped"]
                    stage.note = f"{sum(dropped.values()):,} duplicate rows"
                    groups = _groups_of(rows)
            if hours[0].adds:
                rows = self._new_only(rows, hours[0], snapshot, dropped)
                intervals = self._new_intervals(intervals, hours[0], snapshot)
                groups = _groups_of(rows)
            added = self._write(rows, intervals, groups, hours, snapshot, scan, progress)
        return Aggregated(added, scan.parts, dropped)

    def usual_interval(self, names: Sequence[str]) -> int:
        """See `hour_builder.Engine`."""
        return raw.usual_interval(raw.of_sessions(raw.read(self.spark, self.metrics, names)))

    def _new_only(
        self, rows: "DataFrame", hour: Hour, snapshot: Snapshot, dropped: dict[tuple[str, int], int]
    ) -> "DataFrame":
        """The rows whose interval or session is not in the compacted rows yet; counts the others as dropped.

        Rows of a known interval and a known session count as duplicates, because their raw file is missing.
        """
        intervals, sessions = (self._before(hour, snapshot, name) for name in (INTERVALS, SESSIONS))
        if intervals is None or sessions is None:
            return rows
        there = F.broadcast(intervals.select("broker", "interval_end"))
        known = sessions.select("broker", "client_id", "session_started")
        interval, session = ["broker", "interval_end"], ["broker", "client_id", "session_started"]
        same = rows.join(there, interval, "left_semi")
        again = same.join(known, session, "left_semi").groupBy("file").agg(F.count(F.lit(1)).alias("rows"))
        for row in again.collect():
            dropped[raw.name_of(row["file"]), hour.hour_us] += row["rows"]
        return rows.join(there, interval, "left_anti").unionByName(same.join(known, session, "left_anti"))

    def _new_intervals(self, intervals: "DataFrame", hour: Hour, snapshot: Snapshot) -> "DataFrame":
        """The rows of broker and interval whose interval is not in the compacted rows yet."""
        known = self._before(hour, snapshot, INTERVALS)
        if known is None:
            return intervals
        return intervals.join(F.broadcast(known), ["broker", "interval_end"], "left_anti")

    def _before(self, hour: Hour, snapshot: Snapshot, dataset: str) -> "DataFrame | None":
        return raw.compacted(self.spark, snapshot, dataset, hour.hour_us)

    def _write(
        self,
        rows: "DataFrame",
        intervals: "DataFrame",
        groups: "DataFrame",
        hours: Sequence[Hour],
        snapshot: Snapshot,
        scan: raw.Scan,
        progress: Progress,
    ) -> dict[str, list[AddAction]]:
        tasks = writing.tasks_for([scan.widest.get(hour.hour_us, 0) for hour in hours])
        packed = workers.aggregated(rows.drop("file"), snapshot.slot_us, tasks)
        packed = packed.unionByName(workers.timeline(intervals.drop("file"), snapshot.slot_us, tasks))
        if hours[0].adds:
            for dataset in workers.MERGED:
                if (earlier := self._before(hours[0], snapshot, dataset)) is not None:
                    packed = packed.unionByName(workers.before(earlier, dataset, tasks))
        added, folder = {}, new_folder()
        whole = workers.merged(packed, tasks).persist()
        with cached(whole):
            for dataset in workers.MERGED:
                with progress.stage(f"{named(hours)}: {dataset}"):
                    frame = workers.rows_of(whole, dataset, ddl(dataset))
                    added[dataset] = writing.write(frame, dataset, snapshot.storage, folder)
            with progress.stage(f"{named(hours)}: {INTERVALS}"):
                frame = self._intervals(groups, hours[0], snapshot)
                added[INTERVALS] = writing.write(frame.coalesce(tasks), INTERVALS, snapshot.storage, folder)
        return added

    def _intervals(self, groups: "DataFrame", hour: Hour, snapshot: Snapshot) -> "DataFrame":
        """One row for each broker and interval_end, with what the hour has already if it is added to."""
        made = groups.groupBy("broker", "interval_end").agg(
            F.sum("rows").alias("rows"), F.count_distinct("file").alias("files")
        )
        if hour.adds and (earlier := self._before(hour, snapshot, INTERVALS)) is not None:
            both = made.unionByName(earlier.select(*made.columns))
            sums = (F.sum("rows").alias("rows"), F.max("files").alias("files"))
            made = both.groupBy("broker", "interval_end").agg(*sums)
        return made.select("broker", F.unix_micros("interval_end").alias("interval_end_us"), "rows", "files")


def _groups_of(rows: "DataFrame") -> "DataFrame":
    return rows.groupBy("broker", "interval_end", "file").agg(F.count(F.lit(1)).alias("rows"))
