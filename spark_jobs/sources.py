"""The input of the measures from a store: the rows of a selection, and its ledgers' findings about raw files."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from spark_jobs.compaction.clocks import CLOCK, off_clocks
from spark_jobs.compaction.survey import hour_of
from spark_jobs.errors import ReportError
from spark_jobs.measures.frames import Finding, SourceFile, StoreFrames
from spark_jobs.store.erased import erased_of
from spark_jobs.store.frames import stored_rows
from spark_jobs.store.schema import GROUPS, HOUR_US, SESSIONS, STARVATION, TIMELINE
from spark_jobs.store.store import Selection, Store
from spark_jobs.store.taken import DUPLICATE, OVERLAPPING, READ, FileRecord, hour_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_jobs.spark import SparkOf
    from spark_jobs.store.delta import StoredFile

_EXPLANATIONS: Final = {
    DUPLICATE: "Rows of files that have all their rows of the hour in common with other files; counted once.",
    OVERLAPPING: "Rows that are also in another file; counted once.",
}
_DROPPED: Final = "Hours that somebody has dropped from the store, with --keep or --drop; this report lacks them."
_CLOCK: Final = "Brokers whose clock is probably wrong, by the times of their files: {}."


def frames_of(spark_of: "SparkOf", store: Store, selection: Selection) -> StoreFrames:
    """The input of the measures for a selection. Spark is asked for when everything else is read.

    Raises:
        ReportError: the store has no rows of the selected broker.
    """
    brokers = store.watermarks
    if selection.broker is not None and selection.broker not in brokers:
        there = ", ".join(sorted(brokers)) or "none"
        raise ReportError(f"broker {selection.broker}: {store.storage.shown} has no rows of it, only of: {there}")
    ledgers = store.ledgers(selection)
    taken = _by_file(file for ledger in ledgers for file in ledger.files)
    records = _by_file([*taken, *(file for file in store.skipped() if _is_asked(file, selection))])
    spark = spark_of(sum(ledger.rows for ledger in ledgers))
    return StoreFrames(
        sessions=_rows(spark, store, SESSIONS, selection),
        timeline=_rows(spark, store, TIMELINE, selection),
        starvation=_rows(spark, store, STARVATION, selection),
        slot_us=store.slot_us,
        files=[_source_file(record) for record in records],
        findings=[*_findings(records, taken), *_dropped(store, selection)],
        watermarks=brokers,
        version=store.snapshot.version,
        asked_from_us=selection.start_us,
        asked_to_us=selection.end_us,
        broker=selection.broker,
        there=store.there,
        groups=_rows(spark, store, GROUPS, selection) if _files(store, GROUPS, selection) else None,
        hour_rows={ledger.hour_us: ledger.rows for ledger in ledgers},
    )


def _rows(spark: "SparkSession", store: Store, dataset: str, selection: Selection) -> "DataFrame":
    """The rows of a dataset in the hours that overlap the range; of the timeline the slots that start in it."""
    rows = stored_rows(spark, store.snapshot, dataset, _files(store, dataset, selection))
    if selection.broker is not None:
        rows = rows.where(F.col("broker") == selection.broker)
    if dataset == TIMELINE and selection.start_us is not None:
        rows = rows.where(F.col("slot") >= selection.start_us)
    if dataset == TIMELINE and selection.end_us is not None:
        rows = rows.where(F.col("slot") < selection.end_us)
    return rows


def _files(store: Store, dataset: str, selection: Selection) -> "list[StoredFile]":
    return store.snapshot.files(dataset, selection.start_us, selection.end_us)


def _is_asked(record: FileRecord, selection: Selection) -> bool:
    """Whether a skipped file is in the range; a misplaced file is in every range."""
    hour = hour_of(record.name)
    return hour is None or selection.has_hour(hour)


def _by_file(files: Iterable[FileRecord]) -> list[FileRecord]:
    """One record for each raw file, merged over its hours."""
    found: dict[str, FileRecord] = {}
    for record in files:
        known = found.get(record.name)
        if known is not None:
            record = replace(  # the same file in another hour
                record,
                rows_here=known.rows_here + record.rows_here,
                dropped=known.dropped + record.dropped,
                late=known.late or record.late,
                status=known.status if record.status == READ else record.status,
                why=known.why or record.why,
            )
        found[record.name] = record
    return [found[name] for name in sorted(found)]


def _source_file(record: FileRecord) -> SourceFile:
    # Without `late`: tables must not depend on the order in which files arrived.
    return SourceFile(record.name, record.status, record.why, record.rows, record.size)


def _dropped(store: Store, selection: Selection) -> list[Finding]:
    """Dropped hours of the range; an open end of it is that of the store."""
    hours = store.hours()
    first_us = hours[0] if selection.start_us is None and hours else selection.start_us or 0
    end_us = hours[-1] if selection.end_us is None and hours else selection.end_us or 0
    ranges = [(max(start, first_us), min(end, end_us)) for start, end in erased_of(store.snapshot).hours]
    there = [(start, end) for start, end in ranges if start < end]
    if not there:
        return []
    number = sum(end - start for start, end in there) // HOUR_US
    return [Finding("dropped_hours", number, f"{hour_name(there[0][0])}..{hour_name(there[0][1])}", _DROPPED)]


def _findings(records: Iterable[FileRecord], taken: Iterable[FileRecord]) -> list[Finding]:
    found = []
    for status, text in _EXPLANATIONS.items():
        those = [record for record in records if record.status == status]
        if those:
            rows = sum(record.dropped for record in those)
            found.append(Finding(f"{status}_rows", rows, those[0].name, text))
    if notes := off_clocks(taken):
        told = "; ".join(f"{note.name}: {note.why}" for note in notes[:3])
        found.append(Finding(CLOCK, len(notes), notes[0].name, _CLOCK.format(told)))
    return found
