"""The length of the timeline's slots: a whole part of an hour, so that no slot belongs to two."""

import re
from typing import Final

from spark_jobs.compaction.schema import HOUR_US
from spark_jobs.errors import ReportError

DEFAULT: Final = "1m"
SECOND_US: Final = 1_000_000
LENGTHS: Final = tuple(seconds * SECOND_US for seconds in range(1, 3601) if 3600 % seconds == 0)
_UNITS: Final = {"s": 1, "m": 60, "h": 3600}


def parse_slot(text: str) -> int:
    """A slot's length in microseconds from text such as 10s, 1m or 1h.

    Raises:
        ReportError: the text is something else, or no whole part of an hour.
    """
    match = re.fullmatch(r"([1-9]\d{0,3})([smh])", text)
    length = int(match[1]) * _UNITS[match[2]] * SECOND_US if match else 0
    if length not in LENGTHS:
        raise ReportError(f"--slot {text}: must be a whole part of an hour with s, m or h, such as 10s, 1m or 15m")
    return length


def choose_slot(interval_us: int) -> int:
    """The shortest slot that an interval of the exporter fits into, give or take a twentieth.

    An interval is a little longer than its nominal length, by what the export itself takes.
    """
    return next((length for length in LENGTHS if length * 1.05 >= interval_us), HOUR_US)


def words(slot_us: int) -> str:
    """A length as `parse_slot` reads it."""
    seconds = slot_us // SECOND_US
    return f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"
