"""Erases hours or a client from a store, in one commit, and removes their files."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow.compute as pc

from spark_jobs.compaction.attempts import until_committed
from spark_jobs.compaction.survey import hour_of
from spark_jobs.errors import ReportError
from spark_jobs.formats import counted, span
from spark_jobs.progress import Progress
from spark_jobs.storage import open_storage
from spark_jobs.store.delta import ERASED, FILES, SKIPPED, Change, Snapshot, add_rows, commit, open_snapshot, replaced
from spark_jobs.store.erased import NOTHING, erased_of
from spark_jobs.store.schema import HOUR_US, SESSIONS
from spark_jobs.store.store import Store, open_store
from spark_jobs.store.sweep import OF_CLIENTS, OF_HOURS, shorten, sweep
from spark_jobs.store.taken import FileRecord, records_table


@dataclass(frozen=True)
class Removed:
    """What was erased: hours that are gone or of which rows are, rows of sessions if they are a client's, and bytes."""

    hours: int
    bytes: int
    rows: int = 0
    client: str | None = None

    def summary(self, store: str) -> str:
        """The result in one line."""
        if self.client is None:
            return f"{store}: {self}"
        return (
            f"{store}: client {self.client} forgotten, {counted(self.rows, 'row')} of {counted(self.hours, 'hour')}. "
            "No compaction takes in its rows up to now again. Metrics files still have them until the broker's "
            "metrics.keep deletes these, and so do reports that were made"
        )

    def __str__(self) -> str:
        return f"{counted(self.hours, 'hour')} dropped, {self.bytes:,} bytes of files removed"


def keep(uri: str, from_us: int, progress: Progress) -> Removed:
    """Drop the hours before this one.

    Raises:
        ReportError: these are all hours; or the store cannot be used.
    """
    snapshot = open_snapshot(open_storage(uri))
    hours = Store(snapshot).hours() if snapshot is not None else []
    if hours and hours[-1] < from_us:
        raise ReportError(
            f"--keep: {uri} has only older hours, {span(hours[0], hours[-1] + HOUR_US)}, and none was dropped: is the "
            "clock right? --drop with --from and --to drops them"
        )
    if not hours or hours[0] >= from_us:
        return Removed(0, 0)
    return drop(uri, hours[0], from_us, progress)


def drop(uri: str, start_us: int, end_us: int, progress: Progress) -> Removed:
    """Drop the hours of [start, end) from all tables.

    Raises:
        ReportError: the store has none of these hours, nor had them; or it cannot be used.
    """
    return until_committed(lambda: _drop(open_store(uri), start_us, end_us), open_storage(uri), progress)


def _drop(store: Store, start_us: int, end_us: int) -> Removed:
    snapshot, erased = store.snapshot, erased_of(store.snapshot)
    dropped = [hour for hour in store.hours() if start_us <= hour < end_us]
    if dropped:
        # Not the whole range, which may be open to the future: its hours are taken in when they come.
        erased = erased.with_hours(dropped[0], dropped[-1] + HOUR_US)
        changes = {name: Change(removed=snapshot.files(name, dropped[0], dropped[-1] + HOUR_US)) for name in OF_HOURS}
        skipped = [file for file in store.skipped() if not erased.has(hour_of(file.name) or 0)]
        changes[SKIPPED] = replaced(snapshot, SKIPPED, records_table(skipped))
        changes[ERASED] = replaced(snapshot, ERASED, erased.table())
        snapshot = commit(snapshot, changes)
    elif not any(start < end_us and end > start_us for start, end in erased.hours):
        raise ReportError(f"--drop: no hours in the range {span(start_us, end_us)}; {store.there}")
    asked = NOTHING.with_hours(start_us, end_us)
    return Removed(len(dropped), sweep(snapshot, OF_HOURS, asked))


def forget(uri: str, client: str, progress: Progress) -> Removed:
    """Erase a client from all tables and all versions.

    Raises:
        ReportError: the store has no such client, nor had it; or it cannot be used.
    """
    return until_committed(lambda: _forget(open_store(uri), client, progress), open_storage(uri), progress)


def _forget(store: Store, client: str, progress: Progress) -> Removed:
    snapshot, erased = store.snapshot, erased_of(store.snapshot)
    changes: dict[str, Change] = {}
    rows: Counter[int] = Counter()
    with progress.stage(f"searching {', '.join(OF_CLIENTS)} in {store.storage.shown}"):
        for name in OF_CLIENTS:
            changes[name], found = _without(snapshot, name, client)
            if name == SESSIONS:
                rows = found
    if any(change.removed for change in changes.values()):
        last_us = max([int(time.time() * 1_000_000), *(hour + HOUR_US for hour in store.hours())])
        changes[ERASED] = replaced(snapshot, ERASED, erased.with_client(client, last_us).table())
        changes[FILES] = _ledgers(store, rows)
        snapshot = commit(snapshot, changes)
    elif erased.digest(client) not in erased.clients:
        raise ReportError(f"--forget {client}: {store.storage.shown} has no session of this client")
    freed = sweep(snapshot, OF_CLIENTS)
    shorten(snapshot, OF_CLIENTS)
    return Removed(len(rows), freed, rows.total(), client)


def _without(snapshot: Snapshot, name: str, client: str) -> tuple[Change, Counter[int]]:
    """A table without a client; hour -> raw rows of it."""
    change, found = Change(), Counter[int]()
    for file in snapshot.files(name):
        own = pc.equal(snapshot.read(name, file, ["client_id"])["client_id"], client)
        if not pc.any(own).as_py():
            continue
        rows = snapshot.read(name, file)
        change.removed.append(file)
        if (others := rows.filter(pc.invert(own))).num_rows:
            change.added.append(add_rows(snapshot.storage, name, others, file.hour_us))
        if name == SESSIONS:
            found[file.hour_us or 0] += pc.sum(rows.filter(own)["rows"]).as_py()
    return change, found


def _ledgers(store: Store, rows: Counter[int]) -> Change:
    """The table of raw files with fewer rows of some hours."""
    change = Change()
    for ledger in store.ledgers():
        if less := rows[ledger.hour_us]:
            records = records_table(_with_fewer(ledger.files, less))
            change.added.append(add_rows(store.storage, FILES, records, ledger.hour_us))
            change.removed += store.snapshot.files(FILES, ledger.hour_us, ledger.hour_us + 1)
    return change


def _with_fewer(files: Sequence[FileRecord], rows: int) -> list[FileRecord]:
    """Records with so many rows fewer. Which files had them is not known, so as many as possible keep one."""
    for least in (1, 0):
        fewer = []
        for file in files:
            taken = min(rows, max(0, file.rows_here - file.dropped - least))
            fewer.append(replace(file, rows_here=file.rows_here - taken))
            rows -= taken
        files = fewer
    return list(files)
