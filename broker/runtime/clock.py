"""The two clocks, in microseconds."""

from time import monotonic_ns, time_ns
from typing import Final

SECOND: Final = 1_000_000

NANOSECONDS: Final = [monotonic_ns]
"""The monotonic clock, in a list: compiled code looks a name of another module up in a dictionary, which took longer
than the clock. Tests put a clock of their own there."""


def monotonic_us() -> int:
    """The monotonic clock, for all timing: it never jumps."""
    return NANOSECONDS[0]() // 1000


def wall_us() -> int:
    """The time of day, since 1970 UTC: only for people and files."""
    return time_ns() // 1000
