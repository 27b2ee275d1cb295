"""Aggregates raw rows in Spark: any number of them, on one machine or a cluster."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltalake.transaction import AddAction
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.compaction import aggregation, raw, writing
from spark_jobs.compaction.hour_builder import Aggregated, named
from spark_jobs.compaction.plan import Hour
from spark_jobs.metrics import SESSION_KEY
from spark_jobs.progress import Progress
from spark_jobs.spark import cached
from spark_jobs.storage import Storage
from spark_jobs.store.delta import Snapshot, new_folder
from spark_jobs.store.schema import INTERVALS, SESSIONS, STARVATION, TIMELINE

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
        rows = raw.of_hours(raw.read(self.spark, self.metrics, names), starts)
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
                groups = _groups_of(rows)
            added = self._write(rows, groups, hours, snapshot, scan, progress)
        return Aggregated(added, scan.parts, dropped)

    def usual_interval(self, names: Sequence[str]) -> int:
        """See `hour_builder.Engine`."""
        return raw.usual_interval(raw.read(self.spark, self.metrics, names))

    def _new_only(
        self, rows: "DataFrame", hour: Hour, snapshot: Snapshot, dropped: dict[tuple[str, int], int]
    ) -> "DataFrame":
        """The rows whose interval or session is not in the compacted rows yet; counts the others as dropped.

        Rows of a known interval and a known session count as duplicates, because their raw file is missing.
        """
        there = F.broadcast(
            self._before(hour, snapshot, INTERVALS).select(
                "broker", F.timestamp_micros("interval_end_us").alias("interval_end")
            )
        )
        known = self._before(hour, snapshot, SESSIONS).select(
            "broker", "client_id", F.timestamp_micros("session_started_us").alias("session_started")
        )
        interval, session = ["broker", "interval_end"], ["broker", "client_id", "session_started"]
        same = rows.join(there, interval, "left_semi")
        again = same.join(known, session, "left_semi").groupBy("file").agg(F.count(F.lit(1)).alias("rows"))
        for row in again.collect():
            dropped[raw.name_of(row["file"]), hour.hour_us] += row["rows"]
        return rows.join(there, interval, "left_anti").unionByName(same.join(known, session, "left_anti"))

    def _before(self, hour: Hour, snapshot: Snapshot, dataset: str) -> "DataFrame":
        return raw.compacted(self.spark, snapshot, dataset, hour.hour_us)

    def _write(
        self,
        rows: "DataFrame",
        groups: "DataFrame",
        hours: Sequence[Hour],
        snapshot: Snapshot,
        scan: raw.Scan,
        progress: Progress,
    ) -> dict[str, list[AddAction]]:
        # Partitioned by session here: then merging by pressure, sorting and writing need no further exchange.
        tasks = writing.tasks_for([scan.widest.get(hour.hour_us, 0) for hour in hours])
        split = aggregation.by_pressure(rows, scan.listeners).repartition(tasks, *SESSION_KEY, "hour_us")
        frames = {
            SESSIONS: aggregation.folded_pressure(split, scan.listeners),
            TIMELINE: aggregation.timeline(rows, snapshot.slot_us),
            STARVATION: aggregation.starvation(rows),
            INTERVALS: aggregation.intervals_of(groups),
        }
        added = {}
        folder = new_folder()
        for dataset, frame in frames.items():
            with progress.stage(f"{named(hours)}: {dataset}"):
                if hours[0].adds:
                    frame = aggregation.merged(dataset, [self._before(hours[0], snapshot, dataset), frame])
                added[dataset] = writing.write(frame, dataset, snapshot.storage, folder, tasks)
        return added


def _groups_of(rows: "DataFrame") -> "DataFrame":
    return rows.groupBy("broker", "interval_end", "file").agg(F.count(F.lit(1)).alias("rows"))
