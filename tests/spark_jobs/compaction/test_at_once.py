"""Two compactions and three reports at the same time, killed at random: each report is of one version of the store.

`SLUICE_KILL_ROUNDS=50` makes fifty rounds.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest

import spark_jobs
from spark_jobs.cli import main
from spark_jobs.store.store import open_store
from tests.support.spark.compacting import HOUR, Run, minutes, rows_of, tables
from tests.support.spark.metrics_files import write_file

ROUNDS: Final = int(os.environ.get("SLUICE_KILL_ROUNDS", "10"))
SEED: Final = int(os.environ.get("SLUICE_KILL_SEED", "0"))
pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(300 + 100 * ROUNDS)]

WRITERS: Final = 2
READERS: Final = 3
HOURS: Final = 3
PACKAGE: Final = str(Path(spark_jobs.__file__).parents[1])


def started(*arguments: object) -> "subprocess.Popen[bytes]":
    """A command in a process of its own."""
    command = [sys.executable, "-m", "spark_jobs", *map(str, arguments), "--quiet"]
    environment = {**os.environ, "PYTHONPATH": PACKAGE}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )


def write_round(raw: Path, number: int) -> None:
    """Add one minute of a session to each of some hours: a reader of a mixture would see hours that differ."""
    for hour in range(HOURS):
        folder = raw / HOUR.replace("hour=12", f"hour={12 + hour:02}")
        write_file(folder / f"{number}.parquet", minutes(60 * hour + number + 1))


def minutes_by_hour(out: Path) -> list[int]:
    """How many deliveries were offered in each hour, by a report."""
    table = pq.read_table(out / "tables" / "hours.parquet")
    return [offered // 3 for offered in table["offered"].to_pylist()]


def content(out: Path) -> Mapping[str, bytes]:
    """All files of a report."""
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def version_of(out: Path) -> int:
    """The version of the store that a report has read."""
    [run] = json.loads((out / "summary.json").read_text())["runs"]
    version: int = run["store_version"]
    return version


def kill(processes: list["subprocess.Popen[bytes]"], rng: random.Random, longest: float) -> None:
    """Kill -9 each with a probability of one half, at a random moment; no condition is waited for."""
    killed = sorted((rng.uniform(0.1, longest), number) for number in range(len(processes)) if rng.random() < 0.5)
    for (before, _), (moment, number) in pairwise([(0.0, 0), *killed]):
        time.sleep(moment - before)  # the moment is what is drawn: there is no condition to wait for
        os.killpg(processes[number].pid, signal.SIGKILL)  # none is reaped yet, so the number is its own


class Rounds:
    """A store that processes change and read at the same time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.raw, self.store = folder / "raw", folder / "store"
        self.least = 1
        """Files of each hour that the store surely has."""
        self.compared = self.killed = 0
        self.versions: set[int] = set()

    def round(self, number: int, longest: float = 0) -> float:
        """Add files, start all processes, kill some of them within `longest` seconds, and check what the others did.

        Returns how long the processes took.
        """
        write_round(self.raw, number)
        began = time.monotonic()
        outs = [self.folder / f"out{each}" for each in range(READERS)]
        writers = [started("compact", "--metrics", self.raw, "--store", self.store) for _ in range(WRITERS)]
        readers = [started("report", "--store", self.store, "--out", out) for out in outs]
        if longest:
            kill([*writers, *readers], random.Random(f"{SEED} {number}"), longest)
        for process in (*writers, *readers):
            _, said = process.communicate(timeout=600)
            assert process.returncode in {0, -signal.SIGKILL}, said
            self.killed += process.returncode != 0
        took = time.monotonic() - began
        for out, reader in zip(outs, readers, strict=True):
            if reader.returncode == 0:
                self.check(out, number)
            shutil.rmtree(out, ignore_errors=True)
        if any(writer.returncode == 0 for writer in writers):
            self.least = number + 1
        return took

    def check(self, out: Path, number: int) -> None:
        """A report has the files of one moment, and is the one that is made alone on the same version."""
        [found] = set(minutes_by_hour(out))
        assert self.least <= found <= number + 1
        version = version_of(out)
        alone = self.folder / "alone"
        shutil.rmtree(alone, ignore_errors=True)
        asked = ["--store", str(self.store), "--store-version", str(version), "--out", str(alone), "--quiet"]
        assert main(["report", *asked]) == 0
        assert content(out) == content(alone)
        self.versions.add(version)
        self.compared += 1


def test_every_report_is_of_one_version(run: Run, tmp_path: Path) -> None:
    """Who is not killed does not fail, each report is one made alone, and the store ends as that of a single run."""
    rounds = Rounds(tmp_path)
    write_round(rounds.raw, 0)
    run(rounds.raw, rounds.store)
    longest = rounds.round(1)
    for number in range(2, ROUNDS + 1):
        rounds.round(number, longest)
    print(f"{ROUNDS} rounds: {rounds.killed} killed, {rounds.compared} reports of {len(rounds.versions)} versions")
    run(rounds.raw, rounds.store)
    run(rounds.raw, tmp_path / "whole")
    assert tables(rounds.store) == tables(tmp_path / "whole")
    assert [row["rows"] for row in rows_of(open_store(str(rounds.store)))] == [ROUNDS + 1] * HOURS
    assert rounds.compared > ROUNDS // 2
    assert rounds.killed
