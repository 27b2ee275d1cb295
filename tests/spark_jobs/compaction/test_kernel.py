"""Aggregated raw rows, compared with the same sums in plain Python."""

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from broker.telemetry.interval_row import interval_row
from broker.telemetry.schema import metrics_schema
from spark_jobs.arrays import ints
from spark_jobs.compaction import kernel
from spark_jobs.metrics import COUNTERS, HISTOGRAMS, QOS
from spark_jobs.store.schema import (
    DATASETS,
    FAIR_ONE,
    GAUGES,
    HOUR_US,
    SESSIONS,
    STARVATION,
    TIMELINE,
    TIMELINE_HISTOGRAMS,
)
from tests.support.spark.metrics_files import NOON, Row, arrow_schema, at, earlier_schema, histogram, row

pytestmark = pytest.mark.once

Compacted = Mapping[str, list[Row]]
NOON_US = int(NOON.timestamp()) * 1_000_000
SLOT_US = 300_000_000


def compacted(parts: Sequence[Sequence[Row]]) -> Compacted:
    """The compacted rows of raw rows, by dataset and sorted by key: of one part, or of several that are merged."""
    made = []
    for part in parts:
        columns = [pa.array([r[field.name] for r in part], field.type) for field in arrow_schema()]
        rows = kernel.with_hour(kernel.raw_rows(pa.Table.from_arrays(columns, schema=arrow_schema())))
        made.append(kernel.datasets(rows, SLOT_US))
    if len(made) == 1:
        return {dataset: table.to_pylist() for dataset, table in made[0].items()}
    return {dataset: kernel.merged(dataset, [each[dataset] for each in made]).to_pylist() for dataset in made[0]}


def some_rows(count: int) -> list[Row]:
    """Rows of four sessions over two hours with all kinds of values."""
    random = Random(5)
    rows = []
    for number in range(count):
        values: dict[str, Any] = {name: random.choice((0, 0, 1, 7)) for name in (*COUNTERS, *GAUGES)}
        made = [histogram(random.randrange(99) for _ in range(3)) for _ in HISTOGRAMS]
        values |= {name: random.choice((None, entries)) for name, entries in zip(HISTOGRAMS, made, strict=True)}
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


def test_sessions_are_the_sums_of_their_rows() -> None:
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
        assert made["topic_group"] == {"car-1": "car", "van/2": "van", "solo": "", "-x": ""}[made["client_id"]]
        for name in COUNTERS:
            assert made[name] == sum(r[name] for r in own), name
        for name in GAUGES:
            assert made[name] == max(r[name] for r in own), name
        for name in HISTOGRAMS:
            assert made[name] == added([r[name] for r in own]), name
        assert made["pressed_rows"] == len(hard)
        assert made["pressed_sent_qos1"] == sum(r["sent_qos1"] for r in hard)
        assert made["pressed_ack_qos1_buckets"] == added([r["ack_qos1_buckets"] for r in hard])
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


def test_the_time_connected_of_files_of_before() -> None:
    """Without its column, who was connected at the end of an interval was so for all of it; with it, it says itself."""
    rows = [
        row("a", 60, 60, connected_us=6_000_000),
        row("b", 60, 60, connected=False, connected_us=6_000_000),
        row("c", 60, -1, connected_us=0),
    ]
    found = {}
    for version in (5, 6):
        schema = earlier_schema(version)
        columns = [pa.array([made[field.name] for made in rows], field.type) for field in schema]
        raw = kernel.with_hour(kernel.raw_rows(pa.Table.from_arrays(columns, schema=schema)))
        found[version] = ints(kernel.datasets(raw, SLOT_US)[SESSIONS], "connected_us").tolist()
    assert found == {5: [60_000_000, 0, 0], 6: [6_000_000, 6_000_000, 0]}


def starved(made: Row) -> bool:
    """Connected, deliveries offered or waiting, nothing sent."""
    asked = total(made, "offered") or total(made, "waiting_start")
    return bool(made["connected"] and asked and not total(made, "sent"))


def inverted(made: Row) -> int:
    """QoS 0 that overtook waiting QoS 1 and 2."""
    blocked = made["waiting_start_qos1"] + made["waiting_start_qos2"] and made["waiting_qos1"] + made["waiting_qos2"]
    gated = sum(made[name] for name in COUNTERS if name.startswith("gated_"))
    return max(0, made["sent_qos0"] - made["waiting_start_qos0"] - gated) if blocked else 0


def test_the_timeline_has_what_jains_index_needs() -> None:
    """By slot: the number of intervals with offered deliveries, and the sums of their delivery ratios and squares."""
    rows = some_rows(60)
    got = compacted([rows])[TIMELINE]
    assert {made["slot"] for made in got} == {end_us(r) // SLOT_US * SLOT_US for r in rows}
    for made in got:
        own = [r for r in rows if end_us(r) // SLOT_US * SLOT_US == made["slot"]]
        assert made["rows"] == len(own)
        assert made["pressed_rows"] == sum(pressed(r) for r in own)
        assert made["dropped_queue_full_qos1"] == sum(r["dropped_queue_full_qos1"] for r in own)
        shares = [min(FAIR_ONE, FAIR_ONE * total(r, "sent") // total(r, "offered")) for r in own if total(r, "offered")]
        assert made["fair_n_all"] == len(shares)
        assert made["fair_x_all"] == sum(shares)
        assert made["fair_xx_all"] == sum(share * share for share in shares)
        assert made["fair_min_all"] == min(shares, default=None)
        for name in TIMELINE_HISTOGRAMS:
            assert made[name] == added([r[name] for r in own]), name


def test_starved_intervals_in_a_row_are_one_run() -> None:
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


def test_compacted_rows_of_one_hour_put_together_are_those_of_all_raw_rows() -> None:
    """Merging two halves gives the same as aggregating all rows at once."""
    rows = some_rows(40)
    whole, merged = compacted([rows]), compacted([rows[:17], rows[17:]])
    for dataset in (SESSIONS, TIMELINE, STARVATION):
        names = {column.name for column in DATASETS[dataset]}
        assert [set(row) for row in merged[dataset]] == [names] * len(whole[dataset])
        assert merged[dataset] == whole[dataset]


def test_the_row_of_an_interval_is_the_timeline_of_its_rows() -> None:
    """The broker's own totals of an interval equal the kernel's sums of the sessions' rows; each row counts once."""
    rows = [made | {"client_id": str(n), "in_interval": True} for n, made in enumerate(some_rows(40))]
    rows = [made | {"interval_start": rows[0]["interval_start"], "interval_end": at(60)} for made in rows]
    table = pa.Table.from_pylist(rows, metrics_schema().sessions)
    interval = interval_row(table, metrics_schema())
    both = pa.concat_tables([interval, table], promote_options="default")
    alone = table.set_column(table.column_names.index("in_interval"), "in_interval", pa.array([False] * 40))
    expected = kernel.datasets(kernel.with_hour(kernel.raw_rows(alone)), SLOT_US)[TIMELINE]
    assert kernel.timeline_of(kernel.interval_rows(both), SLOT_US).to_pylist() == expected.to_pylist()
    made = kernel.datasets(kernel.with_hour(kernel.raw_rows(both)), SLOT_US)
    assert (made[TIMELINE].num_rows, made[SESSIONS].num_rows) == (0, 40)
