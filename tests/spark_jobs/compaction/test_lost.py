"""Missing files of a store, deleted raw files, and selections without rows."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs import sources
from spark_jobs.compaction.check import require_sound
from spark_jobs.errors import ReportError
from spark_jobs.measures.frames import Finding
from spark_jobs.measures.measure import lost
from spark_jobs.measures.quality import files_table
from spark_jobs.measures.sums import by_hour, sums_of
from spark_jobs.progress import Progress
from spark_jobs.storage.local import LocalStorage
from spark_jobs.store.schema import SESSIONS
from spark_jobs.store.store import ALL, Selection, Store, open_store
from tests.support.spark.compacted import collected
from tests.support.spark.compacting import HOUR, NEXT, Run, minutes
from tests.support.spark.metrics_files import row, write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.once

TwoHours = tuple[Path, Path]


def sessions_of(store: Store, hour_us: int) -> Path:
    """The file of an hour's sessions."""
    [file] = store.snapshot.files(SESSIONS, hour_us, hour_us + 1)
    assert isinstance(store.storage, LocalStorage)
    return store.storage.path(f"{SESSIONS}/{file.path}")


def test_what_cannot_be_read_is_named_with_the_remedy(two_hours: TwoHours) -> None:
    """A truncated file, a missing hour: the message has its URI and the remedy."""
    store = open_store(str(two_hours[1]))
    require_sound(store)
    part = sessions_of(store, store.hours()[1])
    part.write_bytes(part.read_bytes()[:-9])
    again = "sluice compact --rebuild --from 2026-11-21T13:00 --to 2026-11-21T14:00"
    remedy = rf"hour=13/.*\.parquet: .*; build its hour again .*: {again}"
    with pytest.raises(ReportError, match=remedy):
        require_sound(store)
    require_sound(store, Selection(end_us=store.hours()[1]))
    part.unlink()
    with pytest.raises(ReportError, match="cannot be read: No such file"):
        require_sound(store)


def test_rows_that_the_store_has_lost_are_counted(
    spark: "SparkSession", run: Run, two_hours: TwoHours, capsys: pytest.CaptureFixture[str]
) -> None:
    """A removed part of an hour is named in the data quality and in a warning."""
    raw, store = two_hours

    def missing() -> list[Finding]:
        frames = sources.frames_of(lambda _rows: spark, open_store(str(store)), ALL)
        return list(lost(frames, sums_of(collected(by_hour(frames.sessions))), Progress(quiet=True)))

    opened = open_store(str(store))
    less = sessions_of(opened, opened.hours()[1]).read_bytes()
    write_file(raw / NEXT / "c.parquet", minutes(61, client="b"))
    run(raw, store)
    assert missing() == []
    sessions_of(open_store(str(store)), opened.hours()[1]).write_bytes(less)
    [found] = missing()
    assert (found.kind, found.count, found.example) == ("damaged_hours", 1, "2026-11-21T13..2026-11-21T14")
    assert "`sluice compact --rebuild --from 2026-11-21T13 --to 2026-11-21T14 ...`" in capsys.readouterr().err


def test_a_skipped_file_is_remembered(spark: "SparkSession", run: Run, two_hours: TwoHours) -> None:
    """Findings about an hour's files are reported after their deletion, for that hour only."""
    raw, folder = two_hours
    (raw / HOUR / "cut.parquet").write_bytes(b"PAR1")
    run(raw, folder, idle=True)
    (raw / HOUR / "cut.parquet").unlink()
    run(raw, folder, idle=True)
    store = open_store(str(folder))
    noon, after = store.hours()
    names = [file.name for file in sources.frames_of(lambda _rows: spark, store, Selection(end_us=after)).files]
    assert names == [f"{HOUR}/a.parquet", f"{HOUR}/cut.parquet"]
    later = sources.frames_of(lambda _rows: spark, store, Selection(start_us=after)).files
    assert f"{HOUR}/cut.parquet" not in [file.name for file in later]
    assert noon < after


def test_what_is_said_of_files_does_not_depend_on_when_they_came(
    spark: "SparkSession", run: Run, two_hours: TwoHours, tmp_path: Path
) -> None:
    """A late file is listed as in a store that was compacted from all files at once."""
    raw, store = two_hours
    write_file(raw / HOUR / "0.parquet", [row("late", 60, 60, offered_qos0=1)])
    assert run(raw, store).late == 1
    run(raw, tmp_path / "whole")
    listed = [
        files_table(sources.frames_of(lambda _rows: spark, open_store(str(folder)), ALL).files)
        for folder in (store, tmp_path / "whole")
    ]
    assert listed[0] == listed[1]


def test_an_unknown_broker_is_refused_with_those_that_there_are(spark: "SparkSession", two_hours: TwoHours) -> None:
    """An unknown broker name is an error, not an empty report."""
    store = open_store(str(two_hours[1]))
    with pytest.raises(ReportError, match=r"broker b2: .*store has no rows of it, only of: b1"):
        sources.frames_of(lambda _rows: spark, store, Selection(broker="b2"))
