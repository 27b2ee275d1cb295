"""The Spark session of the jobs: started with settings for one machine, or taken over from spark-submit.

The settings were measured (20 million rows on two cores): two gigabytes for the driver, eight shuffle
partitions and the parallel collector are as fast as anything tried; adaptive execution must stay on; the
session time zone is UTC so that hours are hours. The listening sockets that Spark opens are bound to loopback
as long as the master is on this machine.
"""

import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_jobs.errors import ReportError, was_interrupted
from spark_jobs.java import find_java, make_java_home

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

APP_NAME: Final = "sluice-report"
DEBUG: Final = "SLUICE_REPORT_DEBUG"  # environment variable: show Spark's errors and our own traceback
LOOPBACK: Final = "127.0.0.1"
JAVA_ENDS: Final = 10  # seconds that Java has after an interrupt to remove its files
FEW_ROWS: Final = 300_000  # below this, compiling the queries takes longer than running them uncompiled

_JVM_OPTIONS: Final = "spark.driver.extraJavaOptions"
_FOR_MANY_ROWS: Final = {_JVM_OPTIONS: "-XX:+UseParallelGC", "spark.sql.shuffle.partitions": "8"}
FOR_FEW_ROWS: Final = {
    _JVM_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
}
# A report from a store is some hundred short queries over rows that are few already: compiling them well takes
# longer than they do. Over 20,000 sessions and 25 hours: 64 s of processor time with Java's second compiler, 45 s
# without.
FOR_QUERIES: Final = {_JVM_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC"}
# What the compaction's wide rows need, wherever Spark runs.
#
# codegen.maxFields: above 100 columns Spark gives up compiling a query into one loop by default; the sums of raw
# rows have about 300. On 2 million rows of 4,000 sessions, compaction took 86 s of processor time with it and 144 s
# without, on a machine that was busy otherwise; -XX:-DontCompileHugeMethods beside it changed nothing.
# maxPartitionBytes: a task reads about 32 MB of the compressed files, so that the sums that it holds, 2 kB for each
# session and hour, fit into memory.
# parallelPartitionDiscovery: a folder has thousands of small files; up to so many are found faster without a job.
_WIDE: Final = {
    "spark.sql.codegen.maxFields": "5000",
    "spark.sql.files.maxPartitionBytes": "32m",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
}
_SETTINGS: Final = {
    **_WIDE,
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # would note a stack trace for each expression
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "true",
}

# Spark is silent, so that the console shows the report's own progress; what it raises is reported all the
# same. Spark lifts the root logger to its shell's level when it runs under Python, and says so on the
# console, unless the two agree from the start.
_LOG4J: Final = """\
status = error
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = spark %p %c{1}: %m%n
logger.spark.name = org.apache.spark
logger.spark.level = {level}
"""


@dataclass(frozen=True)
class Started:
    """A running session, and in words what it runs on."""

    spark: "SparkSession"
    words: str


def require_packages() -> None:
    """Raise ReportError, with what to install, unless pyspark and what it needs are there."""
    missing = [name for name in ("pyspark", "pyarrow", "numpy") if find_spec(name) is None]
    if missing:
        raise ReportError(f"the report needs {' and '.join(missing)}: pip install 'sluice-mqtt[report]'")


def under_spark_submit(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether spark-submit has started this process: then Java runs already and the settings are its."""
    return "PYSPARK_GATEWAY_PORT" in environ


def is_local(master: str) -> bool:
    """Whether all of Spark runs on this machine, so that nothing needs to listen beyond loopback."""
    return master.startswith("local") or f"//{LOOPBACK}:" in master or "//localhost:" in master


@contextmanager
def session(
    master: str | None = None, *, rows: int | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[Started]:
    """Start a session, stop it afterwards, and leave no temporary files.

    Args:
        master: Spark's master URL; local[*] if None, and spark-submit's if that has started us.
        rows: how many rows there will be to read, if that is known: few rows are worth less compiling.
        settings: more Spark settings, over those of this module.

    Raises:
        ReportError: no suitable Java, or the session does not start.
    """
    require_packages()
    if not os.environ.get(DEBUG):
        _hush()
    if under_spark_submit():
        with _stopping(_adopt(master)) as spark:
            yield Started(spark, f"Spark {spark.version} by spark-submit on {spark.sparkContext.master}")
        return
    with tempfile.TemporaryDirectory(prefix="sluice-report-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        java = find_java(os.environ)
        sized = FOR_FEW_ROWS if rows is not None and rows <= FEW_ROWS else _FOR_MANY_ROWS
        chosen = master or "local[*]"
        with (
            _environment(chosen, make_java_home(java, folder)),
            _stopping(_launch(chosen, folder, sized | dict(settings or {}))) as spark,
        ):
            yield Started(spark, f"Spark {spark.version} on {chosen}, Java {java.version} ({java.source})")


def _hush() -> None:
    """Keep py4j and pyspark from logging, with Java's stack, what they raise anyway."""
    from pyspark.logger import PySparkLogger

    logging.getLogger().addHandler(logging.NullHandler())
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextmanager
def _stopping(spark: "SparkSession") -> Iterator["SparkSession"]:
    try:
        yield spark
    except BaseException as error:
        if was_interrupted(error):
            _end_java()
        else:
            spark.stop()
        raise
    spark.stop()


@contextmanager
def cached(*frames: "DataFrame") -> Iterator[None]:
    """Free what Spark has cached of these frames afterwards, unless Ctrl-C ends the block: Java's answers are then
    no longer those to what is asked, and Java ends with all that it has cached."""
    try:
        yield
    except BaseException as error:
        if not was_interrupted(error):
            _free(frames)
        raise
    _free(frames)


def _free(frames: "Sequence[DataFrame]") -> None:
    for frame in frames:
        frame.unpersist()


def _end_java() -> None:
    """End Spark's Java without asking it: after an interrupt nobody knows which answer comes next."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:  # it has not been started yet, or spark-submit's is not ours to end
        return
    process.stdin.close()
    try:
        process.wait(JAVA_ENDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def _environment(master: str, java_home: Path) -> Iterator[None]:
    """Set what pyspark hands to the JVM through the environment; put everything back afterwards."""
    import pyspark

    home = Path(pyspark.__file__).parent
    wanted = {"JAVA_HOME": str(java_home), "PYSPARK_PYTHON": sys.executable}
    if is_local(master):
        wanted["SPARK_LOCAL_IP"] = LOOPBACK
    if (home / "bin" / "spark-submit").exists():
        # Another Spark's SPARK_HOME would start that one's JVM under this one's Python.
        wanted["SPARK_HOME"] = str(home)
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _launch(master: str, folder: Path, settings: dict[str, str]) -> "SparkSession":
    from pyspark.sql import SparkSession

    for tool in ("bash", "chmod", "dirname"):
        if shutil.which(tool) is None:
            raise ReportError(f"Spark needs {tool}, which is not on PATH: add the folder that holds it")
    log = folder / "log4j2.properties"
    log.write_text(_LOG4J.replace("{level}", _log_level()), encoding="utf-8")
    jvm_options = settings.pop(_JVM_OPTIONS, "")
    options = f"{jvm_options} -Dlog4j2.configurationFile={log.as_uri()} -Dderby.system.home={folder}"
    builder = SparkSession.builder.appName(APP_NAME).master(master)
    local = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK} if is_local(master) else {}
    own = {
        _JVM_OPTIONS: options,
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
    }
    for name, value in {**_SETTINGS, **local, **own, **settings}.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except KeyboardInterrupt:
        _end_java()
        raise
    except Exception as error:  # py4j and pyspark have no common class for a JVM that does not come up
        reason = str(error).partition("\n")[0]
        raise ReportError(f"Spark did not start on {master}: {reason}") from error
    if threading.current_thread() is threading.main_thread():
        # Spark's own handler talks to Java in the middle of whatever is being said.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    spark.sparkContext.setLogLevel(_log_level())
    return spark


def _log_level() -> str:
    return "ERROR" if os.environ.get(DEBUG) else "FATAL"


def _adopt(master: str | None) -> "SparkSession":
    """spark-submit's session; its settings are left alone but for those that results, Python or wide rows depend on."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(APP_NAME)
    for name in ("spark.sql.session.timeZone", "spark.python.sql.dataFrameDebugging.enabled", *_WIDE):
        builder = builder.config(name, _SETTINGS[name])
    spark = (builder.master(master) if master else builder).getOrCreate()
    spark.sparkContext.setLogLevel(_log_level())
    return spark


def read_metrics(spark: "SparkSession", paths: Sequence[Path]) -> "DataFrame":
    """The rows of metrics files known to be good, by the columns of the schema file; 0 where a file is older."""
    from pyspark.sql import functions as F  # noqa: N812  # its usual name

    from spark_jobs.metrics import ADDED, SCHEMA

    sql_types = {"int64": "bigint", "int32": "int", "bool": "boolean", "list<int64>": "array<bigint>"}
    columns = ", ".join(f"`{field.name}` {sql_types.get(field.type, field.type)}" for field in SCHEMA.fields)
    rows = spark.read.schema(columns).parquet(*[_uri(path) for path in paths])
    return rows.withColumns({name: F.coalesce(F.col(name), F.lit(0)) for name in ADDED})


def _uri(path: Path) -> str:
    """A file's address for Hadoop, which would take some characters of a name for wildcards."""
    escaped = "".join(f"\\{letter}" if letter in "{}[]*?\\^" else letter for letter in str(path.absolute()))
    return f"file://{escaped}"
