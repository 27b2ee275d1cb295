"""Both sides, step by step, each in a process of its own."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.fairness import compare
from tests.bench.fairness.spent import Spent, spend
from tests.support.spark.fleet.generate import generate
from tests.support.spark.fleet.model import Model
from tests.support.spark.fleet.planted import Planted, load, model_of

_START: Final = """
import sys
from spark_jobs.spark import session
with session(sys.argv[1]) as started:
    started.spark.range(1000).count()
"""
"""An empty session and the smallest job: what is not counted for Spark."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Side:
    """The cost of one side: of the start alone, and of the steps with it."""

    start: Spent
    compact: Spent
    report: Spent

    def net(self, step: str) -> Spent:
        """A step without the start; a step that has not started Java, beside a start that has, as it is."""
        spent: Spent = getattr(self, step)
        return spent if self.start.driver and not spent.driver else spent.without(self.start)


@dataclass(frozen=True)
class Round:
    """Both sides on the same files."""

    planted: Planted
    spark: Side
    duck: Side
    differences: list[str]


def data(model: Model, root: Path, say: Say) -> Planted:
    """Generate a data set, or use the existing one if it has the same model."""
    if (root / "planted.json").exists() and model_of(root) == model:
        say(f"taking the data set that is there: {root}")
        return load(root)
    if root.exists() and any(root.iterdir()):
        raise FileExistsError(f"{root}: holds another data set; remove it, or name another folder")
    say(f"making a data set: {root}")
    return generate(model, root, progress=lambda rows: say(f"  {rows:,} rows"))


def run(model: Model, root: Path, work: Path, master: str, say: Say) -> Round:
    """Run both sides and compare their results.

    Args:
        model: the data set.
        root: its folder.
        work: gets stores, reports and logs; emptied by the caller.
        master: Spark's master, `local[N]`; DuckDB gets as many threads as there are processors.
        say: told of each step.
    """
    planted = data(model, root, say)
    work.mkdir(parents=True, exist_ok=True)
    duck = _duck(model, root, work, say)
    spark = _spark(model, root, work, master, say)
    say("comparing")
    differences = compare.compacted(work / "spark-store", work / "duck-store")
    differences += compare.reported(work / "spark-report", work / "duck-report")
    return Round(planted, spark, duck, differences)


def _duck(model: Model, root: Path, work: Path, say: Say) -> Side:
    def step(name: str, *arguments: object) -> Spent:
        say(f"DuckDB: {name}")
        command = [sys.executable, "-m", "tests.bench.fairness.duck", name, "--slot-us", str(model.interval_us)]
        command += ["--threads", str(len(os.sched_getaffinity(0))), *map(str, arguments)]
        return spend(command, work / f"duck-{name}.log")

    store = work / "duck-store"
    return Side(
        step("nothing"),
        step("compact", "--metrics", root, "--store", store),
        step("report", "--store", store, "--out", work / "duck-report"),
    )


def _spark(model: Model, root: Path, work: Path, master: str, say: Say) -> Side:
    def step(name: str, *arguments: object) -> Spent:
        say(f"Spark: {name}")
        command = [sys.executable, *map(str, arguments)]
        return spend(command, work / f"spark-{name}.log")

    store = work / "spark-store"
    job = ("-m", "spark_jobs")
    slot = f"{model.interval_us // 1_000_000}s"
    return Side(
        step("start", "-c", _START, master),
        step("compact", *job, "compact", "--metrics", root, "--store", store, "--slot", slot, "--master", master),
        step("report", *job, "report", "--store", store, "--out", work / "spark-report", "--master", master),
    )
