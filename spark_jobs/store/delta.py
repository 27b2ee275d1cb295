"""The Delta tables of a store: read as one state, and written in one commit.

`sessions` is written last. Its commit names the version of every other table (in Delta's transaction identifiers, one
for each table), so whoever opens the newest version of `sessions`, and the others as it names them, sees one state.
What a run that was ended has left in another table is not named, and the next commit restores that table first.

A commit is for the version that its run began with: if another run has committed meanwhile, it fails with ConflictError
and changes nothing that a reader sees. So no lock is needed, and a run that was paused cannot overwrite newer hours.
"""

import json
import re
import time
import uuid
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from spark_jobs.errors import ReportError
from spark_jobs.storage import Storage, StorageError
from spark_jobs.storage.local import LocalStorage
from spark_jobs.storage.storage import reason_of
from spark_jobs.store.comments import TABLES, comments
from spark_jobs.store.schema import DATASETS, HOUR_US, PARTITIONS, SESSIONS, stored_schema
from spark_jobs.store.taken import (
    BROKERS_SCHEMA,
    ERASED_SCHEMA,
    FILES_SCHEMA,
    SKIPPED_SCHEMA,
    hour_name,
    hour_of_partition,
    partition_of,
)

FILES: Final = "files"
SKIPPED: Final = "skipped"
BROKERS: Final = "brokers"
ERASED: Final = "erased"
SCHEMAS: Final = {
    **{name: stored_schema(name) for name in DATASETS},
    FILES: FILES_SCHEMA,
    SKIPPED: SKIPPED_SCHEMA,
    BROKERS: BROKERS_SCHEMA,
    ERASED: ERASED_SCHEMA,
}
OTHERS: Final = tuple(name for name in SCHEMAS if name != SESSIONS)
KEPT_HOURS: Final = 24
"""How long replaced files are kept for reports that read them."""

_COMMITS: Final = "sluice"  # transaction identifier: number of commits
_VACUUMED: Final = "vacuumed"  # the same: when replaced files were last removed, in seconds since 1970
_SLOT: Final = "sluice.slot_us"
_CHECKPOINT: Final = "delta.checkpointInterval"
_TEMPORARY: Final = "_temporary"  # Spark's, in the folder that it writes to
_COMMITS_APART: Final = 10
"""Commits between two checkpoints. To open a table, deltalake reads each commit since the last checkpoint in a thread
of its own: with fewer checkpoints memory grows with each compacted hour."""
_PATH: Final = re.compile(r"(?:[0-9a-f]{32}/)?(?:date=(?P<date>\d{4}-\d\d-\d\d)/hour=(?P<hour>\d\d?)/)?[^/]+\.parquet$")


class ConflictError(Exception):
    """Another run has changed the store since this one read it."""


@dataclass(frozen=True)
class StoredFile:
    """A file of a table: its path below the table's folder, and its hour's start; None if the table has no hours."""

    path: str
    hour_us: int | None


@dataclass
class Change:
    """New and removed files of one table."""

    added: list[AddAction] = field(default_factory=list)
    removed: list[StoredFile] = field(default_factory=list)


@dataclass(frozen=True)
class Snapshot:
    """One state of a store; later commits do not change it.

    Attributes:
        storage: the store's folder.
        tables: name -> table at its version.
    """

    storage: Storage
    tables: Mapping[str, DeltaTable]

    @property
    def version(self) -> int:
        """The version of `sessions`."""
        return self.tables[SESSIONS].version()

    @property
    def slot_us(self) -> int:
        """The length of a slot of the timeline."""
        return int(self.tables[SESSIONS].metadata().configuration[_SLOT])

    def files(self, name: str, start_us: int | None = None, end_us: int | None = None) -> list[StoredFile]:
        """The files of a table, for [start, end) of its hours; None: open."""
        table = self.tables[name]
        asked = []
        if start_us is not None:
            asked.append(f"date >= '{hour_name(start_us)[:10]}'")
        if end_us is not None:
            asked.append(f"date <= '{hour_name(max(0, end_us - 1))[:10]}'")
        with _delta_errors(self.storage):
            uris = table.file_uris(file_pruning_predicate=" AND ".join(asked)) if asked else table.file_uris()
        found = sorted((stored_file(uri) for uri in uris), key=lambda file: (file.hour_us or 0, file.path))
        return [file for file in found if file.hour_us is None or _within(file.hour_us, start_us, end_us)]

    def arrow(self, name: str) -> pa.Table:
        """The rows of a table without hours (SKIPPED, BROKERS, ERASED)."""
        parts = [self.read(name, file) for file in self.files(name)]
        return pa.concat_tables([SCHEMAS[name].empty_table(), *parts])

    def by_hour(
        self, name: str, start_us: int | None = None, end_us: int | None = None, hours: Container[int] | None = None
    ) -> Iterator[tuple[int, pa.Table]]:
        """The start of an hour and its rows, without partition columns; an hour may come several times.

        Args:
            name: a table with hours.
            start_us, end_us: range of the hours; None: open.
            hours: their starts; None: all of the range.
        """
        for file in self.files(name, start_us, end_us):
            assert file.hour_us is not None
            if hours is None or file.hour_us in hours:
                yield file.hour_us, self.read(name, file)

    def read(self, name: str, file: StoredFile, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a file of a table, without partition columns."""
        with self.storage.open(f"{name}/{file.path}") as source:
            return pq.ParquetFile(source).read(columns)


def open_snapshot(storage: Storage, version: int | None = None) -> Snapshot | None:
    """A state of a store: the newest one, or that of a version of `sessions`; None if there is no store.

    Raises:
        StorageError: the store cannot be read, has other columns, or does not have this version.
    """
    with _delta_errors(storage):
        try:
            return _opened(storage, version)
        except DeltaError:  # entries of the log may have been removed meanwhile, see `store.sweep`
            return _opened(storage, version)


def _opened(storage: Storage, version: int | None) -> Snapshot | None:
    if not DeltaTable.is_deltatable(_uri(storage, SESSIONS)):
        return None
    sessions = DeltaTable(_uri(storage, SESSIONS))
    if version is not None and version != (newest := sessions.version()):
        if version > newest:
            raise StorageError(f"{storage.shown}: has no version {version}; its newest one is {newest}")
        try:
            sessions.load_as_version(version)
        except TableNotFoundError:
            told = f"no longer has version {version}: --forget removes all earlier ones; its newest one is {newest}"
            raise StorageError(f"{storage.shown}: {told}") from None
    _require_own(storage, SESSIONS, sessions)
    for name in OTHERS:
        if not storage.exists(f"{name}/_delta_log"):
            raise StorageError(f"{storage.shown}: has no table {name}, as this version has; compact into a new folder")
    others = {name: DeltaTable(_uri(storage, name), version=sessions.transaction_version(name) or 0) for name in OTHERS}
    for name, table in others.items():
        _require_own(storage, name, table)
    return Snapshot(storage, {SESSIONS: sessions, **others})


def create(storage: Storage, slot_us: int) -> Snapshot:
    """Create the tables of a new store; those that exist are kept.

    Raises:
        StorageError: they cannot be written, or one of them is of another program or has other columns.
    """
    with _delta_errors(storage):
        for name in SCHEMAS:
            if DeltaTable.is_deltatable(uri := _uri(storage, name)):
                _require_own(storage, name, DeltaTable(uri))
    configuration = {
        _SLOT: str(slot_us),
        "delta.deletedFileRetentionDuration": f"interval {KEPT_HOURS} hours",
        _CHECKPOINT: str(_COMMITS_APART),
    }
    for name in (*OTHERS, SESSIONS):
        if isinstance(storage, LocalStorage):
            storage.make_folder(name)
        uri = _uri(storage, name)
        with _delta_errors(storage):
            try:
                DeltaTable.create(
                    uri,
                    _commented(name),
                    mode="ignore",
                    description=TABLES[name],
                    partition_by=_partitions(name),
                    configuration=configuration,
                    raise_if_key_not_exists=False,
                    commit_properties=CommitProperties(max_commit_retries=0),
                )
            except DeltaError:
                if not DeltaTable.is_deltatable(uri):  # else another run was the first
                    raise
    snapshot = open_snapshot(storage)
    assert snapshot is not None
    return snapshot


def commit(snapshot: Snapshot, changes: Mapping[str, Change]) -> Snapshot:
    """Change the tables; returns the new state.

    Raises:
        ConflictError: the store has changed since the snapshot; nothing that a reader sees was changed.
        StorageError: the store cannot be written.
    """
    storage, sessions = snapshot.storage, snapshot.tables[SESSIONS]
    now = int(time.time())
    with _delta_errors(storage):
        if DeltaTable(_uri(storage, SESSIONS)).version() != sessions.version():
            raise ConflictError
        before = sessions.transaction_version(_VACUUMED) or 0
        due = before == 0 or now - before >= KEPT_HOURS * 3600
        named = [Transaction(_VACUUMED, now if due else before)]
        for name in OTHERS:
            version = _write(_settled(snapshot, name), name, changes.get(name, Change()), ())
            named.append(Transaction(name, version))
        _write(sessions, SESSIONS, changes.get(SESSIONS, Change()), named)
        if due and before:
            for name in SCHEMAS:
                DeltaTable(_uri(storage, name)).vacuum(dry_run=False, full=True)
                _remove_unfinished(storage, name, (now - KEPT_HOURS * 3600) * 1_000_000)
    found = open_snapshot(storage)
    assert found is not None
    return found


def _remove_unfinished(storage: Storage, name: str, before_us: int) -> None:
    """Remove what tasks of Spark that were killed have left: vacuum passes over names with an underscore."""
    for entry in storage.files(name):
        if f"/{_TEMPORARY}/" in entry.name and entry.modified_us <= before_us:
            storage.remove(entry.name)


def new_folder() -> str:
    """The name of a folder for the new files of a run, below the table's."""
    return uuid.uuid4().hex


def added(path: str, size: int, hour_us: int | None, statistics: Mapping[str, Any]) -> AddAction:
    """The entry for a new file; its statistics are those of Delta."""
    values = partition_of(hour_us) if hour_us is not None else {}
    return AddAction(path, size, values, int(time.time() * 1000), True, json.dumps(statistics))


def add_rows(storage: Storage, name: str, rows: pa.Table, hour_us: int | None = None) -> AddAction:
    """Write rows as one file of a table, of one hour if the table has hours."""
    data = BytesIO()
    pq.write_table(rows, data, compression="zstd")
    values = partition_of(hour_us) if hour_us is not None else {}
    path = "/".join([new_folder(), *[f"{key}={value}" for key, value in values.items()], "rows.parquet"])
    storage.write(f"{name}/{path}", data.getvalue())
    return added(path, len(data.getvalue()), hour_us, {"numRecords": rows.num_rows})


def replaced(snapshot: Snapshot, name: str, rows: pa.Table) -> Change:
    """Other rows of a table without hours."""
    return Change([add_rows(snapshot.storage, name, rows)], snapshot.files(name))


def _settled(snapshot: Snapshot, name: str) -> DeltaTable:
    """The newest version of a table, with the content that the snapshot has."""
    wanted, uri = snapshot.tables[name], _uri(snapshot.storage, name)
    if not snapshot.storage.exists(f"{name}/_delta_log/{wanted.version() + 1:020}.json"):
        return wanted  # opening it again would read its log again
    newest = DeltaTable(uri)
    if newest.version() == wanted.version() or set(newest.file_uris()) == set(wanted.file_uris()):
        return newest
    restored = newest.version() + 1
    newest.restore(wanted.version(), commit_properties=_properties(newest))
    return DeltaTable(uri, version=restored)


def _write(table: DeltaTable, name: str, change: Change, named: Iterable[Transaction]) -> int:
    """Commit a change as the version after this table's; returns the table's version then."""
    named = list(named)
    if not change.added and not change.removed and not named:
        return table.version()
    written = table.version() + 1
    removed = [RemoveAction(file.path, True, int(time.time() * 1000)) for file in change.removed]
    table.create_write_transaction(
        [*change.added, *removed],
        "append",
        table.schema(),
        _partitions(name),
        commit_properties=_properties(table, named),
    )
    return written


def _properties(table: DeltaTable, named: Iterable[Transaction] = ()) -> CommitProperties:
    """Of a commit that fails if there is another one before it."""
    number = (table.transaction_version(_COMMITS) or 0) + 1
    return CommitProperties(max_commit_retries=0, app_transactions=[Transaction(_COMMITS, number), *named])


def _require_own(storage: Storage, name: str, table: DeltaTable) -> None:
    """Raise StorageError for a table that `create` has not made, or has made with other columns."""
    if _SLOT not in table.metadata().configuration:
        raise StorageError(f"{storage.shown}: {name} is a Delta table, but not one of Sluice; use a new folder")
    if _columns(table.schema()) != _columns(DeltaSchema.from_arrow(SCHEMAS[name])):
        expected = "those of this version of Sluice; compact into a new folder"
        raise StorageError(f"{storage.shown}: the columns of {name} are not {expected}")


def _columns(schema: DeltaSchema) -> list[tuple[str, Any]]:
    """Without comments: those of another version may differ."""
    return [(field.name, field.type) for field in schema.fields]


def _commented(name: str) -> pa.Schema:
    texts = comments(name)
    return pa.schema([field.with_metadata({"comment": texts[field.name]}) for field in SCHEMAS[name]])


def _partitions(name: str) -> list[str]:
    return [column for column in PARTITIONS if column in SCHEMAS[name].names]


def _uri(storage: Storage, name: str) -> str:
    """The URI of a table for Delta: a plain path for a local folder."""
    uri = str(storage.path(name)) if isinstance(storage, LocalStorage) else storage.uri_of(name)
    if "%" in uri:
        raise StorageError(f"{storage.shown}: Delta tables cannot be in a folder with % in its path; use another one")
    return uri


def stored_file(uri: str) -> StoredFile:
    """The file of a table with this URI, or path below the table's folder."""
    match = _PATH.search(uri)
    if match is None:
        raise ReportError(f"{uri}: is not a file of a store")
    return StoredFile(match[0], hour_of_partition(match.groupdict()) if match["date"] else None)


def _within(hour_us: int, start_us: int | None, end_us: int | None) -> bool:
    return (start_us is None or hour_us + HOUR_US > start_us) and (end_us is None or hour_us < end_us)


@contextmanager
def _delta_errors(storage: Storage) -> Iterator[None]:
    try:
        yield
    except CommitFailedError as error:
        raise ConflictError from error
    except (DeltaError, OSError) as error:
        raise StorageError(f"{storage.shown}: {reason_of(error)}") from error
