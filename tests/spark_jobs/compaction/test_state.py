"""What a store says about itself, which hours are to be made, locks, slots and clocks: without Spark."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from spark_jobs.compaction import lock, slots
from spark_jobs.compaction.clocks import off_clocks
from spark_jobs.compaction.plan import Hour, batches, plan, version_of
from spark_jobs.compaction.schema import HOUR_US
from spark_jobs.compaction.state import FileRecord, Ledger, Manifest, Note, hour_name, parse_ledger, parse_manifest
from spark_jobs.errors import ReportError
from spark_jobs.storage.local import LocalStorage

START = 480_000 * HOUR_US


def file(name: str, first: int, last: int, rows: int = 10) -> FileRecord:
    """A file with rows from one hour to another."""
    return FileRecord(
        name, 99, 0, "read", rows=rows, first_us=START + first * HOUR_US, last_us=START + last * HOUR_US + 1
    )


def test_ledgers_and_manifests_survive_being_stored() -> None:
    """Also names that are no UTF-8, as Linux lets files have."""
    odd = replace(file("x\udcff,\n", 0, 1), brokers=("a",), late=True, why="“so”")
    ledger = Ledger(START, 3, 1, (odd,), 2, (Note("clock", "b", "slow"),))
    assert parse_ledger(ledger.to_json(), "x") == ledger
    manifest = Manifest(60, {"b": 5}, {"2026-11-21T13": "y"}, "l").with_hours({"2026-11-21T14": "z"}, {"b": 4, "c": 1})
    assert parse_manifest(manifest.to_json(), "x") == manifest
    assert manifest.watermarks == {"b": 5, "c": 1}


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"format": 1}'])
def test_a_damaged_manifest_is_named(text: bytes) -> None:
    """The message says which file, and what to do."""
    with pytest.raises(ReportError, match=r"STORE/manifest\.json: is damaged .* compact into a new folder"):
        parse_manifest(text, "STORE")


def test_a_store_of_another_format_is_refused() -> None:
    """Rather than read wrongly."""
    with pytest.raises(ReportError, match="is a store of format 9, this program reads format 1"):
        parse_manifest(b'{"format": 9}', "STORE")


def test_only_hours_that_something_new_touches_are_made() -> None:
    """A new file has the hours made that it has rows of, from all files that have."""
    one, two, both = file("1", 0, 0), file("2", 1, 1), file("3", 1, 2)
    first = plan([one, two], {}, 60)
    assert [hour.hour_us - START for hour in first] == [0, HOUR_US]
    ledgers = {hour.hour_us: Ledger(hour.hour_us, files=hour.files) for hour in first}
    assert plan([one, two], ledgers, 60) == []
    later = plan([one, two, both], ledgers, 60)
    assert [(hour.hour_us - START, [f.name for f in hour.files]) for hour in later] == [
        (HOUR_US, ["2", "3"]),
        (2 * HOUR_US, ["3"]),
    ]
    assert plan([one, two, both], ledgers, 60, end_us=START + HOUR_US) == []


def test_what_deleted_files_gave_is_kept() -> None:
    """Without the files nothing is made; with a new one, only that is added; a changed one counts as new."""
    old, new = file("old", 0, 0), file("new", 0, 0)
    ledgers = {START: Ledger(START, files=(old,))}
    versions = {hour_name(START): "folder"}
    assert plan([], ledgers, 60, versions=versions) == []
    [hour] = plan([new], ledgers, 60, versions=versions)
    assert (hour.files, hour.base) == ((new,), ledgers[START])
    [hour] = plan([replace(old, rows=11)], ledgers, 60, versions=versions)
    assert hour.base is None


def test_the_same_input_has_the_same_version() -> None:
    """Whatever the order of the files and whenever they were written; not with another size or slot."""
    one, two = file("1", 0, 0), file("2", 0, 0)
    version = version_of([one, two], 60)
    assert version == version_of([two, replace(one, modified_us=7)], 60)
    assert (
        len({version, version_of([one], 60), version_of([one, two], 10), version_of([replace(one, size=1), two], 60)})
        == 4
    )


def test_batches_hold_whole_hours_and_not_too_many_rows() -> None:
    """Hours that add to compacted rows come alone, after the others."""
    fresh = [Hour(START + n * HOUR_US, (file(str(n), n, n),), None, "v") for n in range(5)]
    adding = [Hour(START - HOUR_US, (file("x", -1, -1),), Ledger(0), "v")]
    got = list(batches(adding + fresh, most_rows=25))
    assert [len(batch) for batch in got] == [2, 2, 1, 1]
    assert got[-1] == adding


@pytest.mark.parametrize(("text", "us"), [("10s", 10_000_000), ("1m", 60_000_000), ("1h", HOUR_US)])
def test_slots_are_parts_of_an_hour(text: str, us: int) -> None:
    """With a unit, as words and back."""
    assert slots.parse_slot(text) == us
    assert slots.parse_slot(slots.words(us)) == us


@pytest.mark.parametrize("text", ["7s", "0s", "2h", "61m", "1", "m", "-1s", ""])
def test_other_slots_are_refused(text: str) -> None:
    """The message says what would be right."""
    with pytest.raises(ReportError, match="must be a whole part of an hour"):
        slots.parse_slot(text)


@pytest.mark.parametrize(
    ("interval", "slot"), [(1.0, 1), (1.02, 1), (60.5, 60), (7, 8), (40, 40), (9_000, 3600), (0, 1)]
)
def test_a_slot_fits_the_usual_interval(interval: float, slot: int) -> None:
    """An interval that is a little too long does not double it."""
    assert slots.choose_slot(int(interval * 1e6)) == slot * 1_000_000


def test_one_compaction_at_a_time(tmp_path: Path) -> None:
    """A second one is told who is at work; afterwards the lock is free."""
    storage = LocalStorage(tmp_path)
    with (
        lock.locked(storage),
        pytest.raises(ReportError, match=f"at work: process {os.getpid()}"),
        lock.locked(storage),
    ):
        pass
    with lock.locked(storage):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "holder",
    [
        {"started": "long ago"},
        {"pid": 2**22 + 1, "started": "x"},
        {"host": "elsewhere", "renewed": time.time() - 2 * lock.STALE_AFTER},
        {"host": "elsewhere", "renewed": time.time() * 2},
        {"pid": "abc"},
        None,
    ],
)
def test_a_stale_lock_is_taken_over(tmp_path: Path, holder: dict[str, object] | None) -> None:
    """Of a process that is gone, of another with its id, of a machine that is silent; of the future, or damaged."""
    storage = LocalStorage(tmp_path)
    own = json.loads(lock._mine())
    storage.write(lock.LOCK, json.dumps(own | holder).encode() if holder else b"")
    with lock.locked(storage):
        assert json.loads(storage.read(lock.LOCK))["pid"] == os.getpid()


def test_the_lock_of_a_busy_machine_elsewhere_holds(tmp_path: Path) -> None:
    """One that was renewed lately."""
    storage = LocalStorage(tmp_path)
    storage.write(lock.LOCK, json.dumps(json.loads(lock._mine()) | {"host": "elsewhere"}).encode())
    with pytest.raises(ReportError, match=r"on elsewhere.*remove .*lock\.json"), lock.locked(storage):
        pass


def written(broker: str, lag_minutes: list[float]) -> list[FileRecord]:
    """Files of a broker that were written so long after their last row."""
    made = [replace(file(f"{broker}{n}", n, n), brokers=(broker,)) for n in range(len(lag_minutes))]
    return [
        replace(f, modified_us=(f.last_us or 0) + int(lag * 60_000_000))
        for f, lag in zip(made, lag_minutes, strict=True)
    ]


def test_a_clock_an_hour_off_is_named() -> None:
    """Slow or fast; brokers that agree with each other are not."""
    good = written("a", [0.1, 0.2]) + written("b", [0.1, 0.1])
    assert off_clocks(good) == ()
    [slow] = off_clocks(good + written("c", [60, 60]))
    assert (slow.kind, slow.name) == ("clock", "c")
    assert "60 minutes off those of the other brokers: it is slow" in slow.why
    [fast] = off_clocks(good + written("d", [-60, -60]))
    assert fast.name == "d"
    assert "it is fast" in fast.why


def test_files_that_were_copied_later_accuse_nobody() -> None:
    """Their times tell nothing of clocks."""
    assert off_clocks(written("a", [0.1, 0.1]) + written("b", [500, 300, 100, 10])) == ()
