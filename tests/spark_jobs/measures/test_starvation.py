"""Runs of starved intervals, merged across hours, and starved sessions."""

from typing import TYPE_CHECKING

import pytest

from spark_jobs.measures import starvation
from spark_jobs.measures.sessions import per_client
from spark_jobs.store import schema
from tests.support.spark.compacted import HOUR, MINUTE, NOON, SECOND, collected, frame, session_hour, starved_run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def pieces(spark: "SparkSession") -> "DataFrame":
    """Two minutes before the hour and five after it; one minute three times; and runs almost in a row."""
    late = starved_run("nearly", 3, 2)
    late["start_us"] += SECOND + 1
    close = starved_run("close", 3, 2, waiting=7)
    close["start_us"] += SECOND
    rows = [
        starved_run("long", 58, 2, offered=20),
        starved_run("long", 60, 5, offered=30, waiting=4),
        starved_run("long", 90, 3),
        *[starved_run("short", minute, 1) for minute in (0, 2, 4)],
        starved_run("nearly", 1, 2),
        late,
        starved_run("close", 1, 2),
        close,
    ]
    return starvation.with_runs(frame(spark, schema.STARVATION, rows))


def test_runs_go_on_across_hours(pieces: "DataFrame") -> None:
    """A run that was split at the hour is merged; a gap of up to a second does not split a run."""
    runs = sorted((r["client_id"], r["intervals"], r["offered"]) for r in collected(starvation.runs_of(pieces)))
    assert runs == [
        ("close", 4, 4),
        ("long", 3, 3),
        ("long", 7, 50),
        ("nearly", 2, 2),
        ("nearly", 2, 2),
        *[("short", 1, 1)] * 3,
    ]


def test_only_runs_that_count_make_a_session_starved(spark: "SparkSession", pieces: "DataFrame") -> None:
    """Three intervals in a row starve a session, three single ones do not; the longest comes first."""
    known = per_client(frame(spark, schema.SESSIONS, [session_hour(name) for name in ("long", "close", "short")]))
    worst = collected(starvation.starved_sessions(pieces, known, 3))
    assert [row["client_id"] for row in worst] == ["long", "close"]
    first = worst[0]
    assert (first["runs"], first["longest_intervals"], first["longest_us"]) == (2, 7, 7 * MINUTE)
    assert (first["starved_us"], first["offered"]) == (10 * MINUTE, 53)
    assert (first["first_us"], first["last_us"]) == (NOON + 58 * MINUTE, NOON + 93 * MINUTE)
    assert worst[1]["waiting"] == 7


def test_runs_are_counted_by_length(pieces: "DataFrame") -> None:
    """First all long runs, then every length, with the numbers of sessions."""
    rows = starvation.starvation(collected(starvation.by_length(pieces, 3)), 3, 2 * HOUR)
    assert [(row["length"], row["runs"], row["clients"]) for row in rows] == [
        ("all", 3, 2),
        ("1", 3, 1),
        ("2", 2, 1),
        ("3-5", 2, 2),
        ("6-10", 1, 1),
        ("11-30", 0, 0),
        ("31+", 0, 0),
    ]
    assert (rows[0]["least_intervals"], rows[0]["longest_intervals"]) == (3, 7)
    assert rows[0]["seconds"] == pytest.approx(14 * 60)


def test_episodes_are_times_in_which_anybody_starved(spark: "SparkSession") -> None:
    """Runs of several clients at once, or one after the other, are one episode; a later one is another."""
    pieces = [starved_run("a", 0, 10), starved_run("b", 5, 10), starved_run("c", 7, 3), starved_run("d", 40, 5)]
    runs = starvation.by_length(starvation.with_runs(frame(spark, schema.STARVATION, pieces)), 3)
    row = starvation.starvation(collected(runs), 3, 100 * MINUTE)[0]
    assert (row["episodes"], row["episode_seconds"], row["episodes_share"]) == (2, 10 * 60, 0.2)
    assert (row["first_us"], row["last_us"]) == (NOON, NOON + 45 * MINUTE)


def test_hours_count_their_starved_sessions(pieces: "DataFrame") -> None:
    """A run across the hour counts in both hours; a session counts once in an hour."""
    assert sorted(starvation.by_hour(pieces, 3).collect()) == [(NOON, 2), (NOON + HOUR, 1)]
