"""Ratios of whole numbers, rounded once: the same whatever order the numbers were added up in."""

from typing import Final

MICROSECONDS: Final = 1_000_000
DIGITS: Final = 9


def ratio(part: int | None, whole: int | None) -> float | None:
    """part / whole to nine digits after the point; None where either is missing or whole is 0."""
    if part is None or not whole:
        return None
    return round(part / whole, DIGITS)  # of two ints Python gives the nearest float, however large they are


def per_second(count: int | None, time_us: int | None) -> float | None:
    """A rate per second from a count and microseconds."""
    if count is None or not time_us:
        return None
    return round(count * MICROSECONDS / time_us, DIGITS)


def seconds(time_us: int) -> float:
    """Seconds from microseconds."""
    return round(time_us / MICROSECONDS, DIGITS)
