"""Comparing two results: differences, verdicts and their texts."""

import random
from dataclasses import replace
from typing import Any

import pytest

from spark_jobs.comparison import bootstrap, pairs, significance
from spark_jobs.comparison.compare import AMBIGUOUS, NOT_SIGNIFICANT, SIGNIFICANT, TOO_LITTLE, compare, with_comparison
from spark_jobs.comparison.measured import MEASURED
from spark_jobs.measures.histogram import bucket_of
from spark_jobs.measures.layout import LAYOUTS
from spark_jobs.measures.result import Facts, Result, table
from spark_jobs.metrics import BUCKETS, GATE_REASONS, QOS
from spark_jobs.store.schema import TIMELINE_HISTOGRAMS

pytestmark = pytest.mark.once

HOUR, MINUTE = 3_600_000_000, 60_000_000
EMPTY = {name: table(name, "", []) for name in LAYOUTS}


def run(label: str, hours: int, *, level: float = 0.9, seed: int = 1, minutes: int = 0, window: int = MINUTE) -> Result:
    """A result with a delivery ratio around a level, by hour and window; p99 of QoS 1 about 1 ms."""
    rng = random.Random(seed)
    facts = Facts(label, 100, 5, ("b",), hours, 0, hours * HOUR, MINUTE, window, MINUTE, 3)
    by_hour = [
        {
            "hour_us": hour * HOUR,
            "offered": 1000,
            "sent": 900,
            "dropped": 10,
            "lost": 10,
            "delivery_ratio": level + rng.uniform(-0.01, 0.01),
            "jain_delivery_ratio": None,
            "ack_qos1_p99": 1000 + rng.uniform(-100, 100),
            "starved_sessions": 0,
            "seconds": 3600.0,
        }
        for hour in range(hours)
    ]
    points = [
        {
            "qos": "all",
            "start_us": minute * window,
            "mailbox_max": rng.randrange(10),
        }
        for minute in range(minutes)
    ]
    windows = [window_of(int(10_000 * (level + rng.uniform(-0.01, 0.01))), rng) for _ in range(minutes)]
    ratios = {"delivery_ratio": level, "sent_per_second": 2.0, "dropped_per_second": 0.0, "seconds": 3600.0}
    p99 = {"metric": "ack", "qos": "1", "scope": "all", "p99": 1000.0}
    rows: dict[str, list[dict[str, Any]]] = {
        "hours": by_hour,
        "timeline": points,
        "totals": [{"qos": qos, "offered": 100, **ratios, "pressure_share": 0.01} for qos in ("all", "0")],
        "percentiles": [p99],
        "starvation": [{"length": "all", "clients": 0}],
        "fairness": [{"scope": "all", "qos": "all", "jain_delivery_ratio": 0.99}],
        "reasons": [{"what": "gated", "qos": "0", "deliveries": 5}],
    }
    return Result(facts, {name: table(name, label, rows.get(name, [])) for name in LAYOUTS}, windows)


def window_of(sent: int, rng: random.Random) -> dict[str, Any]:
    """The sums of a window with 10,000 QoS 0 offered, and waits of about 1 ms."""
    counts = [0] * BUCKETS
    for _ in range(20):
        counts[bucket_of(rng.randrange(900, 1100))] += 1
    flow = {f"{name}_qos{qos}": 0 for name in ("offered", "due", "sent", "dropped", "away_dropped") for qos in QOS}
    gated = {f"gated_{reason}": 0 for reason in GATE_REASONS}
    known = {"offered_qos0": 10_000, "due_qos0": 10_000, "sent_qos0": sent, "passed_us": MINUTE}
    return flow | gated | known | dict.fromkeys(TIMELINE_HISTOGRAMS, counts)


def result_of_hours(label: str, hours: list[dict[str, Any]]) -> Result:
    """A result with these rows of `hours`."""
    facts = Facts(label, 100, 5, ("b",), len(hours), 0, HOUR, MINUTE, MINUTE, MINUTE, 3)
    totals = [{"qos": qos, "seconds": 3600.0, "pressure_share": 0.01, "delivery_ratio": 1.0} for qos in ("all", "0")]
    p99 = [{"metric": "ack", "qos": "1", "scope": "all", "p99": 1000.0}]
    known = {"hours": hours, "totals": totals, "percentiles": p99}
    return Result(facts, EMPTY | {name: table(name, label, rows) for name, rows in known.items()})


def rows_of(baseline: Result, after: Result) -> dict[str, dict[str, Any]]:
    """The rows of the comparison by measure."""
    return {row["measure"]: row for row in compare(baseline, after).to_pylist()}


def test_every_measure_has_a_row() -> None:
    """A measure without values in a run is null, with too little data."""
    after = with_comparison(run("before", 24), run("after", 24))
    rows = {row["measure"]: row for row in after.rows_of("comparison")}
    assert list(rows) == [measured.measure for measured in MEASURED]
    assert {row["run"] for row in rows.values()} == {"after"}
    unknown = rows["inverted_qos0"]
    assert (unknown["baseline"], unknown["difference"], unknown["better"]) == (None, None, None)
    assert unknown["verdict"] == TOO_LITTLE


def test_a_difference_over_a_day_is_significant() -> None:
    """Five points more sent of offered, every hour, are significantly better; unchanged values are not."""
    rows = rows_of(run("before", 24), run("after", 24, level=0.95, seed=2))
    found = rows["delivery_ratio"]
    assert (found["baseline"], found["value"], found["difference"]) == (0.9, 0.95, 0.05)
    assert found["ratio"] == pytest.approx(0.95 / 0.9)
    assert (found["verdict"], found["better"], found["n_baseline"], found["n"]) == (SIGNIFICANT, True, 24, 24)
    assert found["test"] == f"{pairs.NAME}; hours of the same weekday and time"
    assert found["words"].startswith(
        "Statistically significant over 24 pairs of hours of the same weekday and time (p < 0.001). "
        "Median change of a pair: +5."
    )
    assert found["effect_low"] < 0.05 < found["effect_high"]
    assert not found["effect_is_relative"]
    assert rows["ack_qos1_p99"]["verdict"] == NOT_SIGNIFICANT
    assert rows["ack_qos1_p99"]["words"].startswith("Not significant over 24 pairs of hours of the same weekday")
    assert rows["ack_qos1_p99"]["effect_is_relative"]
    assert rows["starved_sessions"]["p_value"] == 1
    assert rows["starved_sessions"]["ratio"] is None
    assert rows["delivery_ratio"]["p_adjusted"] > rows["delivery_ratio"]["p_value"]


def test_swapped_runs_swap_better_and_worse() -> None:
    """The opposite difference is worse; throughput is neither better nor worse."""
    rows = rows_of(run("after", 24, level=0.95, seed=2), run("before", 24))
    assert (rows["delivery_ratio"]["better"], rows["delivery_ratio"]["difference"]) == (False, -0.05)
    assert rows["sent_per_second"]["better"] is None


def test_few_hours_are_judged_by_their_windows() -> None:
    """Two hours are too few, their minutes are not, also for latencies and extremes. Hourly measures get no verdict."""
    rows = rows_of(run("before", 2, minutes=100), run("after", 2, level=0.95, seed=2, minutes=100))
    found = rows["delivery_ratio"]
    test = f"{bootstrap.NAME}; windows of 1 minute"
    assert found["words"].startswith("Statistically significant over 100 and 100 windows of 1 minute")
    assert (found["verdict"], found["n"], found["test"]) == (SIGNIFICANT, 100, test)
    latency = rows["ack_qos1_p99"]
    assert (latency["verdict"], latency["n"], latency["test"]) == (NOT_SIGNIFICANT, 100, test)
    assert found["effect_low"] < 0.05 < found["effect_high"]
    longest = rows["mailbox_max"]
    assert (longest["verdict"], longest["n"]) == (TOO_LITTLE, 100)  # of the whole range there is no value
    assert longest["test"] == f"{significance.NAME}; windows of 1 minute"
    assert rows["starved_sessions"]["verdict"] == TOO_LITTLE
    told = rows["starved_sessions"]["words"]
    assert told.startswith("Too little data: 2 and 2 hours; the test needs at least 8 on each side")


def test_windows_of_other_lengths_are_not_put_beside_each_other() -> None:
    """Sums over five minutes and over one minute cannot be compared."""
    rows = rows_of(run("before", 2, minutes=100), run("after", 2, minutes=100, window=5 * MINUTE))
    assert rows["delivery_ratio"]["verdict"] == TOO_LITTLE
    assert rows["delivery_ratio"]["test"].endswith("windows of 5 minutes")


def test_hours_that_move_against_the_whole_range_are_ambiguous() -> None:
    """Each hour's p99 is worse but for a few that were far worse before: that is neither better nor worse."""
    rng = random.Random(1)
    before = [{"hour_us": hour * HOUR, "ack_qos1_p99": 1000 + rng.uniform(-50, 50)} for hour in range(24)]
    worse = [{**row, "ack_qos1_p99": 1.5 * row["ack_qos1_p99"]} for row in before]
    whole = {"metric": "ack", "qos": "1", "scope": "all"}
    results = [
        replace(result, tables={**result.tables, "percentiles": table("percentiles", "", [{**whole, "p99": p99}])})
        for result, p99 in ((result_of_hours("before", before), 9e6), (result_of_hours("after", worse), 1500.0))
    ]
    row = rows_of(*results)["ack_qos1_p99"]
    assert (row["verdict"], row["effect"]) == (AMBIGUOUS, pytest.approx(0.5))
    assert row["words"].startswith("Ambiguous over 24 pairs")
    assert row["words"].endswith("moved to the other side: a few hours or windows decide it.")
