"""A compaction that is ended while it writes: the store stays as it was, and the next run finishes the work."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.compaction.compact import WORK, Options, compact
from spark_jobs.compaction.store import open_store
from spark_jobs.progress import Progress
from tests.support.spark.metrics_files import row, write_metrics
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

NOON, AFTER = 60, 3660  # seconds after noon: of two hours


def compacted(spark: "SparkSession", metrics: Path, store: Path) -> int:
    """Bring a store up to date; returns how many hours were made."""
    options = Options(str(metrics), str(store), 60_000_000)
    return compact(options, lambda rows: spark, Progress(quiet=True)).hours


def held(spark: "SparkSession", store: Path) -> list[str]:
    """What the store says of the sessions."""
    return sorted(map(str, open_store(spark, str(store)).sessions().collect()))


def started(metrics: Path, store: Path, **environment: str) -> "subprocess.Popen[str]":
    """A compaction in a process group of its own, as from a shell."""
    command = [sys.executable, "-m", "spark_jobs", "compact", "--metrics", str(metrics), "--store", str(store)]
    package = str(Path(sys.modules[compact.__module__].__file__ or "").parents[2])
    return subprocess.Popen(
        [*command, "--quiet", "--master", "local[1]"],
        env={**os.environ, "PYTHONPATH": package, **environment},
        start_new_session=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_interrupted_while_it_writes(tmp_path: Path) -> None:
    """Ctrl-C ends it with one word and code 130; it leaves neither Java, nor temporary files, nor its lock."""
    metrics, store, scratch = tmp_path / "metrics", tmp_path / "store", tmp_path / "scratch"
    scratch.mkdir()
    write_metrics(metrics, [row("a", NOON, 60, offered_qos0=1, sent_qos0=1)])
    process = started(metrics, store, TMPDIR=str(scratch))
    try:
        wait_until(lambda: any((store / WORK).rglob("*")) or process.poll() is not None, "something written", 120)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, said) == (130, "interrupted\n")
    assert list(scratch.glob("sluice-*")) == []
    assert not (store / "lock.json").exists()


def test_killed_while_it_writes(spark: "SparkSession", tmp_path: Path) -> None:
    """After kill -9 the old hours are whole, nothing is to be tidied up by hand, and the next run makes the new one."""
    metrics, store, whole = tmp_path / "metrics", tmp_path / "store", tmp_path / "whole"
    write_metrics(metrics, [row("a", NOON, 60, offered_qos0=1, sent_qos0=1)])
    assert compacted(spark, metrics, store) == 1
    before = held(spark, store)
    write_metrics(metrics, [row("b", AFTER, 60, offered_qos0=2, sent_qos0=2)])
    process = started(metrics, store)
    try:
        wait_until(lambda: any((store / WORK).rglob("*")) or process.poll() is not None, "something written", 120)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert held(spark, store) == before
    assert compacted(spark, metrics, store) == 1
    assert not (store / WORK).exists()
    assert compacted(spark, metrics, whole) == 2
    assert held(spark, store) == held(spark, whole)
    shutil.rmtree(whole)
