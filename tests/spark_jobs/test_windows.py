"""How the time of a report is cut up."""

import pytest

from spark_jobs.errors import ReportError
from spark_jobs.windows import check_window, choose_slot, choose_window, parse_window

pytestmark = pytest.mark.once

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("1m", 60), ("2h", 7200), ("1d", 86_400), ("auto", None)]
)
def test_lengths_have_units(text: str, seconds: int | None) -> None:
    """Whole numbers of seconds, minutes, hours and days, or auto."""
    assert parse_window(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "1", "m", "-1m", "1.5m", "1 m", "1w", "99999999s"])
def test_other_lengths_are_refused(text: str) -> None:
    """The message says what would be right."""
    with pytest.raises(ReportError, match="30s or 1m"):
        parse_window(text)


@pytest.mark.parametrize(
    ("span", "interval", "window"),
    [
        (60, 1, 2),  # roomy: two exports to a window, and 30 points
        (40, 1, 1),  # two exports to a window would leave 20 points
        (10, 1, 1),
        (600, 10, 20),
        (3600, 10, 30),
        (86_400, 10, 900),
        (30 * 86_400, 10, 21_600),
        (420, 7, 14),  # twice the interval, however odd that is
        (7200, 7, 120),
        (3, 10, 10),  # one export only: a window is not shorter than the interval
        (900 * 86_400, 10, 8 * 86_400),
    ],
)
def test_automatic_windows_suit_the_range(span: int, interval: int, window: int) -> None:
    """About 30 to 120 points, each at least as long as the exporter's interval."""
    assert choose_window(0, span * SECOND, interval * SECOND) == window


def test_slots_divide_windows() -> None:
    """A slot is at least an interval long, forgives a late export, and divides its window evenly."""
    assert choose_slot(60 * SECOND, 10 * SECOND) == 10 * SECOND
    assert choose_slot(60 * SECOND, 10_003_000) == 10 * SECOND
    assert choose_slot(60 * SECOND, 7 * SECOND) == 7_500_000
    assert choose_slot(SECOND, 10 * SECOND) == SECOND
    assert choose_slot(2 * SECOND, 100_000) == SECOND


def test_too_many_windows_are_refused() -> None:
    """The message says the shortest length that will do."""
    check_window(1, 0, 2000 * SECOND)
    with pytest.raises(ReportError, match="give at least 44s"):
        check_window(1, 0, 86_400 * SECOND)
