"""Constants derived from the schema file."""

import pytest

from spark_jobs import metrics

pytestmark = pytest.mark.once


def test_reasons_come_from_the_columns_in_their_order() -> None:
    """Gate and drop reasons are those that the schema file has columns for."""
    assert metrics.GATE_REASONS == ("congested", "window_full", "mailbox_busy", "backlog", "rate")
    assert metrics.DROP_REASONS == (
        "queue_full",
        "expired",
        "too_large",
        "offline_qos0",
        "session_ended",
        "not_permitted",
        "aged",
    )


def test_a_reason_has_a_column_only_where_it_can_be() -> None:
    """The drop reason offline_qos0 exists for QoS 0 only."""
    assert metrics.drop_column("offline_qos0", 0) == "dropped_offline_qos0_qos0"
    assert metrics.drop_column("offline_qos0", 1) is None
    assert metrics.drop_column("expired", 2) == "dropped_expired_qos2"


def test_counters_are_what_adds_up() -> None:
    """Gauges such as lengths, maxima and limits are not among the counters; durations are."""
    counters = {"offered_qos0", "sent_bytes", "congested_us", "waiting_qos2", "window_bytes_full_us", "slow_consumer"}
    assert counters <= set(metrics.COUNTERS)
    gauges = {"mqueue_len", "mqueue_bytes", "window_bytes", "mailbox_max", "window_limit", "awaiting_rel_len"}
    assert gauges.isdisjoint(metrics.COUNTERS)


def test_histograms_are_six_of_256_buckets() -> None:
    """Mailbox length, waiting time by QoS, acknowledgement time of QoS 1 and 2."""
    assert len(metrics.HISTOGRAMS) == 6
    assert metrics.BUCKETS == 256
