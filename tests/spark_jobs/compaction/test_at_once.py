"""Two compactions and three reports at once, some of them killed: every report is that of one version of the store."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest

import spark_jobs
from spark_jobs.store.store import open_store
from tests.support.spark.compacting import HOUR, Run, minutes, rows_of, tables
from tests.support.spark.metrics_files import write_file

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(900)]

ROUNDS: Final = 10
HOURS: Final = 3
PACKAGE: Final = str(Path(spark_jobs.__file__).parents[1])


def started(*arguments: object) -> "subprocess.Popen[bytes]":
    """A command of its own."""
    command = [sys.executable, "-m", "spark_jobs", *map(str, arguments), "--quiet"]
    environment = {**os.environ, "PYTHONPATH": PACKAGE}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )


def write_round(raw: Path, number: int) -> None:
    """One more minute of a session in each of some hours: whoever sees a part of it sees different hours."""
    for hour in range(HOURS):
        folder = raw / HOUR.replace("hour=12", f"hour={12 + hour:02}")
        write_file(folder / f"{number}.parquet", minutes(60 * hour + number + 1))


def minutes_by_hour(out: Path) -> list[int]:
    """How many deliveries were offered in each hour, by a report."""
    table = pq.read_table(out / "tables" / "hours.parquet")
    return [offered // 3 for offered in table["offered"].to_pylist()]


def test_every_report_is_of_one_version(run: Run, tmp_path: Path) -> None:
    """No reader fails, no report mixes versions, and after kill -9 the store is that of one run over all files."""
    rng = random.Random(5)
    raw, store = tmp_path / "raw", tmp_path / "store"
    write_round(raw, 0)
    run(raw, store)
    for number in range(1, ROUNDS + 1):
        write_round(raw, number)
        reports = [tmp_path / f"out{each}" for each in range(3)]
        writers = [started("compact", "--metrics", raw, "--store", store) for _ in range(2)]
        readers = [started("report", "--store", store, "--out", out) for out in reports]
        time.sleep(rng.uniform(0.5, 3))  # the moment of the kill is what is random, nothing is waited for
        os.killpg(writers[0].pid, signal.SIGKILL)
        for process in (*writers, *readers):
            _, said = process.communicate(timeout=200)
            assert process.returncode == (-signal.SIGKILL if process is writers[0] and process.returncode else 0), said
        for out in reports:
            assert minutes_by_hour(out) in ([number] * HOURS, [number + 1] * HOURS)
            shutil.rmtree(out)
    run(raw, store)
    run(raw, tmp_path / "alone")
    assert tables(store) == tables(tmp_path / "alone")
    assert [row["rows"] for row in rows_of(open_store(str(store)).sessions())] == [ROUNDS + 1] * HOURS
