"""From a store to what the measures work from: the rows of a selection, and what its ledgers say of the raw files."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from spark_jobs.compaction.state import DUPLICATE, OVERLAPPING, READ, FileRecord, Ledger, hour_name
from spark_jobs.compaction.store import Selection, Store
from spark_jobs.compaction.survey import hour_of
from spark_jobs.errors import ReportError
from spark_jobs.measures.frames import Finding, SourceFile, StoreFrames

_WORDS: Final = {
    DUPLICATE: "Rows of files whose rows of the hour are all in other files too; counted once.",
    OVERLAPPING: "Rows that are in another file too; counted once.",
}
_CLOCK: Final = "Brokers whose clock seems to be off, by when their files were written: {}."


def frames_of(store: Store, selection: Selection) -> StoreFrames:
    """Everything that the measures need of a selection.

    Raises:
        ReportError: it asks for a broker that the store does not know.
    """
    brokers = store.manifest.watermarks
    if selection.broker is not None and selection.broker not in brokers:
        there = ", ".join(sorted(brokers)) or "none"
        raise ReportError(f"broker {selection.broker}: {store.storage.shown} has no rows of it; it has: {there}")
    ledgers = store.ledgers(selection)
    records = [record for record in _by_file(ledgers) if _is_asked(record, selection)]
    return StoreFrames(
        sessions=store.sessions(selection),
        timeline=store.timeline(selection),
        starvation=store.starvation(selection),
        slot_us=store.manifest.slot_us,
        files=[_source_file(record) for record in records],
        findings=_findings(ledgers, records),
        watermarks=store.manifest.watermarks,
        asked_from_us=selection.start_us,
        asked_to_us=selection.end_us,
        broker=selection.broker,
        there=_there(store),
        hour_rows={ledger.hour_us: ledger.rows for ledger in ledgers if ledger.hour_us is not None},
    )


def _is_asked(record: FileRecord, selection: Selection) -> bool:
    """Whether a file that was skipped lies in the range; one that lies nowhere belongs to all."""
    hour = hour_of(record.name)
    return bool(record.rows_here) or hour is None or selection.has_hour(hour)


def _by_file(ledgers: Iterable[Ledger]) -> list[FileRecord]:
    """One record for each raw file, whose hours are put together."""
    found: dict[str, FileRecord] = {}
    for ledger in ledgers:
        for record in ledger.files:
            known = found.get(record.name)
            if known is not None:
                record = replace(  # the same file, with what its other hours have to say
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
    # Whether it came late is in the ledgers alone: tables do not depend on the order in which files came.
    return SourceFile(record.name, record.status, record.why, record.rows, record.size)


def _findings(ledgers: Iterable[Ledger], records: Iterable[FileRecord]) -> list[Finding]:
    found = []
    for status, words in _WORDS.items():
        those = [record for record in records if record.status == status]
        if those:
            rows = sum(record.dropped for record in those)
            found.append(Finding(f"{status}_rows", rows, those[0].name, words))
    notes = {(note.kind, note.name): note for ledger in ledgers for note in ledger.notes}
    for kind in sorted({kind for kind, _ in notes}):
        those_notes = [note for (of, _), note in sorted(notes.items()) if of == kind]
        told = "; ".join(f"{note.name}: {note.why}" for note in those_notes[:3])
        found.append(Finding(kind, len(those_notes), those_notes[0].name, _CLOCK.format(told)))
    return found


def _there(store: Store) -> str:
    """What hours there are, for the message that there is nothing in the range."""
    hours = store.hours()
    if not hours:
        return f"{store.storage.shown} is empty."
    return f"{store.storage.shown} holds {hour_name(hours[0])} to {hour_name(hours[-1])} (UTC)."
