"""The tables of `sluice top`: rates between two answers, widths, and how names and numbers are written."""

import pytest

from broker.cli.top.table import Snapshot, printable, short, size, span, view
from tests.support.broker.rendering import rendered
from tests.support.broker.top import answer, row

pytestmark = pytest.mark.once


# -- what has happened between two answers


def test_rates() -> None:
    """A snapshot has the rate of sending since the last answer, and the share of time with a full window."""
    before = Snapshot(answer(row(sent=100, full_us=5_000_000), clock_us=10_000_000))
    now = Snapshot(answer(row(sent=500, full_us=6_000_000), clock_us=12_000_000), before)
    assert (now.rows[0]["sent_per_second"], now.rows[0]["full"]) == (200, 0.5)
    assert " 50% " in rendered(view(now, 200), 200)


def test_no_rates_of_another_session() -> None:
    """A snapshot does not compare a session with an earlier one of the same client id."""
    before = Snapshot(answer(row(sent=100), clock_us=10_000_000))
    now = Snapshot(answer(row(sent=5, started_us=11_000_000), row("b"), clock_us=12_000_000), before)
    assert not any("sent_per_second" in one for one in now.rows)


def test_the_same_answer_twice() -> None:
    """A snapshot keeps its rates when the broker repeats its answer."""
    first = Snapshot(answer(row(sent=0), clock_us=1_000_000))
    second = Snapshot(answer(row(sent=10), clock_us=2_000_000), first)
    third = Snapshot(answer(row(sent=10), clock_us=2_000_000), second)
    assert third.rows[0]["sent_per_second"] == 10


# -- tables


@pytest.mark.parametrize("width", [20, 60, 80, 100, 120, 200])
def test_width(width: int) -> None:
    """A table is no wider than the terminal: it cuts names, and keeps the columns that it can be sorted by."""
    snapshot = Snapshot(answer(row("x" * 300), row("漢" * 300)))
    lines = rendered(view(snapshot, width), width).splitlines()
    assert max(map(len, lines)) <= width
    if width >= 80:
        for title in ("mailbox", "mqueue", "bytes", "full", "drops", "patience"):
            assert title in lines[2]
        assert "…" in lines[3]


@pytest.mark.parametrize("name", ["\x00", "\x1b[31m", "\x9b2J", "\u202e", "\u200b", "\u2028", "\ud800", "\x7f", "\r\n"])
def test_printable(name: str) -> None:
    """`printable` escapes every character that is not visible."""
    assert printable(name).isprintable()
    assert "\\" in printable(name)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (0.25, "0.2"), (12.7, "13"), (9_999, "9999"), (10_000, "10.0k"), (123_456, "123k"), (5e9, "5.0G")],
)
def test_short(number: float, text: str) -> None:
    """`short` writes numbers in few characters."""
    assert short(number) == text


def test_sizes_and_times() -> None:
    """`size` counts in powers of 1024, and `span` writes a time in its two largest units."""
    assert [size(number) for number in (0, 10_000, 10_240, 5 * 2**20)] == ["0", "10000", "10.0Ki", "5.0Mi"]
    seconds = (0, 0.5, 59, 60, 61, 3_599, 3_600, 86_399, 86_400, 10 * 86_400 + 7_200)
    shown = ["0", "0.5s", "59s", "1m00s", "1m01s", "59m59s", "1h00m", "23h59m", "1d00h", "10d02h"]
    assert [span(int(second * 1e6)) for second in seconds] == shown
