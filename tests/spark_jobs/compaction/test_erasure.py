"""Hours and clients that are erased from a store: they leave the disk, and no compaction brings them back."""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq
import pytest

from spark_jobs import sources
from spark_jobs.compaction import erasure
from spark_jobs.compaction.attempts import until_committed
from spark_jobs.compaction.check import require_sound
from spark_jobs.errors import ReportError
from spark_jobs.measures.measure import lost
from spark_jobs.measures.sums import by_hour, sums_of
from spark_jobs.progress import Progress
from spark_jobs.storage import open_storage, opening
from spark_jobs.storage.local import LocalStorage
from spark_jobs.store import delta
from spark_jobs.store.schema import HOUR_US
from spark_jobs.store.store import Selection, open_store
from spark_jobs.store.sweep import sweep
from tests.support.spark.compacted import collected
from tests.support.spark.compacting import HOUR, NEXT, Run, minutes, rows_of, tables
from tests.support.spark.erasing import HOURS, OTHER, SECRET, Stored, write_raw
from tests.support.spark.metrics_files import NOON, at, folder_of, row, write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.once

START: Final = int(NOON.timestamp()) * 1_000_000
QUIET: Final = Progress(quiet=True)


def without(run: Run, folder: Path, hours: Mapping[int, str], *clients: str) -> Mapping[str, list[str]]:
    """The tables of a store that never had other hours and clients."""
    write_raw(folder / "less", hours, *clients)
    run(folder / "less", folder / "less-store")
    return tables(folder / "less-store")


def size_of(store: Path) -> int:
    """The bytes of all files of a store."""
    return sum(path.stat().st_size for path in store.rglob("*") if path.is_file())


def mentions(store: Path, text: str) -> list[str]:
    """The files of a store, logs included, that have a text in their name, their content or their statistics."""

    def content(path: Path) -> str:
        if path.suffix != ".parquet":
            return path.read_text()
        return f"{pq.read_metadata(path)} {pq.ParquetFile(path).read().to_pylist()}"

    return [str(path) for path in store.rglob("*") if path.is_file() and text in f"{path} {content(path)}"]


def faults(spark: "SparkSession", store: Path, selection: Selection) -> dict[str, int]:
    """What a report would say about the input of a range."""
    frames = sources.frames_of(lambda _rows: spark, open_store(str(store)), selection)
    found = [*frames.findings, *lost(frames, sums_of(collected(by_hour(frames.sessions))), QUIET)]
    return {finding.kind: finding.count for finding in found}


def forget(store: Path, client: str = SECRET) -> erasure.Removed:
    """Forget a client."""
    return erasure.forget(str(store), client, QUIET)


def drop(store: Path, first: int, end: int) -> erasure.Removed:
    """Drop hours by their numbers."""
    return erasure.drop(str(store), START + first * HOUR_US, START + end * HOUR_US, QUIET)


def test_hours_that_are_not_kept_leave_the_disk(run: Run, stored: Stored, tmp_path: Path) -> None:
    """The store is smaller, and like one that never had them; nothing is left of their folders."""
    raw, store = stored
    before = size_of(store)
    done = run(raw, store, keep_from_us=START + 2 * HOUR_US, idle=True)
    assert done.removed is not None
    assert done.removed.hours == 2
    assert tables(store) == without(run, tmp_path, {2: HOURS[2]}, OTHER, SECRET)
    freed = before - size_of(store)
    assert done.removed.bytes > freed > 0
    assert done.summary("S").endswith(f"; 2 hours dropped, {done.removed.bytes:,} bytes of files removed")
    assert not [path for path in store.rglob("hour=*") if path.name != "hour=14"]
    assert not [path for path in store.rglob("*") if path.is_dir() and not any(path.iterdir())]
    assert run(raw, store, keep_from_us=START + 2 * HOUR_US, idle=True).removed == erasure.Removed(0, 0)


def test_dropped_hours_come_back_only_if_a_rebuild_names_them(run: Run, stored: Stored) -> None:
    """Neither the same files, a late one, nor a rebuild of everything brings them back; hours beside them are built."""
    raw, store = stored
    whole = tables(store)
    assert drop(store, 0, 1).hours == 1
    less = tables(store)
    assert run(raw, store, idle=True).hours == 0
    write_file(raw / HOUR / "later.parquet", minutes(20))
    assert run(raw, store, idle=True).hours == 0
    assert run(raw, store, rebuild=True).hours == 2
    assert tables(store) == less
    (raw / HOUR / "later.parquet").unlink()
    assert run(raw, store, rebuild=True, end_us=START + HOUR_US).hours == 1
    assert tables(store) == whole
    write_file(raw / HOUR / "later.parquet", minutes(20))
    assert run(raw, store).hours == 1


def test_a_report_says_which_hours_were_dropped(spark: "SparkSession", run: Run, stored: Stored) -> None:
    """Not that their rows are missing; a range beside them is not concerned."""
    raw, store = stored
    assert faults(spark, store, Selection()) == {}
    drop(store, 1, 2)
    run(raw, store, idle=True)
    assert faults(spark, store, Selection()) == {"dropped_hours": 1}
    assert faults(spark, store, Selection(START + HOUR_US, START + 2 * HOUR_US)) == {"dropped_hours": 1}
    assert faults(spark, store, Selection(end_us=START + HOUR_US)) == {}
    drop(store, 0, 1)
    assert faults(spark, store, Selection()) == {}
    assert faults(spark, store, Selection(start_us=START)) == {"dropped_hours": 2}
    assert open_store(str(store)).there.endswith(" Dropped: 2026-11-21T12:00 to 2026-11-21T14:00 (UTC).")


def test_keeping_nothing_is_refused(run: Run, stored: Stored) -> None:
    """A clock that is wrong by years drops nothing."""
    raw, store = stored
    before = tables(store)
    with pytest.raises(ReportError, match=r"has only older hours, 2026-11-21T12:00 to .*: is the clock right\?"):
        run(raw, store, keep_from_us=START + 9 * HOUR_US, idle=True)
    assert tables(store) == before


def test_old_metrics_are_not_compacted_to_be_dropped(run: Run, stored: Stored, tmp_path: Path) -> None:
    """A new store has only the hours that are kept; without any there is no store."""
    done = run(stored[0], tmp_path / "new", keep_from_us=START + HOUR_US)
    assert done.hours == 2
    assert done.removed == erasure.Removed(0, 0)
    assert run(stored[0], tmp_path / "none", keep_from_us=START + 9 * HOUR_US, idle=True).hours == 0


def test_a_forgotten_client_is_nowhere(spark: "SparkSession", run: Run, stored: Stored, tmp_path: Path) -> None:
    """All tables are like those made without it; no file, no statistics and no earlier version has it."""
    raw, store = stored
    earlier = open_store(str(store)).snapshot.version
    assert len(mentions(store, SECRET)) > 6
    done = forget(store)
    assert (done.hours, done.rows) == (3, 7)
    assert done.summary("S").startswith(f"S: client {SECRET} forgotten, 7 rows of 3 hours. No compaction ")
    assert mentions(store, SECRET) == []
    less, now = without(run, tmp_path, dict(enumerate(HOURS)), OTHER), tables(store)
    assert (now["sessions"], now["starvation"]) == (less["sessions"], less["starvation"])
    assert faults(spark, store, Selection()) == {}
    with pytest.raises(ReportError, match=rf"no longer has version {earlier}: --forget removes all earlier ones"):
        open_store(str(store), earlier)
    assert run(raw, store, idle=True).hours == 0


def test_object_stores_forget_too(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the client and of the dropped hour is left, and the rest can be read."""
    store = stored[1]
    monkeypatch.setattr(opening, "is_local", lambda uri: False)
    uri = f"file://{store}"
    assert erasure.drop(uri, START, START + HOUR_US, QUIET).hours == 1
    assert erasure.forget(uri, SECRET, QUIET).hours == 2
    assert mentions(store, SECRET) == []
    assert not [path for path in store.rglob("hour=12/*") if path.is_file()]
    assert {made["client_id"] for made in rows_of(open_store(uri))} == {OTHER}


def test_a_forgotten_client_does_not_come_back(spark: "SparkSession", run: Run, stored: Stored) -> None:
    """From late files of its hours, from copies, in a rebuild; other rows of these come in, and its own later rows."""
    raw, store = stored
    forget(store)
    shutil.copy(raw / HOUR / "s.parquet", raw / HOUR / "copy.parquet")
    write_file(raw / NEXT / "x.parquet", minutes(88, client=SECRET) + minutes(88, client="new"))
    done = run(raw, store)
    assert (done.hours, done.rows) == (2, 5)
    assert run(raw, store, rebuild=True).rows == 7
    assert mentions(store, SECRET) == []
    assert faults(spark, store, Selection()) == {}
    now = time.time() - NOON.timestamp() + 1800
    write_file(folder_of(raw, at(now)) / "after.parquet", [row(SECRET, now, offered_qos0=1, sent_qos0=1)])
    assert run(raw, store).rows == 1


def test_a_client_is_forgotten_again(run: Run, stored: Stored) -> None:
    """It has rows again; and with none, the command ends what an earlier one has begun."""
    raw, store = stored
    forget(store)
    assert forget(store).rows == 0
    now = time.time() - NOON.timestamp()
    write_file(folder_of(raw, at(now)) / "after.parquet", [row(SECRET, now, offered_qos0=1, sent_qos0=1)])
    run(raw, store)
    assert forget(store).rows == 1
    assert mentions(store, SECRET) == []


class Killed(BaseException):
    """Ends a run like kill -9: nothing that the program would do about an error is done."""


@pytest.mark.parametrize(
    ("erase", "left_of"),
    [
        (forget, lambda store: mentions(store, SECRET)),
        (lambda store: drop(store, 0, 2), lambda store: [*store.rglob("hour=12"), *store.rglob("hour=13")]),
    ],
)
def test_a_run_that_is_killed_leaves_the_old_state_or_the_new_one(
    erase: Callable[[Path], object],
    left_of: Callable[[Path], list[object]],
    stored: Stored,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """At each of its commits and removals; the same command ends the work."""
    before = stored[1]
    old, after = tables(before), tmp_path / "after"
    shutil.copytree(before, after)
    erase(after)
    new, states = tables(after), []
    step = 0
    while True:
        store = tmp_path / f"{step}"
        shutil.copytree(before, store)
        left = [step]

        def counting(call: Callable[..., Any], left: list[int] = left) -> Callable[..., Any]:
            def counted(*arguments: Any) -> Any:
                if not left[0]:
                    raise Killed
                left[0] -= 1
                return call(*arguments)

            return counted

        with monkeypatch.context() as patched:
            patched.setattr(delta, "_write", counting(delta._write))
            patched.setattr(LocalStorage, "remove", counting(LocalStorage.remove))
            try:
                erase(store)
                break
            except Killed:
                states.append(tables(store))
        if step % 7 == 0:  # all of them would take too long
            erase(store)
            assert tables(store) == new
            assert not left_of(store)
        step += 1 if states[-1] == old else 3
    assert states == [old] * states.index(new) + [new] * states.count(new)
    assert states.count(old) == len(delta.SCHEMAS)
    assert states.count(new) > 3


def test_a_compaction_at_the_same_time_starts_again(
    run: Run, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hour is built without the client that was forgotten meanwhile, and nothing that it has written stays."""
    raw, store = stored
    write_file(raw / NEXT / "x.parquet", minutes(88, client=SECRET) + minutes(88, client="new"))
    committed = delta.commit

    def after_forgetting(snapshot: delta.Snapshot, changes: dict[str, delta.Change]) -> delta.Snapshot:
        monkeypatch.setattr("spark_jobs.compaction.compact.commit", committed)
        forget(store)
        return committed(snapshot, changes)

    monkeypatch.setattr("spark_jobs.compaction.compact.commit", after_forgetting)
    assert run(raw, store).rows == 3
    assert mentions(store, SECRET) == []


def test_a_run_whose_files_were_removed_meanwhile_starts_again(stored: Stored) -> None:
    """What it fails with is no matter; an error without a commit of another run is one."""
    store, failed = stored[1], [False]

    def attempt() -> str:
        if not failed[0]:
            failed[0] = True
            forget(store)
            raise FileNotFoundError
        return "done"

    def failing() -> None:
        raise FileNotFoundError

    assert until_committed(attempt, open_storage(str(store)), QUIET) == "done"
    with pytest.raises(FileNotFoundError):
        until_committed(failing, open_storage(str(store)), QUIET)


def test_what_another_run_has_just_written_stays(
    run: Run, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compaction that began after the commit commits its files, although the sweep comes between."""
    raw, store = stored
    write_file(raw / NEXT / "x.parquet", minutes(88, client="new"))
    committed = delta.commit
    waiting: list[tuple[delta.Snapshot, Any]] = []

    def commit_later(snapshot: delta.Snapshot, changes: Any) -> delta.Snapshot:
        waiting.append((snapshot, changes))
        raise Killed

    def written_before(*arguments: Any) -> int:
        monkeypatch.setattr("spark_jobs.compaction.compact.commit", commit_later)
        with pytest.raises(Killed):
            run(raw, store)
        return sweep(*arguments)

    monkeypatch.setattr("spark_jobs.compaction.erasure.sweep", written_before)
    forget(store)
    committed(*waiting[0])
    require_sound(open_store(str(store)))
    assert {made["client_id"] for made in rows_of(open_store(str(store)))} == {OTHER, "new"}


def test_a_report_that_runs_meanwhile_says_what_to_do(stored: Stored) -> None:
    """It fails, for it reads an earlier version, of which files are gone."""
    store = stored[1]
    reading = open_store(str(store))
    drop(store, 0, 1)
    newest = open_store(str(store)).snapshot.version
    told = rf"files of version {reading.snapshot.version} were removed, .*; make the report again, of version {newest}"
    with pytest.raises(ReportError, match=told):
        require_sound(reading)
    later = Selection(start_us=START + HOUR_US)
    require_sound(reading, later)
    reading = open_store(str(store))
    forget(store)
    with pytest.raises(ReportError, match="were removed, by --keep, --drop or --forget"):
        require_sound(reading, later)
