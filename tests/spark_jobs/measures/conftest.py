"""A small store of handwritten hours, measured once for all tests of the result."""

from typing import TYPE_CHECKING

import pytest

from spark_jobs.measures.frames import Finding, SourceFile, StoreFrames
from spark_jobs.measures.measure import measure
from spark_jobs.measures.result import Result
from spark_jobs.progress import Progress
from tests.support.spark.compacted import HOUR, MINUTE, NOON, Row, session_hour, slot, starved_run, store_frames
from tests.support.spark.metrics_files import histogram

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOURS = 3
HOSTILE = "=cmd|' /C calc'!A0,\"<script>alert(1)</script>\"\r\n" + "x" * 65_000


def good(hour: int) -> Row:
    """Everything is sent; some of it under pressure."""
    return session_hour(
        "good-1",
        hour,
        client_prefix="good",
        offered_qos0=600,
        sent_qos0=600,
        offered_qos1=60,
        sent_qos1=60,
        acknowledged_qos1=60,
        waiting_start_qos0=3,
        waiting_qos0=3,
        gated_congested=6,
        pressed_us=6 * MINUTE,
        pressed_rows=6,
        pressed_offered_qos0=60,
        pressed_sent_qos0=50,
        pressed_dropped_qos0=10,
        wait_qos0_buckets=histogram([100] * 500 + [5000] * 100),
        pressed_wait_qos0_buckets=histogram([5000] * 100),
        ack_qos1_buckets=histogram([1000] * 60),
        received_qos0=10,
        received_bytes=1000,
        mailbox_samples=10,
        mailbox_busy_samples=2,
        mailbox_max=12,
        mailbox_buckets=histogram([0] * 8 + [12] * 2),
        inverted_qos0=2 if hour == 1 else 0,
        blocked_rows=4,
    )


def slow(hour: int) -> Row:
    """Half of it is dropped; the window is full for a third of the time, and seven minutes are starved."""
    return session_hour(
        "slow-1",
        hour,
        client_prefix="slow",
        listener="tls",
        offered_qos0=600,
        sent_qos0=300,
        dropped_qos0=300,
        dropped_queue_full_qos0=300,
        window_full_us=20 * MINUTE,
        stalled_window=1,
        paced_for_us=3 * MINUTE,
        mqueue_max=100,
        starved_rows=7 if hour == 0 else 0,
    )


def odd(hour: int) -> Row:
    """A client id with special characters, nothing offered, a noisy publisher whose counters do not reconcile."""
    return session_hour(
        HOSTILE,
        hour,
        received_qos1=90,
        received_bytes=9000,
        publish_refused=5,
        publish_paced_us=2 * MINUTE,
        books_off_rows=1,
        duration_us=2 * HOUR,
    )


@pytest.fixture(scope="session")
def frames(spark: "SparkSession") -> StoreFrames:
    """Three hours of three sessions and one that appears once; the first half of each hour is under pressure."""
    rows = [make(hour) for hour in range(HOURS) for make in (good, slow, odd)]
    rows.append(session_hour("once", 1, rows=1, connected_rows=1, duration_us=MINUTE, connected_us=MINUTE))
    slots = [
        slot(
            minute,
            offered_qos0=20,
            sent_qos0=15,
            dropped_qos0=5,
            offered_qos1=1,
            sent_qos1=1,
            pressed_rows=int(minute % 60 < 30),
            fair_n_all=2,
            fair_x_all=150_000,
            fair_xx_all=12_500_000_000,
            fair_min_all=50_000,
            mailbox_max=12,
        )
        for minute in range(60 * HOURS)
    ]
    return store_frames(
        spark,
        rows,
        slots,
        [starved_run("slow-1", 57, 3), starved_run("slow-1", 60, 4)],
        files=[
            SourceFile("b.parquet", "read", rows=100, size=9),
            SourceFile("a.parquet", "truncated", "ends too soon", size=3),
            SourceFile("c.parquet", "newer", "of a newer schema", rows=5, size=1),
        ],
        findings=[Finding("duplicates", 4, "b.parquet", "Rows that were in two files."), Finding("clock", 0, "", "")],
        watermarks={"b1": NOON + HOURS * HOUR},
        asked_from_us=NOON,
        hour_rows={NOON: 180, NOON + HOUR: 181, NOON + 2 * HOUR: 200},  # 20 of the last hour are missing
    )


@pytest.fixture(scope="session")
def result(frames: StoreFrames) -> Result:
    """All measures of that store."""
    return measure(frames, "run", Progress(quiet=True))
