"""Parses the length of the timeline's windows."""

import re
from typing import Final

from spark_jobs.errors import ReportError

AUTO: Final = "auto"
LONGEST: Final = 366 * 86_400
"""Seconds."""

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_window(text: str) -> int | None:
    """A length in seconds from text such as 30s, 1m, 2h or 1d; None for "auto".

    Raises:
        ReportError: the text is invalid.
    """
    if text == AUTO:
        return None
    match = re.fullmatch(r"([1-9]\d{0,6})([smhd])", text)
    if match is None:
        raise ReportError(f"--window {text}: expected auto, or a whole number with s, m, h or d, such as 30s or 1m")
    length = int(match[1]) * _UNITS[match[2]]
    if length > LONGEST:
        raise ReportError(f"--window {text}: expected at most 366d")
    return length
