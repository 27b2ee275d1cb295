"""Parses the option `--baseline`: parts separated by commas, such as `2026-11-01..2026-11-08,broker=eu-1`."""

from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, tzinfo
from typing import Final

from spark_jobs.errors import ReportError

RANGE: Final = ".."
KEYS: Final = ("broker", "store", "metrics")
EXAMPLES: Final = "2026-11-21, 2026-11-21T14:30 or 2026-11-21T14:30:00+01:00"
"""Of times."""
_LAST: Final = datetime(MAXYEAR, 12, 31, 23, tzinfo=UTC)  # later times cannot be extended to whole hours
_EXAMPLE: Final = "2026-11-01..2026-11-08, broker=NAME, store=URI or metrics=DIR, separated by commas"


@dataclass(frozen=True)
class Baseline:
    """A parsed `--baseline`; what it does not name is the same as for the run itself.

    Attributes:
        start, end: range of time, [start, end); None: not named, or that side is open.
        ranged: whether a range was named; it may be open on both sides.
        broker, store, metrics: the parts with these names; None if not named.
    """

    start: datetime | None = None
    end: datetime | None = None
    ranged: bool = False
    broker: str | None = None
    store: str | None = None
    metrics: str | None = None


def parse_baseline(text: str, zone: tzinfo = UTC) -> Baseline:
    """Parse a baseline.

    Times without an offset are in `zone`. The value of `store=` and `metrics=` may contain commas: it ends at a comma
    that is followed by another part.

    Raises:
        ReportError: a part is unknown, duplicate, or has an invalid value; the message says what was expected.
    """
    found: dict[str, str] = {}
    rest = text
    while rest:
        key, value, rest = _part(text, rest)
        if key in found:
            raise _wrong(text, f"{key} is named twice")
        found[key] = value
    if not found:
        raise _wrong(text, "names nothing")
    if {"store", "metrics"} <= found.keys():
        raise _wrong(text, "a store and a metrics folder cannot be one baseline; name one of them")
    left, _, right = found.get("range", RANGE).partition(RANGE)
    start, end = (time_of(f"--baseline {text}", side, zone) for side in (left, right))
    if start is not None and end is not None and start >= end:
        raise _wrong(text, "the range is empty; its start must be before its end")
    return Baseline(
        start, end, "range" in found, found.get("broker"), found.get("store"), found.get("metrics")
    )


def _part(text: str, rest: str) -> tuple[str, str, str]:
    """Key and value of the first part, and the rest."""
    for key in ("store", "metrics"):
        if rest.startswith(f"{key}="):
            value, rest = _until_next_part(rest.removeprefix(f"{key}="))
            return _with_value(text, key, value, rest)
    part, _, rest = rest.partition(",")
    key, equals, value = part.partition("=")
    if equals and key in KEYS:
        return _with_value(text, key, value, rest)
    if RANGE in part:
        return "range", part, rest
    raise _wrong(text, f"{part or 'an empty part'} is neither a range of time nor one of {', '.join(KEYS)}")


def _until_next_part(rest: str) -> tuple[str, str]:
    """Split at the first comma that is followed by another part."""
    parts = rest.split(",")
    for i in range(1, len(parts)):
        key = parts[i].partition("=")[0]
        if key in KEYS or _is_range(parts[i]):
            return ",".join(parts[:i]), ",".join(parts[i:])
    return rest, ""


def _is_range(part: str) -> bool:
    left, dots, right = part.partition(RANGE)
    if not dots or "/" in part:
        return False
    try:
        for side in (left, right):
            if side:
                datetime.fromisoformat(side)
    except ValueError:
        return False
    return True


def _with_value(text: str, key: str, value: str, rest: str) -> tuple[str, str, str]:
    if not value:
        raise _wrong(text, f"{key}= needs a value")
    return key, value, rest


def time_of(option: str, text: str, zone: tzinfo = UTC) -> datetime | None:
    """Parse a date or time in ISO 8601, in `zone` without an offset; None for an empty text.

    Raises:
        ReportError: the text is invalid.
    """
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
        time = (time if time.tzinfo else time.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):  # in UTC it may be before the year 1
        raise ReportError(f"{option}: {text} is not a date or time in ISO 8601; expected {EXAMPLES}") from None
    if time > _LAST:
        raise ReportError(f"{option}: {text} is after {_LAST:%Y-%m-%dT%H:%M}; leave the end out if there is none")
    return time


def _wrong(text: str, why: str) -> ReportError:
    return ReportError(f"--baseline {text}: {why}; expected {_EXAMPLE}")
