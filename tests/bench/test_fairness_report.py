"""The benchmark of the fairness report: DuckDB's side finds the planted faults; costs are those of whole trees."""

import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.bench.fairness.spent import CommandError, Spent, spend
from tests.support.spark.fleet.generate import generate
from tests.support.spark.fleet.model import SECOND, Model
from tests.support.spark.fleet.planted import Planted

pytestmark = pytest.mark.once

MODEL: Final = Model(sessions=60, brokers=2, length_us=2 * 3600 * SECOND, interval_us=300 * SECOND)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Planted, dict[str, list[dict[str, Any]]]]:
    """The planted faults of a tiny fleet, and DuckDB's results, as rows by name."""
    pytest.importorskip("duckdb", reason="the benchmark needs duckdb: pip install 'sluice-mqtt[bench]'")
    import pyarrow.parquet as pq

    from tests.bench.fairness import duck

    root = tmp_path_factory.mktemp("bench")
    planted = generate(MODEL, root / "metrics", processes=1)
    connection = duck.connect(1)
    duck.compact(connection, root / "metrics", root / "store", MODEL.interval_us)
    duck.report(connection, root / "store", root / "out")
    made = sorted(root.glob("store/*.parquet")) + sorted(root.glob("out/*.parquet"))
    return planted, {path.stem: pq.read_table(path).to_pylist() for path in made}


def test_sums(found: tuple[Planted, dict[str, list[dict[str, Any]]]]) -> None:
    """DuckDB's sums by session and hour, and by slot, are those of the rows."""
    planted, rows = found
    for name, many in (("sessions", rows["sessions"]), ("timeline", rows["timeline"])):
        for column in ("offered_qos0", "sent_qos1", "dropped_qos0", "acknowledged_qos2", "gated_congested"):
            assert sum(row[column] for row in many) == planted.totals[column], (name, column)
        assert sum(row["rows"] for row in many) == planted.rows
    samples = sum(entry // 256 for row in rows["sessions"] for entry in row["ack_qos1_buckets"] or ())
    assert samples == planted.totals["acknowledged_qos1"]


def test_planted(found: tuple[Planted, dict[str, list[dict[str, Any]]]]) -> None:
    """DuckDB finds the starved sessions with their runs, merged across hours, and every inversion."""
    planted, rows = found
    starved = {
        (row["broker"], row["client_id"]): (row["runs"], row["longest_intervals"])
        for row in rows["starved_sessions"]
    }
    assert starved == {
        who[:2]: (len(runs), max(run.intervals for run in runs)) for who, runs in planted.starved().items()
    }
    (inversion,) = rows["inversion"]
    inverted = planted.of_kind("inverted")
    assert inversion["inverted_qos0"] == sum(each.inverted_qos0 for each in inverted)
    assert inversion["blocked_rows"] == sum(each.blocked_rows for each in planted.found)


def test_measures(found: tuple[Planted, dict[str, list[dict[str, Any]]]]) -> None:
    """Lorenz curves go from 0 to 1 and are never above the diagonal; shares and indices are between 0 and 1."""
    _, rows = found
    for what in ("goodput", "delivery_ratio", "offered"):
        curve = [(row["share_clients"], row["share"]) for row in rows["lorenz"] if row["what"] == what]
        assert len(curve) == 101
        assert (curve[0], curve[-1]) == ((0, 0), (1, pytest.approx(1)))
        assert all(share <= sessions + 1e-9 for sessions, share in curve)
    (everybody,) = (row for row in rows["fairness"] if (row["scope"], row["qos"]) == ("all", "all"))
    assert 0 < everybody["jain_goodput"] < everybody["jain_delivery_ratio"] < 1
    assert 0 < everybody["gini_delivery_ratio"] < everybody["gini_goodput"] < 1


def test_spent(tmp_path: Path) -> None:
    """Processor time of started processes is counted, also if the command does not wait for them."""
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    leave = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {burn!r}])"
    spent = spend([sys.executable, "-c", leave], tmp_path / "log")
    assert spent.cpu >= 0.3
    assert spent.wall >= 0.3
    assert spent.memory > 1 << 20
    assert spent.without(Spent(0.1, 0.2, 0)).cpu == pytest.approx(spent.cpu - 0.2)


def test_spent_by_unwaited(tmp_path: Path) -> None:
    """Processor time is counted too of processes that nobody waits for, as Spark's Python workers."""
    burn = "import time\nwhile time.process_time() < 1: pass"
    leave = (
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        f"subprocess.Popen([sys.executable, '-c', {burn!r}]).wait()"
    )
    spent = spend([sys.executable, "-c", leave], tmp_path / "log")
    assert 0.5 <= spent.cpu < 1.9


def test_command_that_fails(tmp_path: Path) -> None:
    """A command that fails is an error with the command's output."""
    with pytest.raises(CommandError, match="no such luck"):
        spend([sys.executable, "-c", "raise SystemExit('no such luck')"], tmp_path / "log")
