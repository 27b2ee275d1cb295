"""The timeline's windows."""

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.measures import timeline
from spark_jobs.store import schema
from tests.support.spark.compacted import MINUTE, NOON, collected, frame, slot
from tests.support.spark.metrics_files import histogram

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.once


def windows_of(spark: "SparkSession", rows: list[dict[str, Any]], slot_us: int, window_us: int) -> list[dict[str, Any]]:
    """The windows of slots."""
    slots = frame(spark, schema.TIMELINE, rows)
    return timeline.windows_of(collected(timeline.by_window(slots, slot_us, window_us, NOON)))


@given(st.integers(0, 10**9), st.integers(1, 10**7), st.sampled_from([1, 10, 60, 300]))
def test_a_window_is_a_whole_number_of_slots(first: int, length: int, slot_seconds: int) -> None:
    """For any range at most 400 points, and not unnecessarily few."""
    slot_us = slot_seconds * 1_000_000
    first_us, last_us = first * 1_000_000, (first + length) * 1_000_000
    window_us = timeline.choose_window(first_us, last_us, slot_us)
    assert window_us % slot_us == 0
    points = last_us // window_us - first_us // window_us + 1
    assert points <= timeline.MOST_POINTS
    assert window_us == slot_us or points >= timeline.MOST_POINTS // 2 - 1


def test_brokers_are_put_together_and_gaps_do_not_count(spark: "SparkSession") -> None:
    """Slots of two brokers are merged; an hour without reports covers at most two slots."""
    rows = [
        slot(0, "b1", offered_qos0=4, sent_qos0=1, fair_n_0=1, fair_x_0=100_000, fair_xx_0=10**10, fair_min_0=25_000),
        slot(0, "b2", offered_qos0=6, sent_qos0=6, fair_n_0=1, fair_x_0=0, fair_xx_0=0, fair_min_0=50_000),
        slot(1, "b1", rows=20, pressed_rows=1, gated_backlog=3, mailbox_max=8),
        slot(9, "b1", dropped_qos2=2),
        slot(62, "b1"),
    ]
    windows = windows_of(spark, rows, MINUTE, 60 * MINUTE)
    points = [row for row in timeline.timeline(windows, 60 * MINUTE) if row["qos"] == "0"]
    assert [row["start_us"] for row in points] == [NOON, NOON + 60 * MINUTE]
    first = points[0]
    assert (first["offered"], first["sent"], first["gated"], first["mailbox_max"]) == (10, 7, 3, 8)
    assert (first["jain_delivery_ratio"], first["lowest_delivery_ratio"]) == (0.5, 0.25)
    assert first["pressed_sessions"] == 0.05
    assert first["sent_per_second"] == pytest.approx(7 / 240)  # over two single slots and one that counts for two
    assert points[1]["sent_per_second"] == 0
    assert sum(window["passed_us"] for window in windows) == 63 * MINUTE  # of many windows together, gaps count


def test_latencies_are_of_all_slots_of_a_window(spark: "SparkSession") -> None:
    """The 99th percentile over both brokers and both slots, by QoS; null without values, and for all QoS."""
    rows = [
        slot(0, "b1", ack_qos1_buckets=histogram([100] * 90)),
        slot(0, "b2", ack_qos1_buckets=histogram([5_000] * 10), wait_qos0_buckets=histogram([0])),
        slot(1, "b1", ack_qos1_buckets=histogram([100] * 100)),
        slot(2, "b1"),
    ]
    windows = windows_of(spark, rows, MINUTE, 2 * MINUTE)
    points = {(row["start_us"], row["qos"]): row for row in timeline.timeline(windows, 2 * MINUTE)}
    first = points[NOON, "1"]
    assert (first["latency_p99_low"], first["latency_p99_high"]) == (4608, 5119)
    assert 4608 < first["latency_p99"] < 5119
    assert points[NOON, "0"]["latency_p99"] == 0
    assert points[NOON, "2"]["latency_p99"] is None
    assert points[NOON, "all"].get("latency_p99") is None
    assert points[NOON + 2 * MINUTE, "1"]["latency_p99"] is None
