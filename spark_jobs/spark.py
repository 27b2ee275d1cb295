"""The Spark session of the jobs: started with settings for one machine, or the session of spark-submit.

No setting changes a result. Spark's listening sockets are bound to loopback if the master is on this machine.
"""

import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_jobs.errors import ReportError, was_interrupted
from spark_jobs.java import NEWEST, STOPS_WITHIN, find_java, make_java_home, stop_java
from spark_jobs.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    SparkOf = Callable[[int], SparkSession]
    """The session for about so many raw rows; it starts at the first call."""

APP_NAME: Final = "sluice-report"
DEBUG: Final = "SLUICE_REPORT_DEBUG"  # environment variable: show Spark's errors and tracebacks
LOOPBACK: Final = "127.0.0.1"
OLDEST: Final = (4, 0)
_OLDEST_OF_JAVA_25: Final = (4, 2)
MASTER: Final = "Spark master; default: local[*], under spark-submit its own"
"""The help of the option."""

_INSTALL: Final = "pip install 'sluice-mqtt[report]'"
_JVM_OPTIONS: Final = "spark.driver.extraJavaOptions"
_SQL: Final = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # Delta has no other
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.codegen.maxFields": "1000",  # a raw row has 126
    # All values are checked before they are added up, see `datasets.limits`. To check each sum takes twice as long.
    "spark.sql.ansi.enabled": "false",
    # A small file costs little to open: without this each task would have 32 of them.
    "spark.sql.files.openCostInBytes": str(256 << 10),
    # Each file that is read gets buffers for so many rows of each column, by default for 4096.
    "spark.sql.parquet.columnarReaderBatchSize": "1024",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",  # files are listed already
}
"""Settings of every session, also of one that spark-submit or a notebook has started."""

# By default Java does not compile methods as long as Spark makes for rows of a hundred columns. It also gives up a
# small method of Spark that it has compiled 400 times, as each query calls it with other classes.
_HUGE: Final = "-XX:-DontCompileHugeMethods"
_JAVA: Final = f"-XX:+UseParallelGC {_HUGE} -XX:PerMethodRecompilationCutoff=10000"
_SETTINGS: Final = {
    _JVM_OPTIONS: _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
    "spark.api.mode": "classic",  # also where Spark Connect is the default
    "spark.driver.memory": "1500m",
    "spark.buffer.pageSize": "2m",  # each aggregation of a task begins with a page, by default of up to 64 MiB
    "spark.sql.shuffle.partitions": "64",
    "spark.sql.codegen.cache.maxEntries": "1000",  # by default 100; a compaction or a report has more classes
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # it records a stack trace for each expression
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",  # no .crc beside each file
}

SHORT: Final = {_JVM_OPTIONS: f"-XX:+UseSerialGC {_HUGE} -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"}
"""For few rows, or many short queries: Java's second compiler takes longer than it saves.

Alone the first one has room for the code of three reports by default, and compiles nothing more when that is full.
"""
MANY_ROWS: Final = 10_000_000
"""So many raw rows take the same processor time with and without Java's second compiler; fewer take less without."""
_ROWS_OF_A_PARTITION: Final = 200_000
_PARTITIONS: Final = "spark.sql.shuffle.partitions"

# Spark does not log, so that the console shows only the report's progress; its exceptions are reported anyway. Under
# Python Spark sets the root logger to its shell's level and prints a message, unless both levels are the same.
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
    """A running session, and a description of what it runs on."""

    spark: "SparkSession"
    description: str


def require_packages() -> None:
    """Raise ReportError, with what to install, unless pyspark, not too old, and its dependencies are installed."""
    missing = [name for name in ("pyspark", "deltalake", "pyarrow", "numpy", "jinja2") if find_spec(name) is None]
    if missing:
        raise ReportError(f"the report needs {' and '.join(missing)}: {_INSTALL}")
    if _version() < OLDEST:
        import pyspark

        raise ReportError(f"the report needs pyspark 4.0 or newer, not {pyspark.__version__}: {_INSTALL}")


def _version() -> tuple[int, ...]:
    import pyspark

    return tuple(int(part) for part in pyspark.__version__.split(".")[:2])


def under_spark_submit(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether spark-submit started this process: then Java runs already, with its settings."""
    return "PYSPARK_GATEWAY_PORT" in environ


def is_local(master: str) -> bool:
    """Whether all of Spark runs on this machine, so that its sockets can be bound to loopback."""
    return master.startswith("local") or f"//{LOOPBACK}:" in master or "//localhost:" in master


@dataclass
class Starting:
    """A session that starts in a thread, beside other work."""

    start: "Callable[[Mapping[str, str]], Started]"
    pool: ThreadPoolExecutor
    progress: Progress
    future: "Future[tuple[Started, float]] | None" = None
    spark: "SparkSession | None" = None
    most_partitions: int = 0

    def begin(self, rows: int = 0) -> "Future[tuple[Started, float]]":
        """Start it with settings for about so many raw rows, if it was not started."""
        if self.future is None:
            self.future = self.pool.submit(self._timed, SHORT if rows < MANY_ROWS else {})
        return self.future

    def _timed(self, settings: Mapping[str, str]) -> tuple[Started, float]:
        begun = time.monotonic()
        return self.start(settings), time.monotonic() - begun

    def __call__(self, rows: int) -> "SparkSession":
        """The session, when it has started; no more partitions than so many raw rows need.

        Each query makes a file for each partition.
        """
        if self.spark is None:
            with self.progress.stage("starting Spark") as stage:
                started, seconds = self.begin(rows).result()
                stage.note = f"{started.description}, started in {seconds:.1f} s; waited for it"
            self.spark = started.spark
            self.most_partitions = int(self.spark.conf.get(_PARTITIONS) or 1)
        self.spark.conf.set(_PARTITIONS, min(self.most_partitions, max(2, rows // _ROWS_OF_A_PARTITION)))
        return self.spark


@contextmanager
def beside(master: str | None, progress: Progress, settings: Mapping[str, str] | None = None) -> Iterator[Starting]:
    """A session that starts when it is begun or asked for, and stops after the block; arguments as of `session`.

    If this process has Spark already, as a notebook does, that is used and stays; its settings do not change.
    """
    from pyspark.sql import SparkSession

    _refuse_connect(master)
    running = SparkSession.getActiveSession()  # each thread has its own

    def start(suitable: Mapping[str, str]) -> Started:
        if running is not None:
            return Started(_with_sql(running.newSession()), f"Spark {running.version}, which runs already")
        return stack.enter_context(session(master, {**suitable, **(settings or {})}))

    with ExitStack() as stack, ThreadPoolExecutor(1) as pool:
        starting = Starting(start, pool, progress)
        if under_spark_submit():  # YARN expects a session of every job
            starting.begin()
        yield starting


@contextmanager
def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[Started]:
    """Start a session; afterwards stop it and remove its temporary files.

    Args:
        master: Spark's master URL; None: local[*], or the one of spark-submit.
        settings: Spark settings that override those of this module.

    Raises:
        ReportError: there is no suitable Java, or the session does not start.
    """
    require_packages()
    _refuse_connect(master)
    if not os.environ.get(DEBUG):
        _silence_loggers()
    if under_spark_submit():
        with _stopping(_adopt(master), None) as spark:
            yield Started(spark, f"Spark {spark.version} by spark-submit on {spark.conf.get('spark.master')}")
        return
    with tempfile.TemporaryDirectory(prefix="sluice-report-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        java = find_java(os.environ, NEWEST if _version() >= _OLDEST_OF_JAVA_25 else 21)
        chosen = master or "local[*]"
        home = make_java_home(java, folder)
        with (
            _environment(chosen, home),
            _stopping(_launch(chosen, folder, home, settings or {}), home) as spark,
        ):
            yield Started(spark, f"Spark {spark.version} on {chosen}, Java {java.version} ({java.source})")


def _refuse_connect(master: str | None) -> None:
    """Raise ReportError for a server of Spark Connect: it reads no files of this machine."""
    from pyspark.sql import is_remote

    if is_remote() or "SPARK_REMOTE" in os.environ or (master or "").startswith("sc://"):
        raise ReportError("the jobs cannot run by Spark Connect: unset SPARK_REMOTE, and name a cluster by --master")


def _silence_loggers() -> None:
    """Keep py4j and pyspark from logging exceptions."""
    from pyspark.logger import PySparkLogger

    logging.getLogger().addHandler(logging.NullHandler())
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextmanager
def _stopping(spark: "SparkSession", home: Path | None) -> Iterator["SparkSession"]:
    """Stop the session after the block; home: of the Java that runs it, if it was started here."""
    try:
        yield spark
    except BaseException as error:
        if was_interrupted(error):
            _stop_apart(spark, home)
        else:
            spark.stop()
        raise
    spark.stop()


def _stop_apart(spark: "SparkSession", home: Path | None) -> None:
    """Stop it by another thread: the interrupt has broken this one's protocol with Java.

    If Java were just ended, a thread of pyspark would print a traceback.
    """

    def stop() -> None:
        with suppress(Exception):
            spark.stop()

    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    thread.join(STOPS_WITHIN)
    if thread.is_alive() and home is not None:
        stop_java(home)


@contextmanager
def _environment(master: str, java_home: Path) -> Iterator[None]:
    """Set the environment variables that pyspark passes to the JVM; restore them afterwards."""
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


def _launch(master: str, folder: Path, home: Path, settings: Mapping[str, str]) -> "SparkSession":
    from pyspark.sql import SparkSession

    for tool in ("bash", "chmod", "dirname"):
        if shutil.which(tool) is None:
            raise ReportError(f"Spark needs {tool}, which is not on PATH: install it, or add its folder to PATH")
    log = folder / "log4j2.properties"
    log.write_text(_LOG4J.replace("{level}", _log_level()), encoding="utf-8")
    jvm_options = {**_SETTINGS, **settings}[_JVM_OPTIONS]
    options = f"{jvm_options} -Dlog4j2.configurationFile={log.as_uri()} -Dderby.system.home={folder}"
    builder = SparkSession.builder.appName(APP_NAME).master(master)
    local = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK} if is_local(master) else {}
    own = {
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
    }
    for name, value in {**_SETTINGS, **_SQL, **local, **own, **settings, _JVM_OPTIONS: options}.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except KeyboardInterrupt:
        stop_java(home)
        raise
    except Exception as error:  # py4j and pyspark have no common exception for a JVM that does not start
        reason = str(error).partition("\n")[0]
        raise ReportError(f"Spark did not start on {master}: {reason}") from error
    if threading.current_thread() is threading.main_thread():
        # Spark's own handler calls Java in the middle of other calls.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    spark.sparkContext.setLogLevel(_log_level())
    if master != "local" and not master.startswith("local["):
        # The workers run our code, and have their own Python's path.
        from spark_jobs.bundle import ARCHIVE, write_bundle

        write_bundle(str(folder))
        spark.sparkContext.addPyFile(str(folder / ARCHIVE))
    return spark


def _log_level() -> str:
    return "ERROR" if os.environ.get(DEBUG) else "FATAL"


def _adopt(master: str | None) -> "SparkSession":
    """The session of spark-submit, with its settings and those of this module's SQL."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    return _with_sql((builder.master(master) if master else builder).getOrCreate())


def _with_sql(spark: "SparkSession") -> "SparkSession":
    for name, value in _SQL.items():
        spark.conf.set(name, value)
    return spark
