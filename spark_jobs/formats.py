"""Formats numbers, times and names for display. The text is not escaped for HTML."""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from importlib.resources import files
from typing import Final

DASH: Final = "–"
NARROW_SPACE: Final = "\u202f"
NO_BREAK_SPACE: Final = "\u00a0"
ADVICE: Final[dict[str, dict[str, str]]] = tomllib.loads(
    files("spark_jobs").joinpath("advice.toml").read_text(encoding="utf-8")
)
"""Kind of words -> reason -> text, which the broker uses too."""
LONGEST_NAME: Final = 48  # letters of a client id that a table shows; MQTT allows 65,535 bytes

_zone: ContextVar[tzinfo] = ContextVar("zone", default=UTC)
_TIME_UNITS: Final = ((60_000_000, "min"), (1_000_000, "s"), (1_000, "ms"), (1, "µs"))
_COUNT_UNITS: Final = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))


def count(number: float | None) -> str:
    """A whole number with thousands separators: 1,234,567."""
    return DASH if number is None else f"{number:,.0f}"


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 file, 2,000 files, 3 deliveries."""
    if number != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun}"


def short(number: float) -> str:
    """A short form of a number: 950, 1.2 k, 34 M."""
    for factor, unit in _COUNT_UNITS:
        if abs(number) >= factor:
            return f"{_three_digits(number / factor)}{NARROW_SPACE}{unit}"
    return _three_digits(number)


def rate(per_second: float | None) -> str:
    """A rate per second: 4,597/s, 12.5/s."""
    if per_second is None:
        return DASH
    return f"{_three_digits(per_second)}/s"


def _three_digits(number: float) -> str:
    """At most three significant digits, without trailing zeros and exponents."""
    size = abs(number)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    text = f"{number:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(part: float | None) -> str:
    """A share as per cent; values below 1 are never rounded to 100 %, values above 0 never to 0 %."""
    if part is None:
        return DASH
    if part in (0, 1):
        return f"{part * 100:.0f}{NARROW_SPACE}%"
    if 0.9999 <= part < 1:
        return f"> 99.99{NARROW_SPACE}%"
    if 0 < part < 0.0001:
        return f"< 0.01{NARROW_SPACE}%"
    return (
        f"{part * 100:.2f}{NARROW_SPACE}%"
        if part < 0.1 or part > 0.99
        else f"{part * 100:.1f}{NARROW_SPACE}%"
    )


def index(value: float | None) -> str:
    """Jain's index to three digits; values below 1 are never rounded to 1."""
    if value is None:
        return DASH
    if 0.9995 <= value < 1:
        return "> 0.999"
    return f"{value:.3f}"


def micros(value: float | None) -> str:
    """A time in microseconds, with a suitable unit: 350 µs, 1.4 ms, 2.1 s, 18 min."""
    if value is None:
        return DASH
    for factor, unit in _TIME_UNITS:
        if value >= factor:
            return f"{_three_digits(value / factor)}{NARROW_SPACE}{unit}"
    return f"0{NARROW_SPACE}µs"


def seconds(value: float) -> str:
    """A duration in seconds: 8 s, 2 min, 3.5 h, 2 days."""
    for factor, unit in ((86_400, "days"), (3600, "h"), (60, "min")):
        if value >= 2 * factor or value == factor:
            return f"{_three_digits(value / factor)}{NARROW_SPACE}{'day' if value == 86_400 else unit}"
    return f"{_three_digits(value)}{NARROW_SPACE}s"


def quantity(value: float | None, unit: str) -> str:
    """A value of a distribution: a time if its unit is microseconds, else a count."""
    if unit == "us":
        return micros(value)
    return DASH if value is None else _three_digits(value)


def at_most(high: float | None, low: float | None, unit: str) -> str:
    """The upper bound of a percentile; for the last bucket, which has none, its lower bound."""
    if high is not None:
        return f"≤{NO_BREAK_SPACE}{quantity(high, unit)}"
    return DASH if low is None else f"≥{NO_BREAK_SPACE}{quantity(low, unit)}"


@contextmanager
def in_zone(zone: tzinfo) -> Iterator[None]:
    """Within the block, times are shown in this time zone; elsewhere in UTC."""
    token = _zone.set(zone)
    try:
        yield
    finally:
        _zone.reset(token)


def zone_name() -> str:
    """The name of the time zone in which times are shown."""
    return str(_zone.get())


def local(time_seconds: float) -> datetime:
    """A point in time (seconds since 1970) in the time zone in which times are shown."""
    return datetime.fromtimestamp(time_seconds, _zone.get())


def utc_offset(time_seconds: float) -> float:
    """How many seconds the shown time zone is before UTC at this time."""
    offset = local(time_seconds).utcoffset()
    return 0.0 if offset is None else offset.total_seconds()


def moment(time: datetime) -> str:
    """A point in time to the second."""
    return _shown(time.astimezone(_zone.get()), "%Y-%m-%d %H:%M:%S")


def minute(time_us: int) -> str:
    """A point in time (microseconds since 1970) to the minute, without the year: 21 Nov 14:05."""
    return _shown(local(time_us // 1_000_000), "%-d %b %H:%M")


def span(start_us: int | None, end_us: int | None) -> str:
    """A range for a message, without its end: 2026-11-21T13:00 to 2026-11-21T15:00 (UTC); None: open."""
    zone = _zone.get()
    try:
        start, end = (
            None if time_us is None else datetime.fromtimestamp(time_us // 1_000_000, zone)
            for time_us in (start_us, end_us)
        )
    except (ValueError, OverflowError):  # the time zone may have no such year
        with in_zone(UTC):
            return span(start_us, end_us)
    first = "the beginning" if start is None else start.isoformat()[:16]
    last = "the end" if end is None else end.isoformat()[:16]
    return f"{first} to {last} ({zone})"


def between(start_us: int, end_us: int) -> str:
    """Two points in time; a common day is named once: 21 Nov 14:05 to 15:20."""
    start, end = (local(time // 1_000_000) for time in (start_us, end_us))
    last = _shown(end, "%H:%M") if start.date() == end.date() else minute(end_us)
    return f"{minute(start_us)} to {last}"


def _shown(time: datetime, form: str) -> str:
    """A local time; with its offset if the clocks show it twice, when they are set back."""
    is_twice = time.replace(fold=0).utcoffset() != time.replace(fold=1).utcoffset()
    return time.strftime(f"{form}%z" if is_twice else form)


def listed(names: list[str]) -> str:
    """A list as text: a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def reason(name: str) -> str:
    """The text for a reason's column name."""
    known = ADVICE["names"] | {
        "mailbox_busy": "mailbox busy",
        "rate": "rate used up",
        "queue_full": "mqueue full",
        "queue_full_paced": "mqueue full despite pacing",
        "expired": "message expired",
        "too_large": "larger than Maximum Packet Size",
        "offline_qos0": "offline, QoS 0 not stored",
        "aged": "waited too long (session.max_mqueue_age)",
        "newer": "a newer one waits in its place (session.conflate)",
        "not_permitted": "no longer permitted by rules",
        "session_ended": "session ended",
    }
    return known.get(name, name.replace("_", " "))


def inside(name: str) -> str:
    """A measure's name within a sentence: in lower case, except names."""
    return name if name.startswith(("QoS", "Jain", "Gini")) else name[:1].lower() + name[1:]


def kind(name: str) -> str:
    """The text for a kind of finding about the input."""
    return name.replace("_", " ")


def quality(name: str, number: int) -> str:
    """A finding about the input with its number: 2 empty files."""
    known = {
        "truncated": ("truncated file", "truncated files"),
        "empty": ("empty file", "empty files"),
        "foreign": ("foreign file", "foreign files"),
        "impossible": ("file with impossible values", "files with impossible values"),
        "newer": ("file of a newer schema", "files of a newer schema"),
        "duplicate": ("duplicate file", "duplicate files"),
        "duplicate_rows": ("duplicate row", "duplicate rows"),
        "overlapping": ("overlapping file", "overlapping files"),
        "overlapping_rows": ("overlapping row", "overlapping rows"),
        "clock": ("wrong clock", "wrong clocks"),
        "damaged_hours": ("hour with missing rows", "hours with missing rows"),
        "overlong": ("session with overlapping intervals", "sessions with overlapping intervals"),
        "books_off": ("row whose counters do not reconcile", "rows whose counters do not reconcile"),
        "reasons_off": ("row whose drops by reason do not add up", "rows whose drops by reason do not add up"),
    }
    if name not in known:
        return f"{kind(name)} ({number:,})"
    one, many = known[name]
    return f"{number:,} {one if number == 1 else many}"


def measured(value: float | None, unit: str) -> str:
    """A compared value in its unit: us, share, index, per_second, or a count."""
    if value is None:
        return DASH
    if unit == "us":
        return micros(value)
    if unit in ("share", "ratio", "fraction"):
        return percent(value)
    if unit in ("index", ""):
        return index(value)
    if unit in ("per_second", "1/s", "/s"):
        return rate(value)
    if unit in ("seconds", "s"):
        return seconds(value)
    return _three_digits(value) if abs(value) < 1000 else count(value)


def scope(name: str) -> str:
    """The text for a scope of the pressure table."""
    known = {
        "pressure_windows": "all sessions, while under pressure",
        "other_windows": "all sessions, otherwise",
        "sessions_under_pressure": "a session under pressure",
        "other_sessions": "any other session",
        "all": "all intervals",
        "pressed": "under pressure",
    }
    return known.get(name, name.replace("_", " "))


def name(text: str, longest: int = LONGEST_NAME) -> str:
    """A client id or file name for display: unprintable and bidirectional characters are escaped."""
    seen = text[: longest + 1]  # a client id may have 65,535 letters, and each is shown as one at the least
    shown = "".join(letter if letter.isprintable() else f"\\u{ord(letter):04x}" for letter in seen)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def change(before: float | None, after: float | None) -> str:
    """The change of a value in per cent, or as a factor from two on."""
    if before is None or after is None or before == 0:
        return DASH
    factor = after / before
    if factor >= 2:
        return f"× {_three_digits(factor)}"
    if 0 < factor <= 0.5:
        return f"÷ {_three_digits(1 / factor)}"
    return f"{(factor - 1) * 100:+.1f}{NARROW_SPACE}%".replace("-", "−")
