"""Aggregates raw rows to files of the store in a process of its own: for few rows, see also `spark_engine`."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from deltalake.transaction import AddAction

from spark_jobs.compaction import aggregate
from spark_jobs.compaction.aggregate import Aggregation
from spark_jobs.compaction.apart import apart
from spark_jobs.compaction.hour_builder import Aggregated, FileHour, named
from spark_jobs.compaction.packing import packed
from spark_jobs.compaction.plan import Hour
from spark_jobs.compaction.stages import WRITTEN, Stages, opened, tasks_of
from spark_jobs.formats import counted
from spark_jobs.progress import Progress
from spark_jobs.storage import Storage
from spark_jobs.store.delta import HourFiles, Snapshot, added
from spark_jobs.store.schema import DATASETS, SESSIONS

PART_ROWS: Final = 500_000
"""Raw rows of a part of an hour, approximately. It has at most as many sessions, of 2 kB each."""


@dataclass(frozen=True)
class Engine:
    """Aggregates raw rows.

    Attributes:
        metrics: the folder of the files.
        apart: whether a process of its own does that; else this one.
    """

    metrics: Storage
    apart: bool = True

    def aggregate(self, hours: Sequence[Hour], snapshot: Snapshot, progress: Progress) -> Aggregated:
        """Aggregate several hours from raw files, or one hour that is added to its compacted rows."""
        files = {file.name: file for hour in hours for file in hour.files}
        before = _before(hours[0], snapshot)
        shares = {hour.hour_us: max(1, -(-int(hour.rows) // PART_ROWS)) for hour in hours}
        if before is not None:
            shares[hours[0].hour_us] = max(len(before.files(SESSIONS)), *shares.values())
        aggregation = Aggregation(self.metrics, tuple(shares), snapshot.slot_us, before)
        stages = Stages(aggregation, snapshot.storage, shares)
        tasks = tasks_of([*packed(files.values()), *([None] if before is not None else [])])
        with progress.stage(f"{named(hours)}: compacting {counted(len(files), 'file')}") as stage:
            made = _collected(apart(_run_here, stages, tasks) if self.apart else _run_here(stages, tasks))
            stage.note = f"{counted(sum(part.rows for part in made.parts), 'row')} of sessions"
        return made


def _run_here(stages: Stages, tasks: pa.Table) -> pa.Table:
    """Both stages in this process."""
    batches = stages.written(stages.aggregated(tasks.to_batches()))
    return pa.Table.from_batches(batches, schema=WRITTEN)


def _before(hour: Hour, snapshot: Snapshot) -> HourFiles | None:
    """The compacted rows that an hour is added to."""
    if not hour.adds:
        return None
    files = {name: snapshot.files(name, hour.hour_us, hour.hour_us + 1) for name in DATASETS}
    return HourFiles(snapshot.storage, files)


def _collected(written: pa.Table) -> Aggregated:
    files: dict[str, list[AddAction]] = defaultdict(list)
    parts: list[FileHour] = []
    dropped: dict[tuple[str, int], int] = defaultdict(int)
    for row in written.to_pylist():
        match row["dataset"]:
            case aggregate.PARTS:
                for part in opened(row["rows"]).to_pylist():
                    parts.append(FileHour(name=part.pop("file"), **part))
            case aggregate.DROPPED:
                for lost in opened(row["rows"]).to_pylist():
                    dropped[lost["file"], lost["hour_us"]] += lost["rows"]
            case dataset:
                files[dataset].append(added(row["path"], row["size"], row["hour_us"], {"numRecords": row["count"]}))
    return Aggregated(files, parts, dropped)
