"""The two clocks, in microseconds."""

from time import monotonic_ns, time_ns
from typing import Final

SECOND: Final = 1_000_000


def monotonic_us() -> int:
    """The monotonic clock, for all timing: it never jumps."""
    return monotonic_ns() // 1000


def wall_us() -> int:
    """The time of day, since 1970 UTC: only for people and files."""
    return time_ns() // 1000
