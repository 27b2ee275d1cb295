"""Builds the files and the ledgers of a few hours; an engine aggregates their rows."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spark_jobs.compaction.engine import Aggregated, Engine, FileHour
from spark_jobs.compaction.plan import Hour
from spark_jobs.progress import Progress
from spark_jobs.store.delta import BROKERS, FILES, Change, Snapshot, add_rows, replaced
from spark_jobs.store.schema import DATASETS, HOUR_US
from spark_jobs.store.taken import (
    DUPLICATE,
    OVERLAPPING,
    FileRecord,
    Ledger,
    by_name,
    records_table,
    watermarks_table,
)


@dataclass(frozen=True)
class BuiltHours:
    """Hours that are written but not committed: the changes of the tables, and the ledger of each hour."""

    changes: Mapping[str, Change]
    ledgers: Mapping[int, Ledger]


@dataclass(frozen=True)
class HourBuilder:
    """Builds hours.

    Attributes:
        engine: aggregates the rows.
        snapshot: the store before this batch.
        watermarks: of the brokers, before this run.
        earlier: the watermarks before this batch.
        ledgers: of the hours before this run.
        progress: prints each step.
    """

    engine: Engine
    snapshot: Snapshot
    watermarks: Mapping[str, int]
    earlier: Mapping[str, int]
    ledgers: Mapping[int, Ledger]
    progress: Progress

    def build(self, hours: Sequence[Hour]) -> BuiltHours:
        """Compact several hours from raw files, or one hour that is added to its compacted rows."""
        made = self.engine.aggregate(hours, self.snapshot, self.progress)
        ledgers = self._ledgers(hours, made)
        changes = {dataset: Change(list(made.added.get(dataset, ()))) for dataset in DATASETS}
        storage = self.snapshot.storage
        changes[FILES] = Change(
            [add_rows(storage, FILES, records_table(ledger.files), hour_us) for hour_us, ledger in ledgers.items()]
        )
        starts = {hour.hour_us for hour in hours}
        for name in (*DATASETS, FILES):
            files = self.snapshot.files(name, min(starts), max(starts) + HOUR_US)
            changes[name].removed = [file for file in files if file.hour_us in starts]
        marks = dict(self.earlier)
        for part in made.parts:
            marks[part.broker] = max(marks.get(part.broker, 0), part.last_us)
        changes[BROKERS] = replaced(self.snapshot, BROKERS, watermarks_table(marks))
        return BuiltHours(changes, ledgers)

    def _ledgers(
        self, hours: Sequence[Hour], made: Aggregated
    ) -> dict[int, Ledger]:
        seen: dict[tuple[int, str], list[FileHour]] = defaultdict(list)
        for part in made.parts:
            seen[part.hour_us, part.name].append(part)
        ledgers = {}
        for hour in hours:
            before = self.ledgers.get(hour.hour_us)
            known = by_name(before.files) if before is not None else {}
            records = dict(known) if hour.adds else {}
            for file in hour.files:
                own = seen[hour.hour_us, file.name]
                late = any(part.first_us <= self.watermarks.get(part.broker, -1) for part in own)
                old = known.get(file.name)
                if old is not None and old.identity == file.identity:
                    late = old.late
                records[file.name] = _with_result(file, own, made.dropped.get((file.name, hour.hour_us), 0), late)
            ledgers[hour.hour_us] = Ledger(hour.hour_us, tuple(records[name] for name in sorted(records)))
        return ledgers


def _with_result(file: FileRecord, own: Sequence[FileHour], dropped: int, late: bool) -> FileRecord:
    rows = sum(part.rows for part in own)
    brokers = tuple(sorted({part.broker for part in own}))
    record = replace(file, rows_here=rows, dropped=dropped, late=late, brokers=brokers)
    if not dropped:
        return record
    status = DUPLICATE if dropped == rows else OVERLAPPING
    return replace(record, status=status, why=f"{dropped:,} of its {rows:,} rows of the hour are also in other files")
