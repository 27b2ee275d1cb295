"""Says how the code under test runs, compiled or interpreted, and refuses to test the wrong one.

`PYTHONPATH=. pytest` tests the source tree, interpreted. Plain `pytest` tests the installed wheel, which is
compiled where there is a C compiler. `SLUICE_EXPECT=compiled` or `=interpreted` makes a mix-up an error.
"""

import asyncio
import importlib.util
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from typing import TYPE_CHECKING, Final

import pytest
import uvloop
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler.protocol import Scheduling

SPARK_SECONDS: Final = 400
"""The limit of a test with Spark. One that is interrupted leaves Python and Java out of step, and fails all others."""

JOBS: Final = "tests/spark_jobs/"
COMPACTION: Final = "tests/spark_jobs/compaction/"
PAGE: Final = "tests/spark_jobs/page/"
"""Tests of the report's page, which need a browser and no Java."""
CLIENTS: Final = "tests/clients/"
"""Many tests that take long."""

PROBE: Final = "protocol.decoder"
"""A module that is always among the compiled ones."""


def how_it_runs() -> tuple[str, str]:
    """Return `compiled`, `interpreted` or `missing`, and the file that says so."""
    try:
        spec = importlib.util.find_spec(PROBE)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        return "missing", PROBE
    compiled = spec.origin.endswith(tuple(EXTENSION_SUFFIXES))
    return ("compiled" if compiled else "interpreted"), spec.origin


EXAMPLES: Final = 100 if "CI" not in os.environ else 50 if how_it_runs()[0] == "compiled" else 25
"""Of each property test. CI tries the same ones in each run; what runs interpreted is slower."""
# Time limits of single examples would only measure how busy the machine is; each test has a limit of its own.
settings.register_profile("sluice", deadline=None, max_examples=EXAMPLES)
settings.load_profile("sluice")


# Nothing of the report is compiled, and each worker would import Spark and pandas for it.
collect_ignore = ["spark_jobs"] if os.environ.get("SLUICE_EXPECT") == "compiled" else []

# Tests send SIGHUP to brokers, which inherit it as ignored if the tests were started by `nohup`.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """One session for all tests of a process: one processor."""
    pytest.importorskip("pyspark", reason="needs the extra `report`")
    from spark_jobs.spark import SHORT, session

    with session("local[1]", SHORT | {"spark.sql.shuffle.partitions": "1"}) as started:
        yield started.spark


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests with Spark their time, and have first what takes long: files with few tests, for the most part.

    Side by side the files are handed out in this order. What takes long at the end would be waited for by all.
    """
    counts = Counter(item.path for item in items)

    def turn(item: pytest.Item) -> tuple[bool, bool, int]:
        return not item.nodeid.startswith(JOBS), not item.nodeid.startswith(CLIENTS), counts[item.path]

    items.sort(key=turn)
    for item in items:
        by_spark = item.get_closest_marker("spark") or "spark" in getattr(item, "fixturenames", ())
        if by_spark and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SPARK_SECONDS))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "Scheduling | None":
    """With `--dist loadfile` have two processes run the tests of Spark jobs: each process has a Java of its own."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):  # type: ignore[misc]  # it has no types
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            if file.startswith(COMPACTION):
                return COMPACTION
            return JOBS if file.startswith(JOBS) and not file.startswith(PAGE) else file

    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run tests that await on asyncio's own loop; those whose mark asks for both on uvloop's too."""
    from broker.server.asyncio_transport import mend

    mend()  # as a broker does that runs on asyncio's own loop
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.SelectorEventLoop}
    marker = item.get_closest_marker("asyncio")
    if marker is not None and "loop_factories" in marker.kwargs:
        loops["uvloop"] = uvloop.new_event_loop
    return loops


def pytest_report_header() -> str:
    """Name what is tested at the head of each run."""
    how, where = how_it_runs()
    return f"sluice: {how} ({where})"


def pytest_sessionstart() -> None:
    """Stop a run that would test the wrong build."""
    expected = os.environ.get("SLUICE_EXPECT")
    if expected is None:
        return
    how, where = how_it_runs()
    if how != expected:
        reason = (
            f"SLUICE_EXPECT={expected}, but the code is {how} ({where}): set PYTHONPATH=. to test the sources; "
            "to test the compiled wheel, `make install` it and run the pytest script without PYTHONPATH"
        )
        pytest.exit(reason, returncode=pytest.ExitCode.USAGE_ERROR)
