"""Stores of two hours for the tests of the batch jobs, and the rows of two small runs."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.spark.compacting import Run, runner, write_two_hours
from tests.support.spark.metrics_files import Row, histogram, row, write_metrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def run(spark: "SparkSession") -> Run:
    """Updates a store; with `idle`, there must be nothing to do."""
    return runner(spark)


@pytest.fixture(scope="session")
def _two_hours(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two_hours")
    write_two_hours(folder / "raw")
    run(folder / "raw", folder / "store")
    return folder


@pytest.fixture(scope="session")
def small_store(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of the twelve seconds of `slow_and_fast`, with the gate, that no test changes."""
    folder = tmp_path_factory.mktemp("small")
    write_metrics(folder / "metrics", slow_and_fast(gate=True))
    run(folder / "metrics", folder / "store", slot_us=None)
    return folder / "store"


@pytest.fixture
def two_hours(_two_hours: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Copies of one store for all tests: `raw`, the metrics of two hours, and `store`, compacted from them."""
    shutil.copytree(_two_hours, tmp_path, dirs_exist_ok=True)  # with their times, by which a store recognizes files
    return tmp_path / "raw", tmp_path / "store"


def slow_and_fast(gate: bool) -> list[Row]:
    """Twelve seconds of a session that gets all deliveries and one that gets a part, gate off or on."""
    rows = []
    for second in range(1, 13):
        pressed: dict[str, Any] = {}
        sent = 10
        if 4 <= second < 8:
            sent = 4
            pressed = {"congested_us": 500_000, "dropped_qos0": 6, "dropped_queue_full_qos0": 6}
            if gate:
                pressed["gated_congested"] = 6
        ack = 1000 if gate else 9000
        common = {
            "offered_qos0": 10,
            "offered_qos1": 5,
            "sent_qos1": 5,
            "acknowledged_qos1": 5,
            "mailbox_samples": 2,
            "mailbox_max": 3 if gate else 40,
            "mailbox_buckets": histogram([0, 3 if gate else 40]),
            "wait_qos0_buckets": histogram([100] * 4),
            "ack_qos1_buckets": histogram([ack] * 5),
        }
        rows.append(row("fast", second, 1, **common, sent_qos0=10))
        rows.append(row("slow", second, 1, **common, sent_qos0=sent, **pressed))
    return rows
