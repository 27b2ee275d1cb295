"""Metadata of a store, planning, locks, slots and clocks, without Spark."""

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
    """Also with names that are not UTF-8, which Linux allows."""
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
    """A store of another format is refused."""
    with pytest.raises(ReportError, match="is a store of format 9, this program reads format 1"):
        parse_manifest(b'{"format": 9}', "STORE")


def test_only_hours_that_something_new_touches_are_made() -> None:
    """A new file causes its hours to be built from all files with rows of them."""
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
    """Without raw files nothing is built; of a new or changed file the rows are added."""
    old, new = file("old", 0, 0), file("new", 0, 0)
    ledgers = {START: Ledger(START, files=(old,))}
    versions = {hour_name(START): "folder"}
    assert plan([], ledgers, 60, versions=versions) == []
    [hour] = plan([new], ledgers, 60, versions=versions)
    assert (hour.files, hour.base) == ((new,), ledgers[START])
    [hour] = plan([replace(old, rows=11)], ledgers, 60, versions=versions)
    assert hour.base is None


def test_the_same_input_has_the_same_version() -> None:
    """It does not depend on the order and times of the files, but on sizes and slot."""
    one, two = file("1", 0, 0), file("2", 0, 0)
    version = version_of([one, two], 60)
    assert version == version_of([two, replace(one, modified_us=7)], 60)
    assert (
        len({version, version_of([one], 60), version_of([one, two], 10), version_of([replace(one, size=1), two], 60)})
        == 4
    )


def test_batches_hold_whole_hours_and_not_too_many_rows() -> None:
    """Hours that are added to compacted rows come last, one by one."""
    fresh = [Hour(START + n * HOUR_US, (file(str(n), n, n),), None, "v") for n in range(5)]
    adding = [Hour(START - HOUR_US, (file("x", -1, -1),), Ledger(0), "v")]
    got = list(batches(adding + fresh, most_rows=25))
    assert [len(batch) for batch in got] == [2, 2, 1, 1]
    assert got[-1] == adding


@pytest.mark.parametrize(("text", "us"), [("10s", 10_000_000), ("1m", 60_000_000), ("1h", HOUR_US)])
def test_slots_are_parts_of_an_hour(text: str, us: int) -> None:
    """Formatted with a unit, and parsed again."""
    assert slots.parse_slot(text) == us
    assert slots.parse_slot(slots.format_slot(us)) == us


@pytest.mark.parametrize("text", ["7s", "0s", "2h", "61m", "1", "m", "-1s", ""])
def test_other_slots_are_refused(text: str) -> None:
    """The message says what was expected."""
    with pytest.raises(ReportError, match="expected a whole part of an hour"):
        slots.parse_slot(text)


@pytest.mark.parametrize(
    ("interval", "slot"), [(1.0, 1), (1.02, 1), (60.5, 60), (7, 8), (40, 40), (9_000, 3600), (0, 1)]
)
def test_a_slot_fits_the_usual_interval(interval: float, slot: int) -> None:
    """An interval that is slightly too long does not double the slot."""
    assert slots.choose_slot(int(interval * 1e6)) == slot * 1_000_000


def test_one_compaction_at_a_time(tmp_path: Path) -> None:
    """The error of a second run names the first one; afterwards the lock is free."""
    storage = LocalStorage(tmp_path)
    with (
        lock.locked(storage),
        pytest.raises(ReportError, match=f"is running: process {os.getpid()}"),
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
    """Stale: the process has ended, its id was reused, another machine is silent, a time in the future, damaged."""
    storage = LocalStorage(tmp_path)
    own = json.loads(lock._mine())
    storage.write(lock.LOCK, json.dumps(own | holder).encode() if holder else b"")
    with lock.locked(storage):
        assert json.loads(storage.read(lock.LOCK))["pid"] == os.getpid()


def test_the_lock_of_a_busy_machine_elsewhere_holds(tmp_path: Path) -> None:
    """A lock that was renewed recently is not stale."""
    storage = LocalStorage(tmp_path)
    storage.write(lock.LOCK, json.dumps(json.loads(lock._mine()) | {"host": "elsewhere"}).encode())
    with pytest.raises(ReportError, match=r"on elsewhere.*remove .*lock\.json"), lock.locked(storage):
        pass


def written(broker: str, lag_minutes: list[float]) -> list[FileRecord]:
    """Files of a broker, written these minutes after their last row."""
    made = [replace(file(f"{broker}{n}", n, n), brokers=(broker,)) for n in range(len(lag_minutes))]
    return [
        replace(f, modified_us=(f.last_us or 0) + int(lag * 60_000_000))
        for f, lag in zip(made, lag_minutes, strict=True)
    ]


def test_a_clock_an_hour_off_is_named() -> None:
    """Slow or fast clocks are found; brokers that agree with each other are correct."""
    good = written("a", [0.1, 0.2]) + written("b", [0.1, 0.1])
    assert off_clocks(good) == ()
    [slow] = off_clocks(good + written("c", [60, 60]))
    assert (slow.kind, slow.name) == ("clock", "c")
    assert "60 minutes off those of the other brokers: it is slow" in slow.why
    [fast] = off_clocks(good + written("d", [-60, -60]))
    assert fast.name == "d"
    assert "it is fast" in fast.why


def test_files_that_were_copied_later_accuse_nobody() -> None:
    """Times of copied files say nothing about clocks."""
    assert off_clocks(written("a", [0.1, 0.1]) + written("b", [500, 300, 100, 10])) == ()
