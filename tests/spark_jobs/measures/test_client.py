"""Everything about one client: its hours, from the rows of a store, and the section of the page."""

from dataclasses import replace

import pytest

from spark_jobs.measures import client
from spark_jobs.measures.frames import StoreFrames
from spark_jobs.measures.hashing import hashed
from spark_jobs.measures.layout import CLIENT
from spark_jobs.measures.result import Result, of_layout
from spark_jobs.page import render
from spark_jobs.store import schema
from tests.spark_jobs.measures.conftest import HOSTILE, HOURS
from tests.support.spark.compacted import HOUR, MINUTE, NOON, Row, collected

pytestmark = pytest.mark.once


def _hours(frames: StoreFrames, client_id: str) -> list[Row]:
    return client.client_hours(collected(client.of_client(frames.sessions, client_id)))


def _with_client(result: Result, hours: list[Row]) -> Result:
    return replace(result, tables={**result.tables, client.NAME: of_layout(CLIENT, "run", hours)})


def test_each_hour_of_the_client_has_every_counter(frames: StoreFrames) -> None:
    """The derived figures by plain Python, and all counters of the store as they are; no other client's rows."""
    rows = _hours(frames, "slow-1")
    assert [row["hour_us"] for row in rows] == [NOON + hour * HOUR for hour in range(HOURS)]
    row = rows[0]
    assert (row["offered"], row["sent"], row["dropped"], row["delivery_ratio"]) == (600, 300, 300, 0.5)
    assert row["window_full_share"] == pytest.approx(20 / 60)
    assert (row["why"], row["connected_share"], row["starved_rows"]) == ("window_full", 1, 7)
    assert (row["paced_for_us"], row["mqueue_max"], row["ack_qos1_p99"]) == (3 * MINUTE, 100, None)
    counted = {column.name for column in schema.SESSION_COLUMNS if column.how in {schema.How.SUM, schema.How.MAX}}
    assert counted <= row.keys()
    [good] = [row for row in _hours(frames, "good-1") if row["hour_us"] == NOON]
    assert good["ack_qos1_p99_low"] <= 1000 <= good["ack_qos1_p99_high"]


def test_the_page_has_a_section_and_a_file_about_it(result: Result, frames: StoreFrames) -> None:
    """A hostile id is shown as text, and hidden as everywhere if ids are hidden."""
    made = _with_client(result, _hours(frames, HOSTILE))
    page = render([made])
    assert 'id="client"' in page
    assert "<script>alert(1)" not in page
    assert ": 1 session, 0 deliveries offered, 0 sent." in page
    assert "tables/client.csv" in page
    hidden = hashed(made, "key")
    assert HOSTILE not in hidden.tables["client"]["client_id"].to_pylist()
    assert "alert(1)" not in render([hidden])
    assert 'id="client"' not in render([result])


def test_a_client_without_sessions_has_no_rows(result: Result, frames: StoreFrames) -> None:
    """The page says so."""
    assert "It had no session in this range." in render([_with_client(result, _hours(frames, "nobody"))])
