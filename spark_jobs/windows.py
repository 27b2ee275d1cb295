"""How the time of a report is cut up: the length of its windows, and of the slots inside them."""

import math
import re
from typing import Final

from spark_jobs.errors import ReportError

AUTO: Final = "auto"
MOST_AUTO: Final = 120  # points that a plot of a page's width still shows one by one
FEWEST_AUTO: Final = 30
MOST: Final = 2000  # windows that the page and its tables can carry

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LADDER: Final = (
    1,
    2,
    5,
    10,
    15,
    20,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10_800,
    21_600,
    43_200,
    86_400,
)
_TIMES: Final = (1, 2, 3, 4, 6)
_MANY: Final = 10
_SECOND_US: Final = 1_000_000


def parse_window(text: str) -> int | None:
    """A window's length in seconds from text such as 30s, 1m, 2h or 1d; None for "auto".

    Raises:
        ReportError: the text is something else.
    """
    if text == AUTO:
        return None
    match = re.fullmatch(r"([1-9]\d{0,6})([smhd])", text)
    if match is None:
        raise ReportError(
            f"--window {text}: must be auto, or a whole number with s, m, h or d, such as 30s or 1m"
        )
    return int(match[1]) * _UNITS[match[2]]


def choose_window(first_us: int, last_us: int, interval_us: int) -> int:
    """Window length in seconds that gives about 30 to 120 points.

    A window holds a whole number of the exporter's intervals, as nearly as that can be, or many: else some
    windows would hold one export more than others. It holds at least two where enough points remain, so that
    an export that comes a little early or late does not show as an empty window beside a double one.

    Args:
        first_us, last_us: first and last interval_end.
        interval_us: the usual length of an interval.
    """
    span = max(last_us - first_us, 1) / _SECOND_US
    interval = max(interval_us / _SECOND_US, 1.0)
    multiples = {round(interval) * times for times in _TIMES}
    fitting = [window for window in sorted(multiples.union(_LADDER)) if _fits(window, interval)]
    for window in fitting:
        roomy = window >= 1.8 * interval
        if span / window <= MOST_AUTO and (roomy or span / (2 * window) < FEWEST_AUTO):
            return window
    days = max(span / MOST_AUTO, interval) / 86_400
    return math.ceil(days) * 86_400


def _fits(window: int, interval: float) -> bool:
    """Whether a window holds a whole number of intervals, give or take a twentieth, or many of them."""
    number = window / interval
    return number >= _MANY or (number > 0.9 and abs(number - round(number)) <= 0.05)


def choose_slot(window_us: int, interval_us: int) -> int:
    """Slot length in microseconds: divides the window evenly; if it can be, not shorter than an interval."""
    # An interval is a little longer than its nominal length, by what the export itself takes: five per cent
    # are forgiven.
    parts = max(1, int(window_us * 1.05 // max(interval_us, _SECOND_US)))
    while window_us % parts:
        parts -= 1
    return window_us // parts


def check_window(window: int, first_us: int, last_us: int) -> None:
    """Raise ReportError if a window of so many seconds would give more points than a page can carry."""
    span = (last_us - first_us) / _SECOND_US
    if span / window > MOST:
        least = math.ceil(span / MOST)
        raise ReportError(
            f"--window {window}s: {span / window:.0f} windows in this range, at most {MOST} can be shown; "
            f"give at least {least}s, or auto"
        )
