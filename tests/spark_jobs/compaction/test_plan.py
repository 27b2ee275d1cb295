"""Planning, slots and clocks, without Spark."""

from dataclasses import replace

import pytest

from spark_jobs.compaction import slots
from spark_jobs.compaction.clocks import off_clocks
from spark_jobs.compaction.plan import Hour, batches, plan
from spark_jobs.errors import ReportError
from spark_jobs.store.schema import HOUR_US
from spark_jobs.store.taken import FileRecord, Ledger

START = 480_000 * HOUR_US


def file(name: str, first: int, last: int, rows: int = 10) -> FileRecord:
    """A file with rows of these hours."""
    return FileRecord(
        name, 99, 0, "read", rows=rows, first_us=START + first * HOUR_US, last_us=START + last * HOUR_US + 1
    )


def test_only_hours_that_something_new_touches_are_made() -> None:
    """A new file causes its hours to be built from all files with rows of them."""
    one, two, both = file("1", 0, 0), file("2", 1, 1), file("3", 1, 2)
    first = plan([one, two], {})
    assert [hour.hour_us - START for hour in first] == [0, HOUR_US]
    ledgers = {hour.hour_us: Ledger(hour.hour_us, hour.files) for hour in first}
    assert plan([one, two], ledgers) == []
    later = plan([one, two, both], ledgers)
    assert [(hour.hour_us - START, [f.name for f in hour.files]) for hour in later] == [
        (HOUR_US, ["2", "3"]),
        (2 * HOUR_US, ["3"]),
    ]
    assert plan([one, two, both], ledgers, end_us=START + HOUR_US) == []


def test_what_deleted_files_gave_is_kept() -> None:
    """Without raw files nothing is built; of a new or changed file the rows are added."""
    old, new = file("old", 0, 0), file("new", 0, 0)
    ledgers = {START: Ledger(START, (old,))}
    assert plan([], ledgers) == []
    [hour] = plan([new], ledgers)
    assert (hour.files, hour.adds) == ((new,), True)
    for changed in (replace(old, rows=11), replace(old, size=98), replace(old, modified_us=1)):
        [hour] = plan([changed], ledgers)
        assert not hour.adds


def test_batches_hold_whole_hours_and_not_too_many_rows() -> None:
    """Hours that are added to compacted rows come last, one by one."""
    fresh = [Hour(START + n * HOUR_US, (file(str(n), n, n),)) for n in range(5)]
    adding = [Hour(START - HOUR_US, (file("x", -1, -1),), adds=True)]
    got = list(batches(adding + fresh, most_rows=25))
    assert [len(batch) for batch in got] == [2, 2, 1, 1]
    assert got[-1] == adding


@pytest.mark.parametrize(("text", "us"), [("10s", 10_000_000), ("1m", 60_000_000), ("1h", HOUR_US)])
def test_slots_are_parts_of_an_hour(text: str, us: int) -> None:
    """A slot is formatted with a unit, and parsed again."""
    assert slots.parse_slot(text) == us
    assert slots.parse_slot(slots.format_slot(us)) == us


@pytest.mark.parametrize("text", ["7s", "0s", "2h", "61m", "1", "m", "-1s", ""])
def test_other_slots_are_refused(text: str) -> None:
    """The message says what was expected."""
    with pytest.raises(ReportError, match="expected a whole part of an hour"):
        slots.parse_slot(text)


@pytest.mark.parametrize(
    ("interval", "slot"), [(1.0, 1), (1.2, 1), (60.5, 60), (7, 8), (40, 40), (9_000, 3600), (0, 1)]
)
def test_a_slot_fits_the_usual_interval(interval: float, slot: int) -> None:
    """An interval that is slightly too long does not double the slot."""
    assert slots.choose_slot(int(interval * 1e6)) == slot * 1_000_000


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
