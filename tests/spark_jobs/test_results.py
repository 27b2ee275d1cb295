"""The result tables of two small runs whose answers are known."""

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from spark_jobs.run import Run

pytestmark = pytest.mark.spark


def of(table: "list[dict[str, Any]]", **values: object) -> dict[str, Any]:
    """The one row with these values."""
    [found] = [row for row in table if all(row[name] == value for name, value in values.items())]
    return found


def test_totals(runs: "list[Run]") -> None:
    """Two sessions are offered 10 a second at QoS 0 for twelve seconds, of which four lose 6 each."""
    totals = runs[1].rows_of("totals")
    assert [row["qos"] for row in totals] == ["0", "1", "2", "all"]
    zero = of(totals, qos="0")
    assert (zero["offered"], zero["sent"], zero["dropped"], zero["waiting_growth"]) == (240, 216, 24, 0)
    assert zero["acknowledged"] is None
    assert zero["delivery_ratio"] == 0.9
    assert (zero["seconds"], zero["pressure_seconds"]) == (12, 4)
    assert (zero["offered_per_second"], zero["sent_per_second"], zero["dropped_per_second"]) == (20, 18, 2)
    assert of(totals, qos="1")["acknowledged"] == of(totals, qos="all")["acknowledged"] == 120
    assert of(totals, qos="2")["delivery_ratio"] is None


def test_windows(runs: "list[Run]") -> None:
    """A row for each second and QoS, in order; the pressure is where it was."""
    rows = [row for row in runs[1].rows_of("by_window") if row["qos"] == "0"]
    assert [row["window_start"].second for row in rows] == list(range(1, 13))
    assert [row["pressure_seconds"] for row in rows] == [0] * 3 + [1] * 4 + [0] * 5
    assert [row["sent"] for row in rows] == [20] * 3 + [14] * 4 + [20] * 5


def test_reasons(runs: "list[Run]") -> None:
    """Only the run with the gate has gated deliveries; shares are of what was offered at that QoS."""
    for run, gated in zip(runs, (0, 24), strict=True):
        row = of(run.rows_of("reasons"), what="gated", reason="congested")
        assert (row["deliveries"], row["share_of_offered"], row["qos"]) == (gated, gated / 240, "0")
        assert of(run.rows_of("reasons"), what="dropped", reason="queue_full", qos="0")["deliveries"] == 24
    assert len(runs[0].rows_of("reasons")) == 5 + 3 + 3 + 3 + 1 + 3


def test_pressure_is_defined_with_the_gate_off_too(runs: "list[Run]") -> None:
    """Inside: 14 a second of 20; outside all of it. The pressed session alone: 4 of 10."""
    for run in runs:
        table = run.rows_of("pressure")
        inside, outside = of(table, scope="pressure_windows"), of(table, scope="other_windows")
        assert (inside["seconds"], inside["sent_qos0_per_second"], inside["delivery_ratio"]) == (4, 14, 0.7)
        assert (outside["seconds"], outside["sent_qos0_per_second"], outside["delivery_ratio"]) == (8, 20, 1)
        assert of(table, scope="sessions_under_pressure")["sent_qos0_per_second"] == 4
        assert of(table, scope="other_sessions")["sent_qos0_per_second"] == 10


def test_percentiles_and_buckets(runs: "list[Run]") -> None:
    """Acknowledgements of 9 ms and of 1 ms fall into their buckets, per window and in all."""
    for run, low, high in zip(runs, (8192, 512), (16_383, 1023), strict=True):
        found = of(run.rows_of("percentiles"), metric="ack", qos="1")
        assert (found["samples"], found["p50_low"], found["p50_high"], found["max_high"]) == (
            120,
            low,
            high,
            high,
        )
        windows = [row for row in run.rows_of("percentiles_by_window") if row["metric"] == "ack"]
        assert len(windows) == 24
        buckets = [
            r for r in run.rows_of("histograms") if r["metric"] == "ack" and r["qos"] == "1" and r["count"]
        ]
        assert [(r["low"], r["high"], r["count"], r["share"]) for r in buckets] == [(low, high, 120, 1)]
    last = of(runs[0].rows_of("histograms"), metric="mailbox", bucket=31)
    assert (last["low"], last["high"]) == (2**30, None)


def test_queues(runs: "list[Run]") -> None:
    """The longest mailbox, and session seconds of congestion."""
    assert [run.one("queues")["mailbox_max"] for run in runs] == [40, 3]
    assert runs[0].one("queues")["congested_seconds"] == 2
    assert len(runs[0].rows_of("queues_by_window")) == 12


def test_books(runs: "list[Run]") -> None:
    """The rows balance, so the difference is nothing."""
    for row in runs[0].rows_of("books"):
        assert (row["rows"], row["rows_off"], row["difference"]) == (24, 0, 0)


def test_fairness(runs: "list[Run]") -> None:
    """Over all: x = 1 and 156/180 of everything. In a window under pressure: 1 and 9/15."""
    worst = 156 / 180
    found = of(runs[1].rows_of("fairness"), qos="all")
    assert found["sessions"] == 2
    assert found["lowest_delivery_ratio"] == pytest.approx(worst)
    assert found["jain_delivery_ratio"] == pytest.approx((1 + worst) ** 2 / (2 * (1 + worst**2)))
    windows = [row for row in runs[1].rows_of("fairness_by_window") if row["qos"] == "all"]
    assert windows[4]["jain_delivery_ratio"] == pytest.approx(1.6**2 / (2 * 1.36))
    assert windows[0]["jain_delivery_ratio"] == 1


def test_worst_sessions(runs: "list[Run]") -> None:
    """The slow one first, with what tells why."""
    slow, fast = runs[1].rows_of("worst_sessions")
    assert (slow["client_id"], slow["offered"], slow["sent"], slow["dropped"]) == ("slow", 180, 156, 24)
    assert (slow["gated"], slow["congested_share"], slow["mailbox_max"]) == (24, pytest.approx(2 / 12), 3)
    assert slow["wait_p99_us_high"] == 127
    assert (fast["client_id"], fast["delivery_ratio"]) == ("fast", 1)


def test_the_run_knows_its_extent(runs: "list[Run]") -> None:
    """Rows, sessions, times and the length of window and slot."""
    run = runs[0]
    assert (run.rows, run.sessions, run.seconds) == (24, 2, 12)
    assert (run.window_us, run.slot_us) == (1_000_000, 1_000_000)
    assert (run.last - run.first).total_seconds() == 11
