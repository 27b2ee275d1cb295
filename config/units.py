"""Parses and formats durations, sizes, counts and rates (`30s`, `10MiB`, `infinity`).

After loading, a duration is a float in seconds (math.inf = never), a size an int in bytes, a count an int and a rate an
int a second; for the last three 0 means "no limit". A window is a size for which 0 is a value, so UNBOUNDED means "no
limit". Parsing is exact (decimal fractions; durations to the microsecond): formatting and parsing give the same value.
"""

import math
import re
from decimal import Decimal
from difflib import get_close_matches
from typing import Final

INFINITY: Final = "infinity"
"""The written form of "no limit" and "never"."""

UNBOUNDED: Final = -1
"""No limit where 0 is a value; an alternative to `infinity` for windows and rates."""

LARGEST_RATE: Final = 1_000_000
"""A second: one each microsecond, the resolution of the clocks."""

LONGEST_DURATION: Final = 2**32 - 2
"""Seconds; the longest interval that MQTT can express except "never" (136 years)."""

LARGEST_NUMBER: Final = 2**63 - 1
"""The largest count or size: the metrics' columns are signed 64-bit numbers."""

_UNBOUNDED_FORMS: Final = (INFINITY, str(UNBOUNDED))
_SECONDS: Final = {
    "us": Decimal("0.000001"),
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
}
_BYTES: Final = {
    "B": 1,
    "kB": 1000,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "TiB": 1024**4,
}
_QUANTITY: Final = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?) ?([A-Za-z]*)", re.ASCII)
_WHOLE: Final = re.compile(r"[0-9]{1,20}", re.ASCII)


def parse_duration(value: object, *, bare_numbers: bool = True, unlimited: bool = True) -> float:
    """Parse a duration into seconds; `infinity` gives math.inf.

    `bare_numbers` accepts ints and floats as seconds, from Python code; in a file a number without a unit is ambiguous,
    unless it is 0.
    Without `unlimited`, infinity is refused. Raises ValueError with what was found and what was expected.
    """
    expected = "write a number with a unit (us, ms, s, m, h, d) such as 30s" + _or_infinity(unlimited)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value and not bare_numbers:
            raise ValueError(f"found {value!r}, a number without a unit: {expected}")
        if math.isnan(value) or value < 0 or (math.isinf(value) and not unlimited):
            raise ValueError(f"found {value!r}: {expected}")
        seconds = float(value)
    elif isinstance(value, str):
        if value.strip() == INFINITY and unlimited:
            return math.inf
        if value.strip() == "0":
            return 0.0
        seconds = float(_parse_quantity(value, _SECONDS, expected))
    else:
        raise ValueError(f"found {found(value)}: {expected}")
    if LONGEST_DURATION < seconds < math.inf:
        raise ValueError(f"found {value!r}, more than {LONGEST_DURATION}s (136 years): write {INFINITY} for never")
    return round(seconds, 6)


def parse_size(value: object, *, unlimited: bool = True) -> int:
    """Parse a size into bytes; `infinity` gives 0 (no limit). Raises ValueError."""
    expected = "write a size such as 10MiB (units B, KB, MB, GB, KiB, MiB, GiB) or a number of bytes"
    expected += _or_infinity(unlimited)
    number = _infinite_or_whole(value, unlimited)
    if number is None:
        if not isinstance(value, str):
            raise ValueError(f"found {found(value)}: {expected}")
        exact = _parse_quantity(value, {unit: Decimal(factor) for unit, factor in _BYTES.items()}, expected)
        if exact != exact.to_integral_value():
            raise ValueError(f"found {value!r}, which is not a whole number of bytes: {expected}")
        number = int(exact)
    return _in_range(number, value, expected)


def parse_count(value: object, *, unlimited: bool = True) -> int:
    """Parse a count; `infinity` gives 0 (no limit). Raises ValueError."""
    expected = "write a whole number" + _or_infinity(unlimited)
    number = _infinite_or_whole(value, unlimited)
    if number is None:
        raise ValueError(f"found {found(value)}: {expected}")
    return _in_range(number, value, expected)


def parse_window(value: object) -> int:
    """Parse a size into bytes; `infinity` and -1 give UNBOUNDED, 0 is a size. Raises ValueError."""
    if _is_unbounded(value):
        return UNBOUNDED
    try:
        return parse_size(value, unlimited=False)
    except ValueError as error:
        raise ValueError(f"{error}{_or_infinity(True)}") from None


def parse_rate(value: object, *, zero: bool = True) -> int:
    """Parse a rate into an int a second; `infinity` and -1 give 0 (no limit). Raises ValueError.

    `zero` accepts 0 as no limit, from Python code; in a file it could also mean that nothing may pass.
    """
    if _is_unbounded(value):
        return 0
    number = _infinite_or_whole(value, unlimited=False)
    if number is None or not (0 if zero else 1) <= number <= LARGEST_RATE:
        raise ValueError(f"found {found(value)}: write a whole number from 1 to {LARGEST_RATE}{_or_infinity(True)}")
    return number


def format_duration(seconds: float) -> str:
    """Write seconds with the largest unit that keeps the number whole: 7200.0 -> `2h`, 0.25 -> `250ms`."""
    if math.isinf(seconds):
        return INFINITY
    exact = Decimal(repr(float(seconds)))
    if exact == 0:
        return "0s"
    for unit in ("d", "h", "m", "s", "ms", "us"):
        number = exact / _SECONDS[unit]
        if number == number.to_integral_value() and number * _SECONDS[unit] == exact:
            return f"{int(number)}{unit}"
    return f"{exact:f}s"


def format_size(size: int) -> str:
    """Write bytes with the largest binary unit that keeps the number whole; 0 -> `infinity`."""
    if size == 0:
        return INFINITY
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return f"{size}B"


def format_count(count: int) -> int | str:
    """Write a count; 0 -> `infinity`."""
    return count or INFINITY


def format_window(size: int) -> str:
    """Write bytes as `format_size` does, but 0 as `0B`; UNBOUNDED -> `infinity`."""
    if size == UNBOUNDED:
        return INFINITY
    return format_size(size) if size else "0B"


def found(value: object) -> str:
    """The value as messages show it, in YAML's terms: `null` and `true`, not `None` and `True`."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping (key: value)"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _or_infinity(unlimited: bool) -> str:
    return f", or {INFINITY} for no limit" if unlimited else ""


def _is_unbounded(value: object) -> bool:
    """Whether this is one of the two forms of "no limit"."""
    return not isinstance(value, bool) and isinstance(value, int | str) and str(value).strip() in _UNBOUNDED_FORMS


def _infinite_or_whole(value: object, unlimited: bool) -> int | None:
    """The int in a value without a unit, or None if there is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        text = value.strip()
        if text == INFINITY and unlimited:
            return 0
        if _WHOLE.fullmatch(text):
            return int(text)
    return None


def _in_range(number: int, value: object, expected: str) -> int:
    if number < 0:
        raise ValueError(f"found {found(value)}, which is below zero: {expected}")
    if number > LARGEST_NUMBER:
        raise ValueError(f"found {found(value)}, more than {LARGEST_NUMBER}: {expected}")
    return number


def _parse_quantity(text: str, units: dict[str, Decimal], expected: str) -> Decimal:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"found {found(text)}: {expected}")
    number, unit = match.groups()
    if not unit:
        raise ValueError(f"found {text!r}, a number without a unit: {expected}")
    if unit not in units:
        raise ValueError(f"found {text!r}, and {unit!r} is not a unit{_meant_unit(unit, units)}: {expected}")
    return Decimal(number) * units[unit]


def _meant_unit(unit: str, units: dict[str, Decimal]) -> str:
    """` (did you mean 'MiB'?)` for what resembles a unit (`mib`, `Mib`, `secs`), else nothing."""
    same_but_case = [known for known in units if known.lower() == unit.lower()]
    meant = same_but_case or get_close_matches(unit, units, n=1) or [known for known in units if unit[:1] == known]
    return f" (did you mean {meant[0]!r}?)" if meant else ""
