"""Which Spark is accepted, what a session prints, and its start beside other work."""

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest
from pyspark.errors import SparkRuntimeException

from spark_jobs.errors import ReportError
from spark_jobs.progress import Progress
from spark_jobs.spark import MANY_ROWS, SHORT, Started, beside, require_packages, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

INTERRUPTED: Final = """
import os, signal, threading
from pyspark.sql import functions as F
from spark_jobs.spark import session

with session("local[1]") as started:
    rows = started.spark.range(10**12)
    rows.limit(1).mapInArrow(lambda batches: batches, "id bigint").collect()  # Java connects to Python
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        rows.select(F.sum(F.hash("id"))).collect()
    except BaseException:
        raise KeyboardInterrupt
"""


class Kept(logging.Handler):
    """Collects log records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See logging."""
        self.records.append(record)


@pytest.mark.parametrize("name", ["SQLQueryContextLogger", "DataFrameQueryContextLogger"])
def test_what_is_raised_is_not_logged_too(spark: "SparkSession", name: str) -> None:
    """What fails raises, and does not print Java's stack."""
    from pyspark.logger import PySparkLogger
    from pyspark.sql import functions as F

    refused = {
        "SQLQueryContextLogger": spark.range(1, 2).select(F.expr("raise_error(id)")),
        "DataFrameQueryContextLogger": spark.range(1, 2).select(F.raise_error(F.col("id"))),
    }
    kept = Kept()
    logger = PySparkLogger.getLogger(name)
    logger.addHandler(kept)
    try:
        with pytest.raises(SparkRuntimeException):
            refused[name].collect()
    finally:
        logger.removeHandler(kept)
    assert kept.records == []


def test_an_old_spark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence names the version, and the oldest that would do."""
    monkeypatch.setattr("pyspark.__version__", "3.5.9")
    with pytest.raises(ReportError, match=r"needs pyspark 4\.0 or newer, not 3\.5\.9: pip install"):
        require_packages()


@pytest.mark.parametrize(("remote", "master"), [("sc://host", None), (None, "sc://host")])
def test_spark_connect_is_refused(monkeypatch: pytest.MonkeyPatch, remote: str | None, master: str | None) -> None:
    """One sentence says what to unset, and what would be right, before Java starts."""
    if remote is not None:
        monkeypatch.setenv("SPARK_REMOTE", remote)
    with pytest.raises(ReportError, match="cannot run by Spark Connect: unset SPARK_REMOTE"), session(master):
        pass


@pytest.mark.slow
def test_an_interrupt_prints_nothing_of_spark() -> None:
    """Python's own traceback is the only one: no thread of pyspark prints that it has lost Java."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert done.stderr.endswith("KeyboardInterrupt\n")
    assert "Exception occurred" not in done.stderr


def test_it_starts_beside_other_work(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once, when it is asked for; who waits for it sees a step; it is stopped in the end."""
    may_start, seen = threading.Event(), []

    @contextmanager
    def started(*_: object) -> Iterator[Started]:
        may_start.wait()
        seen.append("started")
        yield Started(spark, "Spark on a test")
        seen.append("stopped")

    monkeypatch.setattr("spark_jobs.spark.session", started)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    with beside(None, Progress()):
        pass
    assert seen == []
    with beside(None, Progress()) as starting:
        starting.begin()
        assert seen == []
        threading.Timer(0, may_start.set).start()
        assert starting(1) is starting(1) is spark
        assert seen == ["started"]
    assert seen == ["started", "stopped"]
    told = capsys.readouterr().err
    assert "starting Spark ..." in told
    assert "done: Spark on a test, started in 0." in told


def test_few_rows_have_one_compiler(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """Java's second compiler would take longer than all of a small job; many rows need it."""
    asked = []

    @contextmanager
    def started(_master: str | None, settings: dict[str, str]) -> Iterator[Started]:
        asked.append(settings)
        yield Started(spark, "")

    monkeypatch.setattr("spark_jobs.spark.session", started)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    for rows in (MANY_ROWS - 1, MANY_ROWS):
        with beside(None, Progress(quiet=True), {"own": "setting"}) as starting:
            starting(rows)
    assert asked == [{**SHORT, "own": "setting"}, {"own": "setting"}]


def test_spark_that_runs_already_is_used(spark: "SparkSession") -> None:
    """As in a notebook: it is not stopped, the job has UTC, and the notebook keeps its time zone."""
    zone = "spark.sql.session.timeZone"
    before = spark.conf.get(zone) or "UTC"
    spark.conf.set(zone, "Asia/Kolkata")
    try:
        with beside(None, Progress(quiet=True)) as starting:
            assert starting(1).conf.get(zone) == "UTC"
            assert starting(1).sparkContext is spark.sparkContext
        assert spark.conf.get(zone) == "Asia/Kolkata"
        assert spark.range(3).count() == 3
    finally:
        spark.conf.set(zone, before)


def test_a_start_that_fails_is_told_to_who_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is the session's own."""

    @contextmanager
    def started(*_: object) -> Iterator[Started]:
        raise ReportError("no Java")
        yield

    monkeypatch.setattr("spark_jobs.spark.session", started)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    with pytest.raises(ReportError, match="no Java"), beside(None, Progress(quiet=True)) as starting:
        starting(1)
