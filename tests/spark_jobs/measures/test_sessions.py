"""Merging hours to clients, fairness by listener and client id prefix, and Lorenz curves."""

from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.measures import fairness, lorenz
from spark_jobs.measures.sessions import per_client
from spark_jobs.measures.top import WORST, by_table, first_of_each, window_full
from spark_jobs.store import schema
from tests.support.spark.compacted import HOUR, MINUTE, NOON, Row, collected, frame, session_hour

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.once


def sessions(spark: "SparkSession", rows: list[Row]) -> "DataFrame":
    """One row per client."""
    return per_client(frame(spark, schema.SESSIONS, rows))


def fair(spark: "SparkSession", rows: list[Row]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The rows of the table by scope, name and QoS."""
    each = sessions(spark, rows)
    groups = groups_of(fairness.largest_groups(each).collect())
    found = fairness.fairness(collected(fairness.by_scope(each, MINUTE, groups)), groups)
    return {(row["scope"], row["name"], row["qos"]): row for row in found}


def groups_of(rows: list[Any]) -> dict[str, list[str]]:
    """The names with rows of their own."""
    in_order = sorted(rows, key=lambda row: row["place"])
    return {
        scope: [row["name"] for row in in_order if row["scope"] == scope][: fairness.MOST_NAMES]
        for scope in fairness.GROUPED_BY
    }


def q0(client_id: str, offered: int, sent: int, **values: Any) -> Row:
    """An hour of a session with QoS 0 only."""
    return session_hour(client_id, offered_qos0=offered, sent_qos0=sent, dropped_qos0=offered - sent, **values)


def test_hours_and_sessions_of_a_client_add_up(spark: "SparkSession") -> None:
    """Counters are summed, gauges are maxima, and the listener is that of the last hour."""
    rows = [
        session_hour("a", 0, listener="z", offered_qos0=1, offered_qos2=2, mqueue_max=9, dropped_expired_qos1=4),
        session_hour("a", 1, listener="m", offered_qos1=3, mqueue_max=5, duration_us=HOUR * 2),
        session_hour("a", 2, listener="b", gated_backlog=2, gated_rate=3),
        session_hour("a", 0, listener="x", broker="b2"),
        session_hour("a", 0, session_started_us=NOON + 1),
    ]
    found = {r["broker"]: r for r in collected(sessions(spark, rows))}
    assert len(found) == 2
    one = found["b1"]
    assert (one["listener"], one["offered"], one["mqueue_max"], one["gated"], one["begun"]) == ("b", 6, 9, 5, 2)
    assert (one["rows"], one["connected_us"], one["overlong_hours"], one["dropped_expired"]) == (240, 4 * HOUR, 1, 4)
    assert found["b2"]["listener"] == "x"


def test_years_in_one_hour_do_not_overflow(spark: "SparkSession") -> None:
    """Comparisons of the longest possible times do not overflow."""
    each = sessions(spark, [session_hour(duration_us=1 << 62, window_full_us=1 << 62)])
    assert each.select("overlong_hours", window_full()).collect() == [(1, True)]


def test_known_answers(spark: "SparkSession") -> None:
    """Half as much for one of two gives J = 0.9; idle sessions and a drained backlog do not count."""
    found = fair(spark, [q0("a", 100, 100), q0("b", 100, 50), q0("idle", 0, 0), session_hour("c", offered_qos1=5)])
    row = found["all", "", "0"]
    assert (row["clients"], row["jain_delivery_ratio"], row["lowest_delivery_ratio"]) == (2, 0.9, 0.5)
    assert row["jain_goodput"] == pytest.approx(0.9, abs=1e-6)
    assert row["maxmin_goodput"] == pytest.approx(50 / 75, abs=1e-6)
    assert row["gini_goodput"] == pytest.approx(1 / 6, abs=1e-6)
    assert found["all", "", "all"]["clients"] == 3
    assert found["all", "", "1"]["jain_delivery_ratio"] is None
    assert found["all", "", "1"]["lowest_delivery_ratio"] == 0
    assert found["all", "", "2"]["clients"] == 0
    drained = fair(spark, [session_hour("a", offered_qos0=10, sent_qos0=30), q0("b", 10, 10)])
    assert drained["all", "", "0"]["jain_delivery_ratio"] == 1


def test_goodput_is_per_connected_time(spark: "SparkSession") -> None:
    """Half the time connected and half as much sent is the same goodput; very short connections do not count."""
    rows = [
        q0("a", 60, 60),
        q0("b", 30, 30, connected_us=HOUR // 2),
        q0("gone", 30, 0, connected_us=0),
        q0("glimpse", 30, 1, connected_us=MINUTE // 2),
    ]
    row = fair(spark, rows)["all", "", "all"]
    assert (row["clients"], row["goodput_clients"], row["left_out"]) == (3, 2, 1)
    assert (row["jain_goodput"], row["maxmin_goodput"], row["gini_goodput"]) == (1, 1, 0)
    assert row["mean_goodput"] == row["lowest_goodput"] == pytest.approx(1 / 60, abs=1e-9)


def test_scopes_are_listeners_and_client_prefixes(spark: "SparkSession") -> None:
    """Each listener and each of the largest client id prefixes has its own rows; the rest is one group, last."""
    rows = [q0(f"big-{i}", 10, 10 - i, client_prefix="big", listener="tls") for i in range(3)]
    rows += [q0(f"g{i:02}-x", 10, 10, client_prefix=f"g{i:02}") for i in range(31)]
    found = fair(spark, rows)
    assert found["listener", "tls", "0"]["lowest_delivery_ratio"] == 0.8
    assert found["listener", "tcp", "0"]["clients"] == 31
    groups = [name for scope, name, qos in found if scope == "client_prefix" and qos == "0"]
    assert groups[:2] == ["big", "g00"]
    assert groups[-1] == fairness.OTHERS
    assert len(groups) == fairness.MOST_NAMES + 1
    assert found["client_prefix", fairness.OTHERS, "0"]["clients"] == 2
    assert ("client_prefix", "big", "1") not in found


def test_lorenz_curves(spark: "SparkSession") -> None:
    """One of two sessions is sent everything: half of the sessions has 0 of the goodput and half of the offered."""
    each = sessions(spark, [q0("a", 10, 0), q0("b", 10, 10)])
    curves: dict[str, dict[float, float]] = {}
    for row in lorenz.lorenz(collected(lorenz.points(each, MINUTE))):
        curves.setdefault(row["what"], {})[row["share_clients"]] = row["share"]
    assert curves.keys() == set(lorenz.CURVES)
    assert all(len(curve) == 101 for curve in curves.values())
    assert (curves["goodput"][0.5], curves["delivery_ratio"][0.75], curves["offered"][0.5]) == (0, 0.5, 0.5)


def test_all_poorly_served_clients_are_counted(spark: "SparkSession") -> None:
    """Those below 95 % of what was due, of all and of each broker; at 95 % nobody, nor who missed it while away."""
    rows = [q0(f"poor-{n}", 100, 94) for n in range(40)]
    rows += [q0(f"other-{n}", 100, 0, broker="b2") for n in range(2)]
    rows += [q0(f"away-{n}", 100, 10, connected_us=HOUR // 2, away_dropped_qos0=90) for n in range(30)]
    waits = {"waiting_qos1": 80, "away_waiting_qos1": 80}
    rows += [session_hour(f"waits-{n}", offered_qos1=100, sent_qos1=20, **waits) for n in range(5)]
    rows += [q0("never", 100, 0, connected_us=0, away_dropped_qos0=100), q0("good", 100, 95)]
    found = fair(spark, rows)
    assert found["all", "", "all"]["poorly_served"] == found["all", "", "0"]["poorly_served"] == 42
    assert found["broker", "b1", "all"]["poorly_served"] == 40
    assert found["broker", "b2", "all"]["poorly_served"] == 2
    assert found["all", "", "1"]["poorly_served"] == 0
    assert [found["all", "", qos]["away"] for qos in ("all", "0", "1")] == [36, 31, 5]
    assert found["all", "", "all"]["clients"] == 78
    worst = by_table(collected(first_of_each(sessions(spark, rows))))[WORST]
    assert [row["client_id"][:5] for row in worst] == ["other"] * 2 + ["poor-"] * 18
