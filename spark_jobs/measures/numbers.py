"""Ratios of whole numbers, rounded once, so that they do not depend on the order of addition."""

from typing import Final

MICROSECONDS: Final = 1_000_000
DIGITS: Final = 9


def ratio(part: int | None, whole: int | None) -> float | None:
    """part / whole to nine decimal places; None if either is missing or whole is 0."""
    if part is None or not whole:
        return None
    return round(part / whole, DIGITS)  # Python gives the nearest float, also for large ints


def per_second(count: int | None, time_us: int | None) -> float | None:
    """A rate per second from a count and microseconds."""
    if count is None or not time_us:
        return None
    return round(count * MICROSECONDS / time_us, DIGITS)


def seconds(time_us: int) -> float:
    """Seconds from microseconds."""
    return round(time_us / MICROSECONDS, DIGITS)


def rate_connected(count: int, connected_us: int) -> float | None:
    """A rate per second of connection; None for a client that was connected for less than one."""
    return per_second(count, connected_us) if connected_us >= MICROSECONDS else None
