"""The tables of a store, without Spark: one state for readers, fenced commits, and the remains of runs that ended."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_jobs.errors import ReportError
from spark_jobs.storage import StorageError
from spark_jobs.storage.local import LocalStorage
from spark_jobs.storage.storage import reason_of
from spark_jobs.store import delta
from spark_jobs.store.delta import BROKERS, FILES, SKIPPED, Change, ConflictError, Snapshot
from spark_jobs.store.schema import DATASETS, HOUR_US, SESSIONS, TIMELINE, stored_schema
from spark_jobs.store.taken import FileRecord, records_of, records_table, watermarks_of, watermarks_table
from tests.support.spark.store_page import PAGE, page

START: Final = 480_000 * HOUR_US
SLOT: Final = 60_000_000


def rows(dataset: str, **values: object) -> pa.Table:
    """One row of a dataset, as stored: the given values, and null elsewhere."""
    schema = stored_schema(dataset)
    wanted = pa.schema([field for field in schema if field.name not in ("date", "hour")])
    return pa.Table.from_pylist([values], schema=wanted)


def change(snapshot: Snapshot, client: str, hour: int = 0) -> dict[str, Change]:
    """Replace an hour: one session, and one slot of the broker with the session's name."""
    start = START + hour * HOUR_US
    made = {SESSIONS: rows(SESSIONS, client_id=client), TIMELINE: rows(TIMELINE, broker=client)}
    return {
        name: Change(
            [delta.add_rows(snapshot.storage, name, table, start)], snapshot.files(name, start, start + HOUR_US)
        )
        for name, table in made.items()
    }


def seen(snapshot: Snapshot) -> tuple[list[str], list[str]]:
    """The sessions, and the brokers of the slots."""
    sessions = [table["client_id"][0].as_py() for _, table in snapshot.by_hour(SESSIONS, None, None)]
    slots = [table["broker"][0].as_py() for _, table in snapshot.by_hour(TIMELINE, None, None)]
    return sorted(sessions), sorted(slots)


def opened(storage: LocalStorage) -> Snapshot:
    """The newest state."""
    snapshot = delta.open_snapshot(storage)
    assert snapshot is not None
    return snapshot


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    """An empty folder whose name has characters that URIs escape."""
    return LocalStorage(tmp_path / "a store {x} [1] *? #")


@pytest.fixture
def store(storage: LocalStorage) -> Snapshot:
    """A store with one hour."""
    empty = delta.create(storage, SLOT)
    return delta.commit(empty, change(empty, "a"))


def test_a_commit_replaces_hours_in_all_tables(storage: LocalStorage, store: Snapshot) -> None:
    """The new state has the new hours; a state that was opened before keeps its own."""
    later = delta.commit(store, change(store, "b"))
    both = delta.commit(later, change(later, "c", hour=30))
    assert seen(both) == seen(opened(storage)) == (["b", "c"], ["b", "c"])
    assert seen(store) == (["a"], ["a"])
    assert [file.hour_us for file in both.files(SESSIONS, START + HOUR_US)] == [START + 30 * HOUR_US]
    assert [file.hour_us for file in both.files(SESSIONS, end_us=START + 1)] == [START]
    assert both.slot_us == SLOT


def test_tables_say_what_their_columns_mean(storage: LocalStorage, store: Snapshot) -> None:
    """Delta has a description of each table, and a comment for each column of rows."""
    for name, table in opened(storage).tables.items():
        assert table.metadata().description
        for column in table.schema().fields if name in DATASETS else ():
            assert column.metadata["comment"]


def test_the_page_of_the_tables_is_current() -> None:
    """STORE.md has what the schema says; `python -m tests.support.spark.store_page` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_the_second_of_two_commits_fails(storage: LocalStorage, store: Snapshot) -> None:
    """A run that commits after another one, or continues after it, changes nothing."""
    other = opened(storage)
    delta.commit(store, change(store, "b"))
    for _ in range(2):
        with pytest.raises(ConflictError):
            delta.commit(other, change(other, "c"))
    assert seen(opened(storage)) == (["b"], ["b"])


def test_a_run_that_ends_within_its_commit_leaves_nothing(storage: LocalStorage, store: Snapshot) -> None:
    """Readers see the old state, and the next commit undoes what the run that ended has left."""
    lost = change(store, "lost")
    delta._write(delta._settled(store, TIMELINE), TIMELINE, lost[TIMELINE], ())  # ended before `sessions`
    assert seen(opened(storage)) == (["a"], ["a"])
    after = delta.commit(opened(storage), change(opened(storage), "c", hour=1))
    assert seen(after) == (["a", "c"], ["a", "c"])
    newest = DeltaTable(str(storage.path(TIMELINE)))
    assert len(newest.file_uris()) == 2


def test_of_many_runs_at_once_every_commit_counts(storage: LocalStorage, store: Snapshot) -> None:
    """Runs that start again after a conflict all add their hours, and every state in between is complete."""
    wrong: list[object] = []

    def run(number: int) -> None:
        while True:
            snapshot = opened(storage)
            sessions, slots = seen(snapshot)
            if sessions != slots:
                wrong.append((sessions, slots))
            try:
                delta.commit(snapshot, change(snapshot, f"r{number}", hour=number))
                return
            except ConflictError:
                pass

    threads = [threading.Thread(target=run, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert seen(opened(storage)) == (["a", "r1", "r2", "r3", "r4"],) * 2


def test_of_many_runs_that_create_a_store_all_have_it(storage: LocalStorage) -> None:
    """All runs but the first use the store that the first has created."""
    with ThreadPoolExecutor(6) as pool:
        snapshots = list(pool.map(lambda _: delta.create(storage, SLOT), range(6)))
    assert [(snapshot.version, snapshot.slot_us) for snapshot in snapshots] == [(0, SLOT)] * 6


def test_replaced_files_are_removed_after_a_day(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A report that has begun can finish; after a day the replaced files are removed, and those of runs that ended."""
    monkeypatch.setattr(delta, "KEPT_HOURS", 0)
    empty = delta.create(storage, SLOT)
    store = delta.commit(empty, change(empty, "a"))
    with monkeypatch.context() as kept:
        kept.setattr(delta, "KEPT_HOURS", 24)
        later = delta.commit(store, change(store, "b"))
        lost = change(later, "lost")[SESSIONS].added[0].path
        unfinished = storage.path(f"{SESSIONS}/{delta.new_folder()}/_temporary/0/part.parquet")
        unfinished.parent.mkdir(parents=True)
        unfinished.touch()
        assert seen(store) == (["a"], ["a"])
    after = delta.commit(later, change(later, "c", hour=1))
    assert not storage.path(f"{SESSIONS}/{store.files(SESSIONS)[0].path}").exists()
    assert not storage.path(f"{SESSIONS}/{lost}").exists()
    assert not unfinished.exists()
    assert seen(after) == (["b", "c"], ["b", "c"])
    assert seen(delta.commit(after, change(after, "d", hour=2))) == (["b", "c", "d"],) * 2


def test_a_table_is_opened_by_its_last_checkpoint(storage: LocalStorage) -> None:
    """Opening reads few commits, however many there are, and has all hours."""
    store = delta.create(storage, SLOT)
    hours = delta._COMMITS_APART + 2
    for hour in range(hours):
        store = delta.commit(store, change(store, f"{hour:02}", hour))
    names = [f"{hour:02}" for hour in range(hours)]
    for name in (SESSIONS, TIMELINE):
        log = storage.path(f"{name}/_delta_log")
        (checkpoint,) = log.glob("*.checkpoint.parquet")
        for entry in log.glob("*.json"):
            if int(entry.stem) < int(checkpoint.name.partition(".")[0]):
                entry.unlink()  # whatever reads it fails
    assert seen(opened(storage)) == seen(store) == (names, names)
    again = delta.commit(opened(storage), change(opened(storage), "more", hours))
    assert seen(again) == ([*names, "more"], [*names, "more"])


@pytest.mark.parametrize("name", [SESSIONS, BROKERS])
def test_a_store_with_other_columns_is_refused(
    storage: LocalStorage, store: Snapshot, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A report and an update say which table it is, and what to do; the store is unchanged."""
    monkeypatch.setitem(delta.SCHEMAS, name, delta.SCHEMAS[name].append(pa.field("new_counter", pa.int64())))
    message = f"the columns of {name} are not those of this version of Sluice; compact into a new folder"
    with pytest.raises(ReportError, match=message):
        delta.open_snapshot(storage)
    with pytest.raises(ReportError, match=message):
        delta.create(storage, SLOT)
    monkeypatch.undo()
    assert seen(opened(storage)) == (["a"], ["a"])
    assert opened(storage).version == store.version


def test_a_store_without_a_table_is_refused(storage: LocalStorage, store: Snapshot) -> None:
    """One that an earlier version has made."""
    storage.remove(delta.ERASED)
    with pytest.raises(ReportError, match="has no table erased, as this version has; compact into a new folder"):
        delta.open_snapshot(storage)


def test_files_and_watermarks_are_kept(storage: LocalStorage, store: Snapshot) -> None:
    """Records of files by hour, skipped files, and the brokers' last times are read as they were written."""
    record = FileRecord("x,\n", 9, 5, "read", "“so”", 3, 2, 1, START, START + 7, True, ("b1", "b2"))
    skipped = FileRecord("y", 0, 7, "empty", "is zero bytes long")
    after = delta.commit(
        store,
        {
            FILES: Change([delta.add_rows(storage, FILES, records_table([record]), START)]),
            SKIPPED: Change([delta.add_rows(storage, SKIPPED, records_table([skipped]))]),
            BROKERS: Change([delta.add_rows(storage, BROKERS, watermarks_table({"b": 5, "a": 7}))]),
        },
    )
    [(hour_us, files)] = after.by_hour(FILES, None, None)
    assert (hour_us, records_of(files)) == (START, [record])
    assert records_of(after.arrow(SKIPPED)) == [skipped]
    assert watermarks_of(after.arrow(BROKERS)) == {"a": 7, "b": 5}
    unreadable = replace(skipped, name="z\udcff")
    assert records_of(records_table([unreadable]))[0].name == "z\\udcff"


def test_duckdb_and_polars_read_the_store(tmp_path: Path) -> None:
    """Readers of Delta tables get the newest state, with date and hour, without replaced rows."""
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    empty = delta.create(LocalStorage(tmp_path), SLOT)
    store = delta.commit(empty, change(empty, "a"))
    delta.commit(store, change(store, "b"))
    expected = [("b", START // HOUR_US % 24)]
    table = str(tmp_path / SESSIONS)
    assert polars.scan_delta(table).select("client_id", "hour").collect().rows() == expected
    sessions = DeltaTable(table).to_pyarrow_dataset()
    assert duckdb.sql("SELECT client_id, hour FROM sessions").fetchall() == expected
    assert sessions.count_rows() == 1


def test_what_cannot_be_a_store_is_named(tmp_path: Path) -> None:
    """Another program's Delta table, and a folder that cannot have a Delta table, are refused by name."""
    DeltaTable.create(str(tmp_path / SESSIONS), pa.schema([("a", pa.int64())]))
    with pytest.raises(StorageError, match="is a Delta table, but not one of Sluice"):
        delta.open_snapshot(LocalStorage(tmp_path))
    with pytest.raises(ReportError, match="cannot be in a folder with % in its path"):
        delta.open_snapshot(LocalStorage(tmp_path / "%41"))


def test_tables_of_another_program_are_not_joined(tmp_path: Path) -> None:
    """A folder in which another table has the name of one of ours is refused before anything is made in it."""
    DeltaTable.create(str(tmp_path / FILES), pa.schema([("a", pa.int64())]))
    with pytest.raises(StorageError, match="files is a Delta table, but not one of Sluice; use a new folder"):
        delta.create(LocalStorage(tmp_path), SLOT)
    assert [path.name for path in tmp_path.iterdir()] == [FILES]


def test_the_reason_of_an_error_is_told() -> None:
    """The message of deltalake has what failed in its first line, and why in the next ones."""
    arrow = "\n  \x1b[31m↳\x1b[0m "
    error = OSError(f"Generic LocalFileSystem error{arrow}Unable to write{arrow}No space left on device\nat x")
    assert reason_of(error) == "Generic LocalFileSystem error: Unable to write: No space left on device"
