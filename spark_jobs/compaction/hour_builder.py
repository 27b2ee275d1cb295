"""Builds the compacted rows and the ledgers of a few hours."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # its usual name

from spark_jobs.compaction import aggregation, raw, writing
from spark_jobs.compaction.plan import Hour
from spark_jobs.compaction.schema import INTERVALS, SESSIONS, STARVATION, TIMELINE
from spark_jobs.compaction.state import (
    DUPLICATE,
    LEDGER,
    OVERLAPPING,
    FileRecord,
    Ledger,
    by_name,
    hour_name,
)
from spark_jobs.compaction.store import read_dataset
from spark_jobs.progress import Progress
from spark_jobs.spark import cached
from spark_jobs.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class BuiltHours:
    """Published hours: folder and ledger of each, and the brokers' watermarks."""

    folders: Mapping[str, str]
    ledgers: Mapping[int, Ledger]
    watermarks: Mapping[str, int]


@dataclass(frozen=True)
class HourBuilder:
    """Builds hours.

    Attributes:
        spark: the session.
        metrics, store: input and output.
        work: folder of this run, below the store.
        slot_us: length of the timeline's slots.
        watermarks: of the brokers, before this run.
        ledgers: of the hours before this run.
        folders: of the hours before this run.
        progress: prints each dataset.
    """

    spark: "SparkSession"
    metrics: Storage
    store: Storage
    work: str
    slot_us: int
    watermarks: Mapping[str, int]
    ledgers: Mapping[int, Ledger]
    folders: Mapping[str, str]
    progress: Progress

    def build(self, hours: Sequence[Hour]) -> BuiltHours:
        """Compact several hours from raw files, or one hour that is added to its compacted rows."""
        starts = [hour.hour_us for hour in hours]
        files = by_name(file for hour in hours for file in hour.files)
        rows = raw.of_hours(raw.read(self.spark, self.metrics, sorted(files)), starts)
        with self.progress.stage(f"{_named(hours)}: scanning {len(files)} files") as stage:
            scan = raw.scan(rows)
            stage.note = f"{sum(part.rows for part in scan.parts):,} rows"
        with cached(scan.groups):
            dropped: dict[tuple[str, int], int] = defaultdict(int)
            groups = scan.groups
            if scan.shared:
                with self.progress.stage(f"{len(scan.shared)} files share intervals: searching duplicates") as stage:
                    rows, lost = raw.without_duplicates(rows, scan.shared)
                    for row in lost.collect():
                        dropped[raw.name_of(row["file"]), row["hour_us"]] += row["dropped"]
                    stage.note = f"{sum(dropped.values()):,} duplicate rows"
                    groups = _groups_of(rows)
            base = hours[0].base
            if base is not None:
                rows = self._new_only(rows, hours[0], dropped)
                groups = _groups_of(rows)
            self._write(rows, groups, hours, scan)
        return self._publish(hours, scan, dropped)

    def _new_only(self, rows: "DataFrame", hour: Hour, dropped: dict[tuple[str, int], int]) -> "DataFrame":
        """The rows whose interval or session is not in the compacted rows yet; counts the others as dropped.

        Rows of a known interval and a known session count as duplicates, because their raw file is missing.
        """
        there = F.broadcast(
            self._before(hour, INTERVALS).select("broker", F.timestamp_micros("interval_end_us").alias("interval_end"))
        )
        known = self._before(hour, SESSIONS).select(
            "broker", "client_id", F.timestamp_micros("session_started_us").alias("session_started")
        )
        interval, session = ["broker", "interval_end"], ["broker", "client_id", "session_started"]
        same = rows.join(there, interval, "left_semi")
        again = same.join(known, session, "left_semi").groupBy("file").agg(F.count(F.lit(1)).alias("rows"))
        for row in again.collect():
            dropped[raw.name_of(row["file"]), hour.hour_us] += row["rows"]
        return rows.join(there, interval, "left_anti").unionByName(same.join(known, session, "left_anti"))

    def _before(self, hour: Hour, dataset: str) -> "DataFrame":
        return read_dataset(self.spark, self.store, dataset, [self.folders[hour_name(hour.hour_us)]])

    def _write(self, rows: "DataFrame", groups: "DataFrame", hours: Sequence[Hour], scan: raw.Scan) -> None:
        base = hours[0] if hours[0].base is not None else None
        parts = {hour.hour_us: writing.parts_of(scan.widest.get(hour.hour_us, 0)) for hour in hours}
        if base is not None:
            parts = {base.hour_us: 1}
        tasks = writing.tasks_for(list(parts.values()))
        # Repartitioned by hour and file here: then merging by pressure, sorting and writing need no further exchange.
        # (With a constant among the columns Spark would not detect that.)
        several = (writing.PART,) if max(parts.values()) > 1 else ()
        in_parts = rows.withColumn(writing.PART, writing.part(raw.hour(), parts)) if several else rows
        split = aggregation.by_pressure(in_parts, scan.listeners, several).repartition(tasks, "hour_us", *several)
        sessions = aggregation.folded_pressure(split, scan.listeners, several)
        frames = {
            SESSIONS: sessions if several else sessions.withColumn(writing.PART, F.lit(0)),
            TIMELINE: aggregation.timeline(rows, self.slot_us),
            STARVATION: aggregation.starvation(rows),
            INTERVALS: aggregation.intervals_of(groups),
        }
        for dataset, frame in frames.items():
            with self.progress.stage(f"{_named(hours)}: {dataset}"):
                if base is not None:
                    frame = aggregation.merged(dataset, [self._before(base, dataset), frame.drop(writing.PART)])
                    if dataset == SESSIONS:
                        frame = frame.withColumn(writing.PART, F.lit(0)).coalesce(1)
                writing.stage(frame, dataset, self.store, self.work, tasks)

    def _publish(self, hours: Sequence[Hour], scan: raw.Scan, dropped: Mapping[tuple[str, int], int]) -> BuiltHours:
        """Move the hours' folders to their final place; the manifest does not name them yet."""
        staged = {hour.hour_us: f"{self.work}/{hour.folder}" for hour in hours}
        writing.collect(self.store, self.work, staged)
        seen: dict[int, list[raw.FileHour]] = defaultdict(list)
        for part in scan.parts:
            seen[part.hour_us].append(part)
        ledgers = {hour.hour_us: self._ledger(hour, seen[hour.hour_us], dropped) for hour in hours}
        for hour in hours:
            self.store.write(f"{staged[hour.hour_us]}/{LEDGER}", ledgers[hour.hour_us].to_json())
            self.store.remove(hour.folder)  # left by a run that was killed before it wrote the manifest
            self.store.rename(staged[hour.hour_us], hour.folder)
        for name in (SESSIONS, TIMELINE, STARVATION, INTERVALS):
            self.store.remove(f"{self.work}/{name}")
        return BuiltHours({hour_name(hour.hour_us): hour.folder for hour in hours}, ledgers, scan.watermarks)

    def _ledger(self, hour: Hour, seen: Sequence[raw.FileHour], dropped: Mapping[tuple[str, int], int]) -> Ledger:
        before = self.ledgers.get(hour.hour_us)
        known = by_name(before.files) if before is not None else {}
        records = dict(known) if hour.base is not None else {}
        for file in hour.files:
            own = [part for part in seen if raw.name_of(part.file) == file.name]
            late = any(part.first_us <= self.watermarks.get(part.broker, -1) for part in own)
            old = known.get(file.name)
            if old is not None and old.identity == file.identity:
                late = old.late
            records[file.name] = _with_result(file, own, dropped.get((file.name, hour.hour_us), 0), late)
        files = tuple(records[name] for name in sorted(records))
        return Ledger(
            hour.hour_us,
            sum(file.rows_here - file.dropped for file in files),
            sum(file.dropped for file in files),
            files,
            hour.base.kept + 1 if hour.base is not None else 0,
        )


def _groups_of(rows: "DataFrame") -> "DataFrame":
    return rows.groupBy("broker", "interval_end", "file").agg(F.count(F.lit(1)).alias("rows"))


def _with_result(file: FileRecord, own: Sequence[raw.FileHour], dropped: int, late: bool) -> FileRecord:
    rows = sum(part.rows for part in own)
    brokers = tuple(sorted({part.broker for part in own}))
    record = replace(file, rows_here=rows, dropped=dropped, late=late, brokers=brokers)
    if not dropped:
        return record
    status = DUPLICATE if dropped == rows else OVERLAPPING
    return replace(record, status=status, why=f"{dropped:,} of its {rows:,} rows of the hour are also in other files")


def _named(hours: Sequence[Hour]) -> str:
    first, last = hour_name(hours[0].hour_us), hour_name(hours[-1].hour_us)
    return first if first == last else f"{first} to {last}"
