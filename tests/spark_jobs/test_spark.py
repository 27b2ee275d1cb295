"""Which Spark is accepted, and what a session prints."""

import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest
from pyspark.errors import SparkRuntimeException

from spark_jobs.errors import ReportError
from spark_jobs.spark import require_packages, session

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
