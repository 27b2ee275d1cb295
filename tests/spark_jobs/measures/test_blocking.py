"""Causes of head-of-line blocking, from the rows of a store to the page."""

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spark_jobs.measures.blocking import head_of_line
from spark_jobs.measures.result import table
from spark_jobs.measures.sums import by_hour, sums_of
from spark_jobs.page.queues import head_of_line_section
from spark_jobs.store import schema
from tests.support.spark.compacted import HOUR, MINUTE, Row, collected, frame, session_hour
from tests.support.spark.metrics_files import histogram
from tests.support.spark.sample_result import sample_result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.once


def causes(spark: "SparkSession", rows: list[Row]) -> dict[str, str]:
    """The causes of head-of-line blocking with their shares, as the section shows them."""
    hours = sums_of(collected(by_hour(frame(spark, schema.SESSIONS, rows))))
    made = table("head_of_line", "run", head_of_line(hours.whole, {"clients": len(rows), "window_full": 0}))
    result = sample_result()
    section = head_of_line_section([replace(result, tables={**result.tables, "head_of_line": made})])
    head, _, shares = section.parts[0].partition("<tbody>")
    told = [share.replace("\u202f", " ") for share in re.findall("<td [^>]*>([^<]*)<", shares)]
    return dict(zip(re.findall("<th [^>]*>([^<]*)<", head)[1:], told, strict=True))


def test_causes_of_blocking_are_shares_of_the_time_of_all_sessions(spark: "SparkSession") -> None:
    """A quarter, a tenth, nothing, and a half of the time of two sessions, although no row of a QoS has them."""
    waits: Row = {"wait_qos1_buckets": histogram([100] * 9)}
    rows = [
        session_hour("a", window_full_us=HOUR // 2, congested_us=HOUR, **waits),
        session_hour("b", window_bytes_full_us=12 * MINUTE),
    ]
    time_us = sum(row["duration_us"] for row in rows)
    clocks = ("window_full_us", "window_bytes_full_us", "rate_limited_us", "congested_us")
    expected = [sum(row[clock] for row in rows) / time_us for clock in clocks]
    assert expected == [0.25, 0.1, 0, 0.5]
    assert list(causes(spark, rows).values()) == ["25.0 %", "10.0 %", "0 %", "50.0 %"]


def test_what_blocked_everything_is_shown(spark: "SparkSession") -> None:
    """If nothing was sent, so that no waiting time is known, the cause is there nevertheless."""
    assert causes(spark, [session_hour("a", window_full_us=HOUR)])["window full"] == "100 %"
    assert causes(spark, [session_hour("a")]) == {}
