"""A fleet's day, compacted hour by hour: `python tests/bench/fleet_hours.py --help`.

Makes the metrics of a fleet with the exporter's own code, then gives them to `compact` as they would come: an hour's
files, a run, the next hour's files, a run. Says for each hour how many files there were, what the run took, and the
highest memory of its driver (the command's own process and the driver's Java, if it starts one) and of all its
processes. Exit code 1 if the driver needs more than a tenth more memory in the last hours than in the first ones.

It can be done in pieces: hours that the store has are left out, so the same command with another `--until` goes on.
"""

import json
import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

if __name__ == "__main__":
    # As a script this file is found beside the tests, not through them.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.bench import program
from tests.bench.fairness.spent import MIB, Spent, spend
from tests.bench.fairness.steps import data
from tests.support.spark.fleet.model import SECOND, Model

EDGE = 3
"""Hours whose median is the first, and the last."""
MOST = 1.1
"""What the last hours may need beside the first."""


def hand_over(source: Path, metrics: Path) -> int:
    """Put the files of an hour into the metrics folder, without copying them; returns their number."""
    metrics.mkdir(parents=True, exist_ok=True)
    files = list(source.glob("*.parquet"))
    for file in files:
        os.link(file, metrics / file.name)
    return len(files)


def grown(spent: list[Spent]) -> float:
    """How many times as much memory the driver needed in the last hours as in the first."""
    first, last = (median(each.control for each in part) for part in (spent[:EDGE], spent[-EDGE:]))
    return last / first


def main(
    data_folder: Annotated[Path, typer.Option("--data", help="The fleet's files; made if missing.")],
    work: Annotated[Path, typer.Option(help="Metrics folder, store, logs and figures.")],
    brokers: int = 100,
    hours: int = 24,
    sessions: int = 500,
    interval: Annotated[int, typer.Option(help="Seconds from export to export.")] = 60,
    until: Annotated[int, typer.Option(help="Stop after so many hours; the next call goes on.")] = 24,
    master: Annotated[str | None, typer.Option(help="Spark's master; default: as `compact` chooses.")] = None,
) -> None:
    """Measure compaction hour by hour."""
    model = Model(
        sessions=sessions, brokers=brokers, length_us=hours * 3600 * SECOND, interval_us=interval * SECOND
    )

    def say(words: str) -> None:
        print(words, file=sys.stderr, flush=True)

    planted = data(model, data_folder.resolve(), say)
    work.mkdir(parents=True, exist_ok=True)
    notes = work / "hours.json"
    if not notes.exists():
        shutil.rmtree(work / "metrics", ignore_errors=True)
        shutil.rmtree(work / "store", ignore_errors=True)
    taken = json.loads(notes.read_text()) if notes.exists() else []
    folders = sorted(data_folder.resolve().glob("date=*/hour=*"))
    for number, folder in enumerate(folders[:until], 1):
        if number <= len(taken):
            continue
        files = hand_over(folder, work / "metrics" / folder.parent.name / folder.name)
        command = [sys.executable, "-m", "spark_jobs", "compact", "--quiet", "--slot", f"{interval}s"]
        command += ["--metrics", str(work / "metrics"), "--store", str(work / "store")]
        spent = spend([*command, *(["--master", master] if master else [])], work / f"compact-{number}.log")
        taken.append({"files": files, **asdict(spent)})
        notes.write_text(json.dumps(taken))
        print(
            f"hour {number:3}: {files:6,} files, {spent.wall:6.1f} s, {spent.cpu:6.1f} s of CPU, "
            f"driver {spent.control / MIB:5.0f} MiB, all processes {spent.memory / MIB:5.0f} MiB",
            flush=True,
        )
    runs = [Spent(**{name: value for name, value in row.items() if name != "files"}) for row in taken]
    print(f"{planted.rows:,} rows, {planted.files:,} files, {brokers} brokers, {len(runs)} of {len(folders)} hours")
    if len(runs) >= 2 * EDGE:
        growth = grown(runs)
        print(f"in the last hours the driver needed {growth:.2f} times the memory of the first; at most {MOST:g}")
        raise typer.Exit(growth > MOST)


if __name__ == "__main__":
    program.run(main)
