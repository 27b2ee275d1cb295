"""The report finds exactly the faults that are planted in a generated fleet."""

import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from spark_jobs.compaction.compact import Compacted
from spark_jobs.measures.measure import measure
from spark_jobs.measures.result import Result
from spark_jobs.metrics import AWAY_REASONS, DROP_REASONS, QOS, drop_column
from spark_jobs.progress import Progress
from spark_jobs.sources import frames_of
from spark_jobs.store.schema import SESSIONS
from spark_jobs.store.store import Selection, open_store
from tests.support.broker.metrics import metrics_files
from tests.support.spark.compacting import Run, tables
from tests.support.spark.fleet.generate import generate
from tests.support.spark.fleet.model import SECOND, Model
from tests.support.spark.fleet.planted import Planted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.once

MODEL: Final = Model(sessions=90, brokers=2, length_us=3 * 3600 * SECOND, interval_us=300 * SECOND, rows=2200, files=10)

LOST: Final = [reason for reason in DROP_REASONS if reason not in AWAY_REASONS]
EARLY: Final = 5
"""Number of files that are compacted before the others arrive."""

Found = tuple[Planted, Result]
Key = tuple[str, str]


@dataclass(frozen=True)
class Fleet:
    """A fleet's metrics with two duplicate files, one of them in part; and a store of them."""

    planted: Planted
    metrics: Path
    store: Path
    repeated: int
    """Number of duplicate rows."""
    made: Compacted


@pytest.fixture(scope="module")
def fleet(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A small fleet, compacted in one run."""
    root = tmp_path_factory.mktemp("fleet")
    planted = generate(MODEL, root / "metrics", processes=1)
    repeated = _repeat(metrics_files(root / "metrics"))
    made = bring_up(run, root / "metrics", root / "store")
    return Fleet(planted, root / "metrics", root / "store", repeated, made)


def _repeat(files: list[Path]) -> int:
    """Duplicate one file, and a part of another one; returns the number of duplicate rows."""
    whole, part = files[2], files[5]
    shutil.copy(whole, whole.with_name(f"copy-of-{whole.name}"))
    table = pq.read_table(part, partitioning=None, filters=pc.field("client_id") != "")
    again = table.slice(table.num_rows // 3, table.num_rows // 3)
    pq.write_table(again, part.with_name(f"part-of-{part.name}"))
    ids = pq.read_table(whole, columns=["client_id"], partitioning=None)["client_id"]
    return int(again.num_rows + pc.sum(pc.not_equal(ids, "")).as_py())


def bring_up(run: Run, metrics: Path, store: Path) -> Compacted:
    """Compact all files."""
    return run(metrics, store, slot_us=MODEL.interval_us)


@pytest.fixture(scope="module")
def found(spark: "SparkSession", fleet: Fleet) -> Found:
    """The planted faults, and the result of the measures."""
    frames = frames_of(lambda _rows: spark, open_store(str(fleet.store)), Selection())
    return fleet.planted, measure(frames, "fleet", Progress(quiet=True))


def test_arrival(fleet: Fleet, run: Run, tmp_path: Path) -> None:
    """Files in any order, with a run in between, give the same rows as one run over all."""
    files = metrics_files(fleet.metrics)
    random.Random(7).shuffle(files)
    metrics, store = tmp_path / "metrics", tmp_path / "store"
    made = []
    for part in (files[:EARLY], files[EARLY:], []):
        for file in part:
            place = metrics / file.relative_to(fleet.metrics)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, place)
        made.append(bring_up(run, metrics, store))
    assert made[1].late > 0
    assert [each.hours > 0 for each in made] == [True, True, False]
    assert [each.files for each in made] == [EARLY, len(files), len(files)]
    assert tables(store) == tables(fleet.store)


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.slow
def test_spark_compacts_the_same(fleet: Fleet, run: Run, tmp_path: Path) -> None:
    """Spark gives the same rows and the same records of files."""
    made = bring_up(run, fleet.metrics, tmp_path / "store")
    assert made == fleet.made
    assert tables(tmp_path / "store") == tables(fleet.store)
    assert open_store(str(tmp_path / "store")).ledgers() == open_store(str(fleet.store)).ledgers()


def test_repeated_rows(fleet: Fleet) -> None:
    """Duplicate rows count once, and their number is reported."""
    assert fleet.made.duplicates == fleet.repeated
    assert fleet.made.rows == fleet.planted.rows


def table(found: Found, name: str) -> list[dict[str, Any]]:
    """The rows of a result table."""
    rows: list[dict[str, Any]] = found[1].tables[name].to_pylist()
    return rows


def key(row: dict[str, Any]) -> Key:
    """The key of a row's client."""
    return row["broker"], row["client_id"]


def test_starved(found: Found) -> None:
    """Exactly the starved sessions are listed, with their runs, lengths and waiting deliveries."""
    planted, result = found
    listed = {key(row): row for row in result.rows_of("starved_sessions")}
    expected = {who[:2]: runs for who, runs in planted.starved(3).items()}
    assert listed.keys() == expected.keys()
    for who, runs in expected.items():
        row = listed[who]
        assert row["runs"] == len(runs)
        assert row["longest_intervals"] == max(run.intervals for run in runs)
        assert row["starved_us"] == sum(run.end_us - run.start_us for run in runs)
        assert (row["first_us"], row["last_us"]) == (runs[0].start_us, runs[-1].end_us)
        assert row["offered"] == sum(run.offered for run in runs)
    assert {key(row) for row in table(found, "starved_worst")} == expected.keys()


def test_inversions(found: Found) -> None:
    """QoS 0 that overtook waiting deliveries is counted exactly, also by session."""
    planted, _ = found
    (row,) = table(found, "inversion")
    inverted = planted.of_kind("inverted")
    assert row["inverted_qos0"] == sum(each.inverted_qos0 for each in inverted)
    assert row["blocked_rows"] == sum(each.blocked_rows for each in planted.found)
    assert row["clients"] == len(inverted)
    named = {row["client_id"]: row["inverted_qos0"] for row in table(found, "inverted_sessions")}
    assert named == {each.client_id: each.inverted_qos0 for each in inverted}


def test_stalled(found: Found) -> None:
    """Reports of stalled windows and of slow consumers are counted, and their sessions listed."""
    planted, _ = found
    reports = {row["kind"]: (row["reports"], row["clients"]) for row in table(found, "stalled")}
    for kind in ("stalled_window", "slow_consumer"):
        concerned = [each.sums[kind] for each in planted.found if kind in each.sums]
        assert reports[kind] == (sum(concerned), len(concerned))
    stalled = {each.client_id for each in planted.found if {"stalled_window", "slow_consumer"} & each.sums.keys()}
    assert {row["client_id"] for row in table(found, "stalled_sessions")} == stalled


def test_drops(found: Found) -> None:
    """Drops are told by QoS and reason; only who lost something is among the worst, and who was away is not."""
    planted, _ = found
    told = {
        f"dropped_{row['reason']}_qos{row['qos']}": row["deliveries"]
        for row in table(found, "reasons")
        if row["what"] == "dropped" and row["qos"] != "all" and row["deliveries"]
    }
    assert told == {
        name: count
        for name, count in planted.totals.items()
        if name.startswith("dropped_") and not name.startswith("dropped_qos") and count
    }
    unfair = {(each.broker, each.client_id) for each in planted.found}
    short = {key(row) for row in table(found, "worst_sessions") if row["delivery_ratio"] < 1}
    assert short <= unfair
    lost = {
        (each.broker, each.client_id)
        for each in planted.found
        if any(drop_column(reason, qos) in each.sums for reason in LOST for qos in QOS)
    }
    gone = {(each.broker, each.client_id) for each in planted.found if "dropped_offline_qos0_qos0" in each.sums}
    assert gone <= {key(row) for row in table(found, "away_clients")}
    assert len(lost) < 20
    assert lost <= short


def test_publishers(found: Found) -> None:
    """The noisy publishers come first, with their published and refused messages."""
    planted, _ = found
    noisy = {each.client_id: each.sums["publish_refused"] for each in planted.of_kind("publisher")}
    first = table(found, "publishers")[: len(noisy)]
    assert {row["client_id"]: row["publish_refused"] for row in first} == noisy


def test_held_back(found: Found) -> None:
    """FC-16 on both sides: sessions for which publishers were paced, paced publishers, and totals."""
    planted, _ = found
    slow = {each.client_id: each.sums["paced_for_us"] for each in planted.of_kind("slow_reader")}
    assert {row["client_id"]: row["paced_for_us"] for row in table(found, "paced_for_sessions")} == slow
    noisy = {each.client_id: each.sums["publish_paced_us"] for each in planted.of_kind("publisher")}
    held = {row["client_id"]: row["publish_paced_us"] for row in table(found, "publishers") if row["publish_paced_us"]}
    assert held == noisy
    (row,) = table(found, "queues")
    assert row["paced_for_seconds"] == sum(slow.values()) / SECOND > 0
    assert row["publish_paced_seconds"] == sum(noisy.values()) / SECOND > 0


def test_totals(found: Found) -> None:
    """Deliveries are the sums of the rows, by QoS."""
    planted, _ = found
    for row in table(found, "totals"):
        for what in ("offered", "sent", "dropped"):
            wanted = range(3) if row["qos"] == "all" else [row["qos"]]
            assert row[what] == sum(planted.totals[f"{what}_qos{qos}"] for qos in wanted)
    assert found[1].facts.rows == planted.rows


def test_other_programs_get_the_sums_of_the_report(fleet: Fleet, found: Found) -> None:
    """DuckDB and Polars, which read Delta tables: deliveries by QoS, rows and sessions."""
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    place = str(fleet.store / SESSIONS)
    names = [f"{what}_qos{qos}" for what in ("offered", "sent", "dropped") for qos in QOS]
    expected = {
        f"{what}_qos{row['qos']}": row[what]
        for row in table(found, "totals")
        if row["qos"] != "all"
        for what in ("offered", "sent", "dropped")
    } | {"rows": found[1].facts.rows}

    store = polars.scan_delta(place)
    assert store.select(polars.col(*names, "rows").sum()).collect().to_dicts() == [expected]
    key = ("broker", "client_id", "session_started")
    assert store.select(key).unique().collect().height == found[0].sessions

    sessions = DeltaTable(place).to_pyarrow_dataset()  # which DuckDB finds by its name
    assert sessions.count_rows() > 0
    sums = ", ".join(f"sum({name})::bigint" for name in (*names, "rows"))
    count = f"count(DISTINCT ({', '.join(key)}))"
    [row] = duckdb.sql(f"SELECT {count}, {sums} FROM sessions").fetchall()
    assert row == (found[0].sessions, *[expected[name] for name in (*names, "rows")])
