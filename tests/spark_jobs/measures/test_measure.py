"""All measures: from a small store to the tables of the report."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.errors import ReportError
from spark_jobs.measures import files, sums, totals
from spark_jobs.measures.frames import StoreFrames
from spark_jobs.measures.layout import LAYOUTS, STARVED_SESSIONS
from spark_jobs.measures.measure import measure
from spark_jobs.measures.result import Result
from spark_jobs.measures.sessions import per_client
from spark_jobs.measures.summary import summary
from spark_jobs.progress import Progress
from spark_jobs.sources import frames_of
from spark_jobs.store import schema
from spark_jobs.store.store import Selection, open_store
from tests.spark_jobs.measures.conftest import HOSTILE, HOURS
from tests.support.spark.compacted import HOUR, MINUTE, NOON, collected, frame, session_hour, store_frames
from tests.support.spark.compacting import Run
from tests.support.spark.metrics_files import row, write_metrics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.once


def test_every_table_is_there(result: Result) -> None:
    """Each table has the columns of its layout and the run's name in every row."""
    layouts = {name: layout for name, layout in LAYOUTS.items() if name != "comparison"}
    layouts[files.STARVED] = STARVED_SESSIONS
    assert result.tables.keys() == layouts.keys()
    none = {"away_clients", "reconnecting_clients", "groups", "group_members"}
    for name, table in result.tables.items():
        assert table.schema.equals(layouts[name].schema), name
        assert set(table["run"].to_pylist()) == (set() if name in none else {"run"}), name


def test_facts_tell_how_much_there_was(result: Result) -> None:
    """Rows, clients, hours, range, slots and windows."""
    facts = result.facts
    assert (facts.rows, facts.clients, facts.hours, facts.brokers) == (180 * HOURS + 1, 2, HOURS, ("b1",))
    assert (facts.first_us, facts.last_us) == (NOON, NOON + HOURS * HOUR)
    assert facts.first.isoformat() == "2026-11-21T12:00:00+00:00"
    assert (facts.slot_us, facts.window_us) == (MINUTE, MINUTE)
    assert facts.files == {"newer": 1, "read": 1, "truncated": 1}


def test_totals_and_reconciliation(result: Result) -> None:
    """Counts are summed over sessions, rates are over the time of the rows, and counters are reconciled."""
    row = result.one("totals", qos="all")
    assert (row["offered"], row["sent"], row["dropped"]) == (3780, 2880, 900)
    assert row["seconds"] == HOURS * 3600
    assert row["sent_per_second"] == pytest.approx(2880 / (HOURS * 3600), abs=1e-9)
    minutes = 60 * (HOURS + HOURS + 2 * HOURS) + 1  # of the sessions good, slow, odd, and once
    assert row["pressure_share"] == pytest.approx(6 * HOURS / minutes, abs=1e-9)
    assert result.one("totals", qos="0")["acknowledged"] is None
    books = result.one("books", qos="all")
    assert (books["difference"], books["rows_off"]) == (0, HOURS)


def test_rates_are_over_the_time_that_rows_are_about(spark: "SparkSession") -> None:
    """Hours without rows are left out, shared time counts once, and one session's idle days do not stretch an hour."""
    late = session_hour("late", 2, first_us=NOON - 24 * HOUR, sent_qos0=7200)
    over = session_hour("over", 3, first_us=NOON + 3 * HOUR - MINUTE, last_us=NOON + 3 * HOUR + 10 * MINUTE)
    rows = frame(spark, schema.SESSIONS, [session_hour("a", 0), late, over])
    needed = [column.alias(name) for name, column in totals.of_clients().items()]
    [clients] = collected(per_client(rows).agg(*needed))
    [_, row, *_] = totals.totals(sums.sums_of(collected(sums.by_hour(rows))), clients)
    assert row["seconds"] == 2 * 3600 + 600
    assert row["sent_per_second"] == pytest.approx(7200 / 7800, abs=1e-9)


def test_the_timeline_has_a_point_for_each_window(result: Result) -> None:
    """With pressure, fairness, and rates per second of the window."""
    rows = [row for row in result.rows_of("timeline") if row["qos"] == "all"]
    assert len(rows) == 60 * HOURS
    first = rows[0]
    assert (first["start_us"], first["offered"], first["jain_delivery_ratio"]) == (NOON, 21, 0.9)
    assert first["lowest_delivery_ratio"] == 0.5
    assert result.one("timeline", qos="2")["jain_delivery_ratio"] is None


def test_hours_tell_since_when(result: Result) -> None:
    """Fairness, latency, starvation and inversion of each hour by itself."""
    rows = result.rows_of("hours")
    assert [row["hour_us"] for row in rows] == [NOON + hour * HOUR for hour in range(HOURS)]
    assert [row["starved_sessions"] for row in rows] == [1, 1, 0]
    assert [row["inverted_qos0"] for row in rows] == [0, 2, 0]
    assert [row["clients"] for row in rows] == [2, 2, 2]
    assert rows[0]["jain_delivery_ratio"] == 0.9
    assert rows[0]["wait_qos0_p99_high"] == 5119
    assert rows[0]["ack_qos2_p99"] is None


def test_percentiles_of_calm_and_pressed_intervals(result: Result) -> None:
    """Values under pressure and in calm intervals, with the effect of the gate."""
    rows = {row["scope"]: row for row in result.rows_of("percentiles") if (row["metric"], row["qos"]) == ("wait", "0")}
    assert {scope: row["samples"] for scope, row in rows.items()} == {"all": 1800, "pressed": 300, "calm": 1500}
    assert (rows["calm"]["max_high"], rows["pressed"]["p50_low"]) == (103, 4608)
    pressed, calm = (result.one("gate", qos="0", scope=scope) for scope in ("pressed", "calm"))
    assert (pressed["gated"], pressed["sent"], pressed["dropped"]) == (18, 150, 30)
    assert (calm["gated"], calm["sent"], calm["delay_p99_high"]) == (0, 2550, 103)
    assert result.one("gate", qos="1", scope="calm")["ack_p95_high"] == 1023


def test_the_worst_are_named_with_the_reason(result: Result) -> None:
    """Lowest delivery ratio first, with its hours, without sessions that were offered nothing."""
    worst = result.rows_of("worst_sessions")
    assert [(row["client_id"], row["delivery_ratio"], row["why"]) for row in worst] == [
        ("slow-1", 0.5, "window_full"),
        ("good-1", 1.0, ""),
    ]
    assert worst[1]["wait_p99_high"] == 5119
    hours = [row for row in result.rows_of("worst_hours") if row["client_id"] == "slow-1"]
    assert [(row["rank"], row["sent"]) for row in hours] == [(1, 300)] * HOURS


def test_starved_sessions_are_all_listed(result: Result) -> None:
    """A run across the hour counts as one; the files have the whole list, the page's table the worst of it."""
    [row] = result.rows_of("starved_worst")
    assert (row["client_id"], row["longest_intervals"], row["listener"], row["why"]) == (
        "slow-1",
        7,
        "tls",
        "window_full",
    )
    assert (row["offered_in_range"], row["sent_in_range"]) == (1800, 900)
    assert result.one("starvation", length="all")["clients"] == 1
    [listed] = result.rows_of(files.STARVED)
    assert listed == {name: row[name] for name in STARVED_SESSIONS.schema.names}


def test_what_held_deliveries_up(result: Result) -> None:
    """Full windows, stalled ones, inversions and noisy publishers, each with its session."""
    whole = result.one("head_of_line", qos="all")
    assert (whole["clients"], whole["clients_window_full"], whole["samples"]) == (2, 1, 1800)
    assert [row["client_id"] for row in result.rows_of("head_of_line_sessions")] == ["slow-1"]
    assert result.one("stalled", kind="stalled_window")["reports"] == HOURS
    assert result.one("stalled", kind="stalled_window")["clients"] == 1
    assert result.one("inversion")["inverted_qos0"] == 2
    assert result.one("inversion")["clients"] == 1
    assert [row["client_id"] for row in result.rows_of("inverted_sessions")] == ["good-1"]
    noisy = result.rows_of("publishers")
    assert [row["received"] for row in noisy] == [270, 30]
    assert noisy[0]["share_of_received"] == 0.9
    assert noisy[0]["publish_refused"] == 15
    assert result.one("reasons", reason="queue_full", qos="0")["deliveries"] == 900


def test_rates_are_over_the_time_connected(spark: "SparkSession", run: Run, tmp_path: Path) -> None:
    """A client that was there for a part of an interval counts for that part, also if it has left before the end."""
    gone = {"connected": False, "ended": True, "connected_us": 6_400_000, "congested_us": 3_200_000}
    rows = [
        row("left", 10, 10, **gone, received_qos0=128, offered_qos0=128, sent_qos0=64, dropped_qos0=64),
        row("came", 10, 10, connected_us=3_200_000, received_qos0=64),
        row("stayed", 10, 10, received_qos0=50),
    ]
    write_metrics(tmp_path / "metrics", rows)
    run(tmp_path / "metrics", tmp_path / "store")
    frames = frames_of(lambda _rows: spark, open_store(str(tmp_path / "store")), Selection())
    made = measure(frames, "run", Progress(quiet=True), client_id="left")
    rates = {each["client_id"]: each["received_per_second"] for each in made.rows_of("publishers")}
    assert rates == {"left": 20, "came": 20, "stayed": 5}
    assert [each["goodput"] for each in made.rows_of("worst_sessions")] == [10]
    [own] = made.rows_of("client")
    # The session ended when its client left: it was not away for the rest of the interval.
    assert (own["connected_share"], own["congested_share"], own["why"]) == (1, 0.5, "congested")


def test_patience_is_counted_at_both_ends(result: Result) -> None:
    """FC-16: sessions for which publishers were paced, paced publishers, and the totals of both."""
    [asked] = result.rows_of("paced_for_sessions")
    assert (asked["client_id"], asked["paced_for_us"], asked["paced_for_share"]) == ("slow-1", 9 * MINUTE, 0.05)
    assert (asked["delivery_ratio"], asked["why"]) == (0.5, "window_full")
    assert [row["publish_paced_us"] for row in result.rows_of("publishers")] == [HOURS * 2 * MINUTE, 0]
    assert [row["paced_for_us"] for row in result.rows_of("worst_sessions")] == [9 * MINUTE, 0]
    totals = result.one("queues")
    assert (totals["paced_for_seconds"], totals["publish_paced_seconds"]) == (540, HOURS * 120)


def test_bad_input_is_counted_and_named(result: Result) -> None:
    """Files, duplicates, lost rows, reconciliation, overlapping and single intervals and unusual names; only faults."""
    rows = {row["kind"]: row for row in result.rows_of("quality")}
    assert {kind: row["count"] for kind, row in rows.items()} == {
        "newer": 1,
        "truncated": 1,
        "duplicates": 4,
        "damaged_hours": 1,
        "books_off": HOURS,
        "overlong": 1,
        "appears_once": 1,
        "awkward_id": 1,
    }
    assert rows["truncated"]["example"] == "a.parquet"
    assert rows["appears_once"]["example"] == "once"
    assert rows["awkward_id"]["example"] == HOSTILE[:200]
    assert [row["file"] for row in result.rows_of("files")] == ["a.parquet", "b.parquet", "c.parquet"]


def test_measuring_again_gives_the_same_bytes(result: Result, frames: StoreFrames) -> None:
    """Order and partitions of the rows do not change a byte of any table's files."""

    def mixed(rows: "DataFrame", by: str, parts: int) -> "DataFrame":
        return rows.orderBy(by, ascending=False).repartition(parts)

    other = replace(
        frames,
        sessions=mixed(frames.sessions, "sent_qos0", 3),
        timeline=mixed(frames.timeline, "slot", 2),
        starvation=mixed(frames.starvation, "start_us", 2),
    )
    again = measure(other, "run", Progress(quiet=True))
    assert dict(files.encoded([again])) == dict(files.encoded([result]))
    assert again.facts == result.facts


def test_no_rows_is_an_error_that_says_what_there_is(spark: "SparkSession") -> None:
    """The message names the run and what the store holds."""
    empty = store_frames(spark, [], there="The store holds 2026-11-20.")
    with pytest.raises(ReportError, match=r"run: no rows in the requested range\. The store holds 2026-11-20\."):
        measure(empty, "run", Progress(quiet=True))


def test_the_summary_is_small_and_has_stable_names(result: Result) -> None:
    """Figures by the names of the tables' columns, without a row per session, hour or window."""
    found = summary([result], "A headline.", ["A sentence."])
    assert (found["format"], found["headline"], found["verdict"]) == (3, "A headline.", ["A sentence."])
    assert found["baseline"] is None
    [run] = found["runs"]
    assert run["fairness"]["all"]["jain_delivery_ratio"] == 0.9
    assert run["totals"]["all"]["offered"] == 3780
    assert run["starvation"] == {
        "after_intervals": 3, "runs": 1, "clients": 1, "longest_intervals": 7, "seconds": 420.0, "offered": 7,
        "episodes": 1, "episode_seconds": 420.0, "episodes_share": pytest.approx(7 / 180),
        "first_us": NOON + 57 * MINUTE, "last_us": NOON + 64 * MINUTE,
    }  # fmt: skip
    assert run["percentiles"]["wait_0_pressed"]["samples"] == 300
    assert run["quality"]["duplicates"] == 4
    assert run["books"] == {"rows": 180 * HOURS + 1, "rows_off": HOURS, "balance": False}
    assert not {"timeline", "worst_sessions", "lorenz"} & run.keys()
