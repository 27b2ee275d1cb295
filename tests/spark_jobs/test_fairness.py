"""Jain's index and the order of the worst sessions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs import fairness
from tests.support_spark.metrics_files import at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COUNTERS = [f"{name}_qos{q}" for name in ("offered", "sent", "dropped") for q in range(3)]


def sessions(spark: "SparkSession", rows: Sequence[tuple[str, dict[str, int]]]) -> "DataFrame":
    """One row per session: its client id and the counters that are not 0."""
    ddl = "window_us bigint, broker string, client_id string, session_started timestamp"
    ddl += "".join(f", {name} bigint" for name in COUNTERS)
    data = [(0, "b1", name, at(0), *[counts.get(c, 0) for c in COUNTERS]) for name, counts in rows]
    return spark.createDataFrame(data, ddl)


def indices(frame: "DataFrame") -> dict[str, dict[str, Any]]:
    """The rows of fairness by QoS."""
    return {row["qos"]: row.asDict() for row in fairness.fairness(frame).collect()}


def q0(offered: int, sent: int, dropped: int = 0) -> dict[str, int]:
    """Counters of a session with QoS 0 only."""
    return {"offered_qos0": offered, "sent_qos0": sent, "dropped_qos0": dropped}


def test_known_answers(spark: "SparkSession") -> None:
    """Two of four share everything: 2/4. By hand for unequal ones: (1 + 1/2)² / (2 · 5/4) = 0.9."""
    half = [("a", q0(10, 10)), ("b", q0(10, 10)), ("c", q0(10, 0)), ("d", q0(10, 0))]
    found = indices(sessions(spark, half))
    assert found["0"]["jain_delivery_ratio"] == found["0"]["jain_goodput"] == 0.5
    assert found["0"]["sessions"] == 4
    assert found["0"]["lowest_delivery_ratio"] == 0
    found = indices(sessions(spark, [("a", q0(10, 10)), ("b", q0(10, 5))]))
    assert found["all"]["jain_delivery_ratio"] == 0.9


def test_ratio_and_goodput_differ(spark: "SparkSession") -> None:
    """Different amounts, all of them sent: alike by ratio, uneven by goodput, (1 + 3)² / (2 · 10)."""
    found = indices(sessions(spark, [("a", q0(10, 10)), ("b", q0(30, 30))]))
    assert found["0"]["jain_delivery_ratio"] == 1
    assert found["0"]["jain_goodput"] == 0.8


def test_a_backlog_sent_counts_as_all(spark: "SparkSession") -> None:
    """Sent three times what was offered, as a backlog drained, is no unfair advantage."""
    found = indices(sessions(spark, [("a", q0(10, 30)), ("b", q0(10, 10))]))
    assert found["0"]["jain_delivery_ratio"] == 1
    assert found["0"]["lowest_delivery_ratio"] == 1


def test_only_sessions_with_something_offered_count(spark: "SparkSession") -> None:
    """An idle session is not treated unfairly; QoS by QoS."""
    rows = [("a", q0(10, 10)), ("b", {"offered_qos1": 4, "sent_qos1": 2}), ("idle", q0(0, 0))]
    found = indices(sessions(spark, rows))
    assert [found[q]["sessions"] for q in ("all", "0", "1", "2")] == [2, 1, 1, 0]
    assert found["1"]["jain_delivery_ratio"] == 1
    assert found["1"]["lowest_delivery_ratio"] == 0.5


def test_no_index_where_it_is_not_defined(spark: "SparkSession") -> None:
    """Nobody offered anything, or nobody was sent anything: null, not 0 and not 1."""
    assert indices(sessions(spark, [("idle", {})]))["all"]["jain_delivery_ratio"] is None
    starved = indices(sessions(spark, [("a", q0(5, 0)), ("b", q0(5, 0))]))["all"]
    assert starved["jain_delivery_ratio"] is None
    assert starved["jain_goodput"] is None
    assert starved["lowest_delivery_ratio"] == 0


def test_by_window(spark: "SparkSession") -> None:
    """With a key there is an index for each of its values."""
    frame = sessions(spark, [("a", q0(10, 10)), ("b", q0(10, 0))])
    rows = fairness.fairness(frame, ["window_us"]).collect()
    assert {(row["window_us"], row["qos"]) for row in rows} == {(0, "all"), (0, "0"), (0, "1"), (0, "2")}


def test_the_worst_come_first(spark: "SparkSession") -> None:
    """By delivery ratio, then more drops, then name; without idle sessions; no more than asked for."""
    rows = [
        ("good", q0(10, 10)),
        ("idle", {}),
        ("b-half", q0(10, 5, 5)),
        ("a-half", q0(10, 5, 5)),
        ("half-waiting", q0(10, 5, 0)),
        ("none", q0(1, 0, 1)),
    ]
    frame = sessions(spark, rows)
    names = [row["client_id"] for row in fairness.worst_sessions(frame, 20).collect()]
    assert names == ["none", "a-half", "b-half", "half-waiting", "good"]
    assert fairness.worst_sessions(frame, 2).count() == 2
