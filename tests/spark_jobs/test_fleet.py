"""The generated fleet: its counters reconcile, it is reproducible, and its rows contain the planted faults."""

from itertools import groupby
from pathlib import Path
from typing import Final

import pytest

from tests.support.broker.metrics import Row, check_books, metrics_files, read_rows, total
from tests.support.spark.fleet.generate import generate
from tests.support.spark.fleet.model import SECOND, Model, ModelError
from tests.support.spark.fleet.planted import Planted, Run, load

MODEL: Final = Model(sessions=90, brokers=2, length_us=3 * 3600 * SECOND, interval_us=300 * SECOND, rows=2200, files=10)
GATED: Final = ("congested", "window_full", "mailbox_busy", "backlog", "rate")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Planted, list[Row]]:
    """A small fleet: its folder, its planted faults, and all its rows."""
    root = tmp_path_factory.mktemp("fleet")
    planted = generate(MODEL, root, processes=1)
    return root, planted, read_rows(root)


def key(row: Row) -> tuple[str, str, int]:
    """The key of a row's session."""
    return row["broker"], row["client_id"], micros(row, "session_started")


def micros(row: Row, column: str) -> int:
    """A time as microseconds since 1970."""
    moment = row[column]
    return int(moment.timestamp()) * SECOND + int(moment.microsecond)


def every(row: Row, what: str) -> int:
    """A count over all QoS."""
    return sum(int(row[f"{what}_qos{qos}"]) for qos in range(3))


def starves(row: Row) -> bool:
    """Whether a connected client had deliveries offered or waiting and was sent nothing."""
    return row["connected"] and every(row, "waiting_start") + every(row, "offered") > 0 and not every(row, "sent")


def test_counters_reconcile(fleet: tuple[Path, Planted, list[Row]]) -> None:
    """Every row reconciles, follows the previous one without a gap, and starts with its waiting deliveries."""
    _, planted, rows = fleet
    assert len(rows) == planted.rows == MODEL.rows
    check_books(rows)


def test_size(fleet: tuple[Path, Planted, list[Row]]) -> None:
    """Rows, files and sessions have the requested numbers, and the file of planted faults agrees."""
    root, planted, rows = fleet
    assert len(metrics_files(root)) == planted.files == MODEL.files
    assert len({key(row) for row in rows}) == planted.sessions
    assert planted.totals["offered_qos1"] == total(rows, "offered_qos1")
    assert load(root) == planted


def test_starved_are_known(fleet: tuple[Path, Planted, list[Row]]) -> None:
    """The intervals without a delivery are exactly the planted ones."""
    _, planted, rows = fleet
    runs: dict[tuple[str, str, int], list[Run]] = {}
    for who, parts in groupby(sorted(rows, key=lambda row: (key(row), row["interval_end"])), key):
        for starving, group in groupby(parts, starves):
            if starving:
                run = list(group)
                times = micros(run[0], "interval_start"), micros(run[-1], "interval_end")
                offered = sum(every(row, "offered") for row in run)
                runs.setdefault(who, []).append(Run(*times, len(run), offered, every(run[-1], "waiting")))
    assert planted.starved(1) == runs
    assert 0 < len(planted.starved(3)) < len(planted.starved(2))


def test_inversions_are_known(fleet: tuple[Path, Planted, list[Row]]) -> None:
    """QoS 0 overtook waiting deliveries exactly as planted."""
    _, planted, rows = fleet
    past = 0
    for row in rows:
        waits = [row[f"waiting{when}_qos1"] + row[f"waiting{when}_qos2"] for when in ("_start", "")]
        if all(waits):
            gated = sum(row[f"gated_{reason}"] for reason in GATED)
            past += max(0, row["sent_qos0"] - row["waiting_start_qos0"] - gated)
    assert past == sum(found.inverted_qos0 for found in planted.of_kind("inverted")) > 0
    assert past == sum(found.inverted_qos0 for found in planted.found)


def test_ordinary_sessions_are_healthy(fleet: tuple[Path, Planted, list[Row]]) -> None:
    """Sessions without an episode are sent everything; nothing is dropped, gated, full or busy."""
    _, planted, rows = fleet
    unfair = {(found.broker, found.client_id) for found in planted.found}
    wrong = [f"gated_{reason}" for reason in GATED]
    wrong += ["congested_us", "window_full_us", "mailbox_busy_samples", "stalled_window", "slow_consumer"]
    for row in rows:
        if (row["broker"], row["client_id"]) not in unfair:
            assert [row[f"offered_qos{qos}"] for qos in range(3)] == [row[f"sent_qos{qos}"] for qos in range(3)]
            assert not any(row[name] for name in wrong)
            assert not every(row, "dropped")


@pytest.mark.once  # the processes find the tests by PYTHONPATH, which only the interpreted run has
def test_same_again(fleet: tuple[Path, Planted, list[Row]], tmp_path: Path) -> None:
    """The same model gives the same bytes, also with several processes."""
    root, planted, _ = fleet
    assert generate(MODEL, tmp_path, processes=2) == planted
    for path in metrics_files(root):
        assert (tmp_path / path.relative_to(root)).read_bytes() == path.read_bytes()


def test_nothing_planted(tmp_path: Path) -> None:
    """Without unfairness nothing is planted; by default each session has a row in every interval."""
    model = Model(20, 1, length_us=1200 * SECOND, interval_us=60 * SECOND, unfair=0, visitors=0)
    planted = generate(model, tmp_path)
    assert (planted.rows, planted.files, planted.found) == (400, 2, [])


@pytest.mark.parametrize(
    "wrong",
    [
        {"length_us": 60 * SECOND},
        {"sessions": 1},
        {"rows": 10**9},
        {"files": 1},
    ],
)
def test_refused(wrong: dict[str, int], tmp_path: Path) -> None:
    """An impossible fleet is refused; the message says what was expected."""
    with pytest.raises(ModelError, match=r"expected|too few|make"):
        generate(Model(**wrong), tmp_path)


def test_one_broker_may_have_most_sessions(tmp_path: Path) -> None:
    """With a skew of a half the first broker has half of all sessions, and the others share the rest."""
    model = Model(sessions=60, brokers=4, length_us=3600 * SECOND, interval_us=300 * SECOND, skew=0.5)
    planted = generate(model, tmp_path, processes=1)
    found = {row["broker"]: set[str]() for row in read_rows(tmp_path)}
    for row in read_rows(tmp_path):
        found[row["broker"]].add(row["client_id"])
    assert sorted(map(len, found.values())) == [10, 10, 10, 30]
    assert planted.sessions == 60
    for wrong in (Model(skew=0.5, rows=1000), Model(skew=0.5, brokers=1), Model(skew=1.5)):
        with pytest.raises(ModelError, match="skew"):
            wrong.check()
