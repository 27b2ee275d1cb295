"""The length of the timeline's slots: an hour is a multiple of it, so that no slot is in two hours."""

import re
from typing import Final

from spark_jobs.errors import ReportError
from spark_jobs.store.schema import HOUR_US

SECOND_US: Final = 1_000_000
LENGTHS: Final = tuple(seconds * SECOND_US for seconds in range(1, 3601) if 3600 % seconds == 0)
_UNITS: Final = {"s": 1, "m": 60, "h": 3600}


def parse_slot(text: str) -> int:
    """Parse a slot's length, such as 10s, 1m or 1h, into microseconds.

    Raises:
        ReportError: the text is invalid, or an hour is not a multiple of the length.
    """
    match = re.fullmatch(r"([1-9]\d{0,3})([smh])", text)
    length = int(match[1]) * _UNITS[match[2]] * SECOND_US if match else 0
    if length not in LENGTHS:
        raise ReportError(f"--slot {text}: expected a whole part of an hour with s, m or h, such as 10s, 1m or 15m")
    return length


def choose_slot(interval_us: int) -> int:
    """The shortest slot that is as long as an interval of the exporter, tolerating 5 % and a quarter of a second.

    An interval is slightly longer than configured, by the duration of the export.
    """
    return next((length for length in LENGTHS if length * 1.05 + SECOND_US // 4 >= interval_us), HOUR_US)


def format_slot(slot_us: int) -> str:
    """A length in the form that `parse_slot` parses."""
    seconds = slot_us // SECOND_US
    return f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"
