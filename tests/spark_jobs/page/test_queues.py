"""The sections on waiting: their figures are those of the rows that were measured."""

import re
from dataclasses import replace
from html import unescape

import pytest

from spark_jobs.measures.measure import measure
from spark_jobs.page import render
from spark_jobs.page.queues import head_of_line_section
from spark_jobs.progress import Progress
from tests.support.spark.compacted import HOUR, MINUTE, Row, session_hour, store_frames
from tests.support.spark.metrics_files import histogram
from tests.support.spark.sample_result import sample_result

pytestmark = pytest.mark.once


def texts(page: str) -> list[str]:
    """All texts between elements; titles say again what may be cut."""
    page = re.sub("<title>[^<]*</title>", "", page)
    return [unescape(text).replace("\u202f", " ") for text in re.findall(">([^<>]+)<", page)]


def causes(rows: list[Row]) -> dict[str, str]:
    """The causes of head-of-line blocking with their shares, as the section shows them."""
    said = texts(head_of_line_section([measure(store_frames(rows), "run", Progress(quiet=True))]))
    names = ("window full", "window full (bytes)", "rate used up", "send path congested")
    return {name: said[said.index(name) + 1] for name in names if name in said}


def test_causes_of_blocking_are_shares_of_the_time_of_all_sessions() -> None:
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
    assert list(causes(rows).values()) == ["25.0 %", "10.0 %", "0 %", "50.0 %"]


def test_what_blocked_everything_is_shown() -> None:
    """If nothing was sent, so that no waiting time is known, the cause is there nevertheless."""
    assert causes([session_hour("a", window_full_us=HOUR)])["window full"] == "100 %"
    assert causes([session_hour("a")]) == {}


def test_no_figure_depends_on_the_place_of_its_row() -> None:
    """With the rows of the small tables in reverse, the page has the same texts."""
    result = sample_result()
    small = ("totals", "books", "queues", "gate", "head_of_line", "percentiles", "fairness")
    turned = {name: result.tables[name].take(list(range(result.tables[name].num_rows))[::-1]) for name in small}
    other = replace(result, tables={**result.tables, **turned})
    assert sorted(texts(render([other]))) == sorted(texts(render([result])))
