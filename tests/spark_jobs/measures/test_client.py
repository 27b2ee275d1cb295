"""Everything about one client: its hours, from the rows of a store, and the section of the page."""

from dataclasses import replace

import pytest

from spark_jobs.measures import client
from spark_jobs.measures.frames import StoreFrames
from spark_jobs.measures.hashing import hashed
from spark_jobs.measures.measure import measure
from spark_jobs.page import render
from spark_jobs.progress import Progress
from spark_jobs.store import schema
from tests.spark_jobs.measures.conftest import HOSTILE, HOURS
from tests.support.spark.compacted import HOUR, MINUTE, NOON

pytestmark = pytest.mark.once


def test_each_hour_of_the_client_has_every_counter(frames: StoreFrames) -> None:
    """The derived figures by plain Python, and all counters of the store as they are; no other client's rows."""
    rows = client.client_hours(frames.sessions.parts(), "slow-1")
    assert [row["hour_us"] for row in rows] == [NOON + hour * HOUR for hour in range(HOURS)]
    row = rows[0]
    assert (row["offered"], row["sent"], row["dropped"], row["delivery_ratio"]) == (600, 300, 300, 0.5)
    assert row["window_full_share"] == pytest.approx(20 / 60)
    assert (row["why"], row["connected_share"], row["starved_rows"]) == ("window_full", 1, 7)
    assert (row["paced_for_us"], row["mqueue_max"], row["ack_qos1_p99"]) == (3 * MINUTE, 100, None)
    counted = {column.name for column in schema.SESSION_COLUMNS if column.how in {schema.How.SUM, schema.How.MAX}}
    assert counted <= row.keys()
    [good] = [row for row in client.client_hours(frames.sessions.parts(), "good-1") if row["hour_us"] == NOON]
    assert good["ack_qos1_p99_low"] <= 1000 <= good["ack_qos1_p99_high"]


def test_the_page_has_a_section_and_a_file_about_it(frames: StoreFrames) -> None:
    """A hostile id is shown as text, and hidden as everywhere if ids are hidden."""
    made = measure(frames, "run", Progress(quiet=True), client_id=HOSTILE)
    page = render([made])
    assert 'id="client"' in page
    assert "<script>alert(1)" not in page
    assert ": 1 session, 0 deliveries offered, 0 sent." in page
    assert "tables/client.csv" in page
    hidden = hashed(made, "key")
    assert HOSTILE not in hidden.tables["client"]["client_id"].to_pylist()
    assert "alert(1)" not in render([hidden])
    without = replace(made, tables={name: table for name, table in made.tables.items() if name != "client"})
    assert 'id="client"' not in render([without])


def test_a_client_without_sessions_has_no_rows(frames: StoreFrames) -> None:
    """The table is there, and empty; the page says so."""
    made = measure(frames, "run", Progress(quiet=True), client_id="nobody")
    assert made.tables["client"].num_rows == 0
    assert "It had no session in this range." in render([made])
