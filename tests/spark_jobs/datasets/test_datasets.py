"""Datasets of raw rows, compared with the same sums in plain Python."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.datasets import raw
from spark_jobs.datasets.groups import groups
from spark_jobs.datasets.sessions import sessions
from spark_jobs.datasets.starvation import starvation
from spark_jobs.datasets.timeline import timeline
from spark_jobs.metrics import CLOCKS, COUNTERS, DROP_REASONS, HISTOGRAMS, QOS, drop_column
from spark_jobs.store.schema import (
    DATASETS,
    FAIR_ONE,
    FAIR_SCOPES,
    GAUGES,
    GROUPS,
    HOUR_US,
    SESSIONS,
    STARVATION,
    TIMELINE,
    TIMELINE_COUNTERS,
    TIMELINE_GAUGES,
    TIMELINE_HISTOGRAMS,
    keys,
)
from tests.support.spark.metrics_files import NOON, Row, at, group_row, histogram, row, write_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

Compacted = Mapping[str, list[Row]]
Compact = Callable[[Sequence[Sequence[Row]]], Compacted]
NOON_US = int(NOON.timestamp()) * 1_000_000
SLOT_US = 300_000_000
LISTENERS = ("tcp", "ws")


@pytest.fixture
def compacted(spark: "SparkSession", tmp_path: Path) -> Compact:
    """Returns the rows by dataset, sorted by key; the raw rows of each part are added to those before."""

    def of(parts: Sequence[Sequence[Row]]) -> Compacted:
        made: dict[str, DataFrame] = {}
        for number, part in enumerate(parts):
            rows = raw.read(spark, [str(write_file(tmp_path / f"{number}.parquet", list(part)))])
            own = raw.of_sessions(rows)
            made = {
                SESSIONS: sessions(own, LISTENERS, made.get(SESSIONS)),
                TIMELINE: timeline(raw.of_intervals(rows), SLOT_US, made.get(TIMELINE)),
                STARVATION: starvation(own, made.get(STARVATION)),
                GROUPS: groups(own.unionByName(raw.of_groups(rows)), made.get(GROUPS)),
            }
        return {name: frame.orderBy(*keys(name)).toArrow().to_pylist() for name, frame in made.items()}

    return of


def some_rows(count: int) -> list[Row]:
    """Rows of four sessions over two hours with all kinds of values."""
    random = Random(5)
    rows = []
    for number in range(count):
        values: dict[str, Any] = {name: random.choice((0, 0, 1, 7)) for name in (*COUNTERS, *GAUGES)}
        made = [histogram(random.randrange(99) for _ in range(3)) for _ in HISTOGRAMS]
        values |= {name: random.choice((None, entries)) for name, entries in zip(HISTOGRAMS, made, strict=True)}
        values["connected_us"] = random.choice((0, 5_000_000, 50_000_000))
        client = random.choice(("car-1", "van/2", "solo", "-x"))
        listener = random.choice(("tcp", "ws"))
        connected = random.random() < 0.8
        rows.append(row(client, 60 * (number + 1), 60, **values, listener=listener, connected=connected))
    return rows


def total(made: Row, prefix: str) -> int:
    """A counter over all QoS."""
    return sum(made[f"{prefix}_qos{qos}"] for qos in QOS)


def pressed(made: Row) -> bool:
    """Whether the row's session was under pressure."""
    names = ("congested_us", "window_full_us", "window_bytes_full_us", "rate_limited_us", "mailbox_busy_samples")
    return any(made[name] for name in (*names, *[name for name in COUNTERS if name.startswith("gated_")]))


def end_us(made: Row) -> int:
    """The end of the row's interval."""
    return int(made["interval_end"].timestamp()) * 1_000_000


def added(histograms: list[list[int] | None]) -> list[int] | None:
    """The sum of histograms; None if there is none."""
    there = [entries for entries in histograms if entries is not None]
    counts = Counter[int]()
    for entry in (entry for entries in there for entry in entries):
        counts[entry % 256] += entry // 256
    return [counts[bucket] * 256 + bucket for bucket in sorted(counts)] if there else None


def test_sessions_are_the_sums_of_their_rows(compacted: Compact) -> None:
    """Counters, gauges, histograms, those under pressure, starved and blocked intervals equal those of plain Python."""
    rows = some_rows(110)
    got = compacted([rows])[SESSIONS]
    assert len(got) == 8
    for made in got:
        of_hour = [r for r in rows if end_us(r) // HOUR_US * HOUR_US == made["hour_us"]]
        own = [r for r in of_hour if r["client_id"] == made["client_id"]]
        hard = [r for r in own if pressed(r)]
        assert made["rows"] == len(own)
        assert made["duration_us"] == 60_000_000 * len(own)
        assert made["listener"] == own[-1]["listener"]
        assert made["protocol_version"] == 5
        assert made["client_prefix"] == {"car-1": "car", "van/2": "van", "solo": "", "-x": ""}[made["client_id"]]
        for name in COUNTERS:
            assert made[name] == sum(r[name] for r in own), name
        for name in GAUGES:
            assert made[name] == max(r[name] for r in own), name
        for name in HISTOGRAMS:
            assert made[name] == added([r[name] for r in own]), name
        assert made["pressed_rows"] == len(hard)
        assert made["pressed_sent_qos1"] == sum(r["sent_qos1"] for r in hard)
        assert made["pressed_ack_qos1_buckets"] == added([r["ack_qos1_buckets"] for r in hard])
        for qos in QOS:
            assert made[f"away_dropped_qos{qos}"] == sum(away_dropped(r, qos) for r in own)
            assert made[f"away_waiting_qos{qos}"] == sum(away_waiting(r, qos) for r in own)
        assert made["starved_rows"] == sum(starved(r) for r in own)
        assert made["inverted_qos0"] == sum(inverted(r) for r in own)
        books = [
            r
            for r in own
            if any(
                r[f"waiting_start_qos{q}"] + r[f"offered_qos{q}"]
                != sum(r[f"{name}_qos{q}"] for name in ("sent", "dropped", "superseded", "waiting"))
                for q in QOS
            )
        ]
        assert made["books_off_rows"] == len(books)


def starved(made: Row) -> bool:
    """Connected, deliveries offered or waiting, nothing sent."""
    asked = total(made, "offered") or total(made, "waiting_start")
    return bool(made["connected"] and asked and not total(made, "sent"))


def inverted(made: Row) -> int:
    """QoS 0 that overtook waiting QoS 1 and 2."""
    blocked = made["waiting_start_qos1"] + made["waiting_start_qos2"] and made["waiting_qos1"] + made["waiting_qos2"]
    gated = sum(made[name] for name in COUNTERS if name.startswith("gated_"))
    return max(0, made["sent_qos0"] - made["waiting_start_qos0"] - gated) if blocked else 0


def away_dropped(made: Row, qos: int) -> int:
    """Drops of a row whose client was away for most of it, or that were because it was away."""
    length = (made["interval_end"] - made["interval_start"]) // timedelta(microseconds=1)
    if 2 * made["connected_us"] < length and not (made["ended"] and made["connected_us"]):
        return int(made[f"dropped_qos{qos}"])
    return int(made[f"dropped_session_ended_qos{qos}"] + (made["dropped_offline_qos0_qos0"] if qos == 0 else 0))


def away_waiting(made: Row, qos: int) -> int:
    """What more waits for a client that is away at the end of a row."""
    kept = not made["connected"] and not made["ended"]
    return int(made[f"waiting_qos{qos}"] - made[f"waiting_start_qos{qos}"]) if kept else 0


def due(made: Row, qos: int) -> int:
    """What was offered in a row less what its client missed because it was away."""
    missed = away_dropped(made, qos) + max(0, away_waiting(made, qos))
    return max(0, made[f"offered_qos{qos}"] - missed) if made["connected_us"] else 0


def test_the_timeline_is_the_sums_of_the_rows_of_sessions(compacted: Compact) -> None:
    """Of all, and of busy ones that are calm or pressed, by slot; of delivery ratios it has what Jain's index needs."""
    rows = []
    for number, made in enumerate(some_rows(60)):
        end = 60 * (number // 4 + 1)
        rows.append(made | {"client_id": str(number), "interval_start": at(end - 7), "interval_end": at(end)})
    got = compacted([rows])[TIMELINE]
    assert {made["slot"] for made in got} == {end_us(r) // SLOT_US * SLOT_US for r in rows}
    for made in got:
        own = [r for r in rows if end_us(r) // SLOT_US * SLOT_US == made["slot"]]
        assert made["rows"] == len(own)
        assert made["duration_us"] == 7_000_000 * len(own)
        assert made["last_us"] == max(end_us(r) for r in own)
        assert [made[f"away_dropped_qos{qos}"] for qos in QOS] == [
            sum(away_dropped(r, qos) for r in own) for qos in QOS
        ]
        assert [made[f"due_qos{qos}"] for qos in QOS] == [sum(due(r, qos) for r in own) for qos in QOS]
        assert made["pressed_rows"] == sum(pressed(r) for r in own)
        for name in TIMELINE_COUNTERS:
            assert made[name] == sum(r[name] for r in own), name
        for name in TIMELINE_GAUGES:
            assert made[name] == max(r[name] for r in own), name
        for name in TIMELINE_HISTOGRAMS:
            assert made[name] == added([r[name] for r in own]), name
        for hard, side in ((False, "calm"), (True, "pressed")):
            busy = [r for r in own if pressed(r) == hard and (total(r, "offered") or total(r, "waiting_start"))]
            assert made[f"{side}_duration_us"] == 7_000_000 * len(busy)
            for name in ("offered_qos0", "sent_qos0", "dropped_qos0"):
                assert made[f"{side}_{name}"] == sum(r[name] for r in busy), (side, name)
        for scope in FAIR_SCOPES:
            which = QOS if scope == "all" else [int(scope)]
            flows = [(sum(due(r, qos) for qos in which), sum(r[f"sent_qos{qos}"] for qos in which)) for r in own]
            shares = [min(FAIR_ONE, FAIR_ONE * sent // asked) for asked, sent in flows if asked]
            assert made[f"fair_n_{scope}"] == len(shares)
            assert made[f"fair_x_{scope}"] == sum(shares)
            assert made[f"fair_xx_{scope}"] == sum(share * share for share in shares)
            assert made[f"fair_min_{scope}"] == min(shares, default=None)


def test_starved_intervals_in_a_row_are_one_run(compacted: Compact) -> None:
    """A gap of more than a second, the end of an hour, or a sent delivery ends a run."""
    starved_rows = {"offered_qos1": 2}
    rows = [row("a", 60 * number, 60, **starved_rows) for number in (1, 2, 3)]
    rows += [row("a", 300, 60, **starved_rows)]  # a minute is missing before it
    rows += [row("a", 360, 60, offered_qos1=2, sent_qos1=1)]
    rows += [row("a", 3540, 60, **starved_rows), row("a", 3600, 60, **starved_rows)]  # the second ends in the next hour
    rows += [row("b", 60, 60, **starved_rows, connected=False)]
    got = compacted([rows])[STARVATION]
    assert [(r["start_us"] - NOON_US, r["end_us"] - NOON_US, r["intervals"]) for r in got] == [
        (0, 180_000_000, 3),
        (240_000_000, 300_000_000, 1),
        (3_480_000_000, 3_540_000_000, 1),
        (3_540_000_000, 3_600_000_000, 1),
    ]
    assert got[0]["offered"] == 6


def test_compacted_rows_of_one_hour_put_together_are_those_of_all_raw_rows(compacted: Compact) -> None:
    """Merging two halves gives the same as aggregating all rows at once."""
    rows = some_rows(40)
    whole, merged = compacted([rows]), compacted([rows[:17], rows[17:]])
    for dataset in (SESSIONS, TIMELINE, STARVATION):
        names = {column.name for column in DATASETS[dataset]}
        assert [set(row) for row in merged[dataset]] == [names] * len(whole[dataset])
        assert merged[dataset] == whole[dataset]


@pytest.mark.parametrize("parts", [1, 2])
def test_groups_are_the_sums_of_their_rows(compacted: Compact, parts: int) -> None:
    """Groups and their members equal those of plain Python, in one part or two; who is in no group is left out."""
    random, names = Random(7), ("$share/g/a", "$share/g/b", "$share/h/#")
    rows = []
    for made in some_rows(60):
        mine = [] if made["client_id"] == "solo" else sorted(random.sample(names, random.randrange(3)))
        rows.append(made | {"share_groups": mine})
    for number in range(30):
        values = {name: random.choice((0, 3)) for name in COUNTERS if name.startswith(("offered", "sent", "dropped"))}
        rows.append(group_row(names[number % 3], 120 * (number + 1), 120, **values, mqueue_max=number))
    half = len(rows) // parts
    got = compacted([rows[:half], rows[half:]][:parts])[GROUPS]
    asked = {(name, r["client_id"], end_us(r) // HOUR_US * HOUR_US) for r in rows for name in r["share_groups"]}
    assert {(made["share_group"], made["client_id"], made["hour_us"]) for made in got} == asked
    assert len(got) == len(asked)
    for made in got:
        own = [r for r in rows if made["share_group"] in r["share_groups"] and r["client_id"] == made["client_id"]]
        own = [r for r in own if end_us(r) // HOUR_US * HOUR_US == made["hour_us"]]
        assert made["rows"] == len(own)
        for name in ("offered", "sent", "dropped"):
            assert made[name] == sum(total(r, name) for r in own), name
        for reason in DROP_REASONS:
            columns = [drop_column(reason, qos) for qos in QOS]
            assert made[f"dropped_{reason}"] == sum(r[name] for r in own for name in columns if name), reason
        for name in ("connected_us", "paced_for_us", *(f"{clock}_us" for clock in CLOCKS)):
            assert made[name] == sum(r[name] for r in own), name
        assert made["mqueue_max"] == max(r["mqueue_max"] for r in own)
        assert made["last_us"] == max(map(end_us, own))
