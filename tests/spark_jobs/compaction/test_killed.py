"""A compaction that is killed while it writes: the store is unchanged, and the next run completes it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.compaction.compact import compact
from spark_jobs.store.schema import SESSIONS
from spark_jobs.store.store import open_store
from tests.support.spark.compacting import NEXT, Run, minutes, rows_of, tables
from tests.support.spark.metrics_files import row, write_file, write_metrics
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def held(store: Path) -> list[str]:
    """The store's sessions."""
    return tables(store)["sessions"]


def started(store: Path, *options: object, **environment: str) -> "subprocess.Popen[str]":
    """The command in its own process group, as from a shell."""
    command = [sys.executable, "-m", "spark_jobs", "compact", "--quiet", "--store", str(store)]
    package = str(Path(sys.modules[compact.__module__].__file__ or "").parents[2])
    return subprocess.Popen(
        [*command, *map(str, options)],
        env={**os.environ, "PYTHONPATH": package, **environment},
        start_new_session=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.slow
def test_interrupted_while_it_writes(tmp_path: Path) -> None:
    """Ctrl-C ends it with one line and code 130; no Java process and no temporary file remains."""
    metrics, store, scratch = tmp_path / "metrics", tmp_path / "store", tmp_path / "scratch"
    scratch.mkdir()
    write_metrics(metrics, [row("a", 60, 60, offered_qos0=1, sent_qos0=1)])
    process = started(store, "--metrics", metrics, "--master", "local[1]", TMPDIR=str(scratch))
    try:
        running = f"{SESSIONS}/*/date=*"
        wait_until(lambda: any(store.glob(running)) or process.poll() is not None, "something written", 120)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, said) == (130, "interrupted\n")
    assert list(scratch.glob("sluice-*")) == []


@pytest.mark.slow
def test_killed_while_it_writes(run: Run, two_hours: tuple[Path, Path]) -> None:
    """After kill -9 the old hours are intact, and the next run builds the new hour without manual cleanup."""
    metrics, store = two_hours
    whole = held(store)
    write_file(metrics / NEXT / "c.parquet", minutes(62))
    process = started(store, "--metrics", metrics, "--master", "local[1]")
    try:
        running = f"{SESSIONS}/*/date=*"
        wait_until(lambda: any(store.glob(running)) or process.poll() is not None, "something written", 120)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert held(store) == whole
    assert run(metrics, store).hours == 1
    assert [made["rows"] for made in rows_of(open_store(str(store)))] == [2, 2]


@pytest.mark.slow
def test_killed_while_it_forgets(run: Run, two_hours: tuple[Path, Path]) -> None:
    """After kill -9 all rows are there or none of the client's, and the command ends what it began."""
    metrics, store = two_hours
    write_file(metrics / NEXT / "c.parquet", minutes(62, client="gone"))
    run(metrics, store)
    whole = held(store)
    process = started(store, "--forget", "gone")
    try:
        written = "erased/*/rows.parquet"
        wait_until(lambda: any(store.glob(written)) or process.poll() is not None, "something written", 120)
    finally:
        process.kill()
        process.communicate()
    rest = [made for made in whole if "gone" not in made]
    assert held(store) in (whole, rest)
    again = started(store, "--forget", "gone")
    assert again.communicate(timeout=60)[0].startswith(f"{store}: client gone forgotten, ")
    assert held(store) == rest
    assert len(rest) == len(whole) - 1
