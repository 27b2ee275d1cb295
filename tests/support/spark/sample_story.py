"""The story of the sample result, and helpers for its tables.

From 14:00 on, subscribers of the prefix `meter` acknowledge late, their windows fill, and fourteen of them get nothing
for a while. Some client ids are hostile.
"""

import math
from typing import Any

Rows = list[dict[str, Any]]

HOUR = 3_600_000_000
WINDOW = 300_000_000
START = 1_795_219_200_000_000  # 2026-11-21 00:00 UTC
TROUBLE = START + 14 * HOUR
SCRIPT = "</title><script>alert('x')</script>\u202e\""
HOSTILE = (SCRIPT, 'a,b;"c"\nnew line\t', "=cmd|' /C calc'!A0", "x" * 65_535, "<img src=x onerror=alert(1)>", "  ")
QOS = ("all", "0", "1", "2")


def strength(at: int, trouble: float) -> float:
    """The strength of the trouble at a moment, from 0 to 1."""
    hours = (at - TROUBLE) / HOUR
    return 0.0 if hours < 0 or hours > 6 else trouble * math.sin(math.pi * hours / 6)


def bounded(name: str, value: float) -> dict[str, Any]:
    """A percentile with the bounds of its bucket."""
    bucket = int(value).bit_length()
    return {name: float(value), f"{name}_low": 1 << (bucket - 1), f"{name}_high": (1 << bucket) - 1}
