"""From rows to sums per slot, window and session."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pytest

from spark_jobs import transforms
from tests.support_spark.metrics_files import NOON, Row, at, histogram, row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Frame = Callable[[Sequence[Row]], DataFrame]

pytestmark = pytest.mark.spark

SECOND = 1_000_000
START = int(NOON.timestamp()) * SECOND


def windows(rows: "DataFrame", window: int = 60, slot: int = 10) -> "DataFrame":
    """Sums per window, in seconds."""
    clocked = transforms.with_clock(rows, window * SECOND, slot * SECOND)
    slots = transforms.with_slot_seconds(transforms.by_slot(clocked), slot * SECOND)
    return transforms.by_window(slots)


def test_ranges_take_the_start_and_leave_the_end(frame: "Frame") -> None:
    """interval_end from the start on, up to and not including the end; either side may be open."""
    rows = frame([row("a", 10), row("a", 20), row("a", 30)])
    assert transforms.in_range(rows, at(20), at(30)).count() == 1
    assert transforms.in_range(rows, at(20), None).count() == 2
    assert transforms.in_range(rows, None, at(20)).count() == 1
    assert transforms.in_range(rows, None, None).count() == 3


def test_overview(frame: "Frame") -> None:
    """Rows, first and last end; the usual interval is that of rows with deliveries, not of heartbeats."""
    beats = [row("idle", 60, 60), row("idle", 120, 60), row("idle", 180, 60)]
    found = transforms.overview(frame([*beats, row("a", 10, 10, offered_qos0=1)])).collect()[0]
    assert (found["rows"], found["first_us"], found["last_us"]) == (
        4,
        START + 10 * SECOND,
        START + 180 * SECOND,
    )
    assert (found["active_interval_us"], found["interval_us"]) == (10 * SECOND, 60 * SECOND)


def test_windows_add_up_and_have_a_total(frame: "Frame") -> None:
    """A row belongs to the window that its end lies in; the row with a null window is the sum of all."""
    rows = frame(
        [
            row("a", 10, offered_qos0=5, sent_qos0=5),
            row("b", 59, offered_qos0=7, sent_qos0=3, dropped_qos0=1, dropped_queue_full_qos0=1),
            row("a", 60, offered_qos0=1, mqueue_max=9),
        ]
    )
    found = {r["window_us"]: r for r in windows(rows).collect()}
    first, second = found[START], found[START + 60 * SECOND]
    assert (first["rows"], first["offered_qos0"], first["sent_qos0"], first["dropped_qos0"]) == (2, 12, 8, 1)
    assert (second["rows"], second["offered_qos0"], second["mqueue_max"]) == (1, 1, 9)
    assert (found[None]["rows"], found[None]["offered_qos0"], found[None]["mqueue_max"]) == (3, 13, 9)


def test_a_late_export_does_not_count_twice(frame: "Frame") -> None:
    """Two exports that fall into one slot, and none into the next, still cover the time of both."""
    rows = frame([row("a", end) for end in (10, 20.1, 29.9, 40.1, 50)])
    assert {r["window_us"]: r["covered_us"] for r in windows(rows).collect()}[None] == 50 * SECOND


def test_silence_is_not_covered(frame: "Frame") -> None:
    """After an hour without rows, the next slot stands for two slots at most."""
    rows = frame([row("a", 10), row("a", 3610)])
    assert {r["window_us"]: r["covered_us"] for r in windows(rows).collect()}[None] == 30 * SECOND


@pytest.mark.parametrize(
    "sign",
    [
        "congested_us",
        "window_full_us",
        "window_bytes_full_us",
        "rate_limited_us",
        "mailbox_busy_samples",
        "gated_congested",
        "gated_backlog",
        "gated_rate",
    ],
)
def test_pressure_has_several_signs(frame: "Frame", sign: str) -> None:
    """Congestion, a full window, a used up rate, a busy mailbox or a gated delivery of any session are pressure."""
    rows = [row("calm", 10), row("calm", 20), row("pressed", 20, **{sign: 1})]
    total = {r["window_us"]: r for r in windows(frame(rows)).collect()}[None]
    assert (total["pressure_us"], total["covered_us"]) == (10 * SECOND, 20 * SECOND)


def test_qos_0_is_parted_by_pressure(frame: "Frame") -> None:
    """All sessions' QoS 0 by slots, sessions' own by their own pressure; idle time is neither."""
    rows = [
        row("calm", 10, offered_qos0=100, sent_qos0=100),
        row("calm", 20, offered_qos0=100, sent_qos0=100),
        row("pressed", 20, offered_qos0=50, sent_qos0=20, congested_us=1),
        row("calm", 30),
    ]
    total = {r["window_us"]: r for r in windows(frame(rows)).collect()}[None]
    assert (total["tight_sent_qos0"], total["tight_busy_us"]) == (120, 10 * SECOND)
    assert (total["sent_qos0"], total["busy_us"], total["covered_us"]) == (220, 20 * SECOND, 30 * SECOND)
    assert (total["pressed_sent_qos0"], total["pressed_duration_us"]) == (20, 10 * SECOND)
    assert (total["calm_sent_qos0"], total["calm_duration_us"]) == (200, 20 * SECOND)


def test_rows_that_do_not_balance_are_counted(frame: "Frame") -> None:
    """By QoS and in all; drops that their reasons do not explain are counted apart."""
    rows = [
        row("good", 10, offered_qos0=5, sent_qos0=3),
        row("bad", 10, offered_qos0=5, sent_qos0=3, waiting_qos0=7, offered_qos2=1, waiting_qos2=0),
        row("unexplained", 10, offered_qos1=1, dropped_qos1=1),
    ]
    total = {r["window_us"]: r for r in windows(frame(rows)).collect()}[None]
    found = [total[name] for name in ("books_off", "books_off_qos0", "books_off_qos1", "books_off_qos2")]
    assert found == [1, 1, 0, 1]
    assert total["reasons_off"] == 1


def test_distributions_are_added_by_window_and_in_all(frame: "Frame") -> None:
    """Each of the six histograms, per window and over the whole range."""
    rows = frame(
        [
            row("a", 10, mailbox_hist=histogram([1, 2]), ack_qos2_hist=histogram([500])),
            row("b", 70, mailbox_hist=histogram([2])),
        ]
    )
    clocked = transforms.with_clock(rows, 60 * SECOND, 10 * SECOND)
    found = transforms.with_whole_range(transforms.distributions(clocked)).collect()
    by = {(r["window_us"], r["metric"], r["qos"]): r for r in found}
    assert len(by) == len(found) == 3 * 6
    assert by[START, "mailbox", "all"]["histogram"] == histogram([1, 2])
    assert by[None, "mailbox", "all"]["histogram"] == histogram([1, 2, 2])
    assert by[None, "ack", "2"]["histogram"] == histogram([500])
    assert by[None, "wait", "0"]["histogram"] == histogram([])
    assert (by[None, "mailbox", "all"]["unit"], by[None, "wait", "1"]["unit"]) == ("deliveries", "us")


def test_sessions_are_told_apart(frame: "Frame") -> None:
    """The same client id on another broker, or begun anew, is another session; windows add up."""
    rows = frame(
        [
            row("a", 10, offered_qos0=1, mqueue_max=4, window_full_us=5),
            row("a", 70, offered_qos0=2, mqueue_max=3, window_full_us=6),
            row("a", 70, offered_qos0=4, broker="b2"),
            row("a", 70, offered_qos0=8, session_started=at(60)),
        ]
    )
    parts = transforms.by_session_and_window(transforms.with_clock(rows, 60 * SECOND, 10 * SECOND))
    assert parts.count() == 4
    found = {(r["broker"], r["session_started"]): r for r in transforms.by_session(parts).collect()}
    assert len(found) == 3
    first = next(r for (broker, _), r in found.items() if broker == "b1" and r["offered_qos0"] == 3)
    assert (first["mqueue_max"], first["window_full_us"], first["duration_us"]) == (4, 11, 20 * SECOND)


def test_waiting_times_of_a_few_sessions(frame: "Frame") -> None:
    """The histograms of all QoS of the named sessions, put together; a session without any keeps its row."""
    rows = frame(
        [
            row("a", 10, wait_qos0_hist=histogram([1]), wait_qos1_hist=histogram([9])),
            row("a", 20, wait_qos0_hist=histogram([1])),
            row("b", 20, wait_qos2_hist=histogram([3])),
        ]
    )
    few = rows.where("client_id = 'a'").select("broker", "client_id", "session_started").distinct()
    [found] = transforms.waiting_times_of(few, rows).collect()
    assert found["wait_hist"] == histogram([1, 1, 9])
