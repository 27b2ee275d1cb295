"""Values of EMQX's settings, in the form that ours are written in. Each reader raises ValueError."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Final

INFINITY: Final = "infinity"
_NONE: Final = ("infinity", "disabled", "none", "")

_DURATION: Final = re.compile(r"(?:(\d{1,9}(?:\.\d+)?)(ms|s|m|h|d|w))", re.IGNORECASE | re.ASCII)
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_SIZE: Final = re.compile(r"(\d{1,15})\s*(B|KB|MB|GB|)", re.IGNORECASE | re.ASCII)
_BYTES: Final = {"": 1, "B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}
_RATE: Final = re.compile(r"(\d{1,15}\s*(?:B|KB|MB|GB|))\s*/\s*(\d{0,6}\s*(?:ms|s|m|h|d))", re.IGNORECASE | re.ASCII)

LARGEST_PACKET: Final = 268_435_460
SMALLEST_PACKET: Final = 256
MOST_LEVELS: Final = 256

Read = Callable[[object], object]


def boolean(value: object) -> bool:
    """True or false."""
    text = str(value).lower()
    if text not in ("true", "false", "on", "off"):
        raise ValueError(f"found {value!r:.50}: write true or false")
    return text in ("true", "on")


def whole(least: int = 0, most: int = 2**31 - 1) -> Callable[[object], int]:
    """Reads a whole number within bounds."""

    def reader(value: object) -> int:
        try:
            number = int(str(value))
        except ValueError:
            raise ValueError(f"found {value!r:.50}: write a whole number") from None
        if not least <= number <= most:
            raise ValueError(f"found {number}: write a number from {least} to {most}")
        return number

    return reader


def count(least: int = 1, most: int = 2**31 - 1) -> Read:
    """Reads a whole number, or `infinity`."""
    return lambda value: INFINITY if value == INFINITY else whole(least, most)(value)


def seconds(value: object) -> float | None:
    """A duration such as 15s or 1h30m; a number is milliseconds. None = for ever, or never."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, int) and not isinstance(value, bool):
        return value / 1000
    text = str(value).strip().lower()
    if text in _NONE:
        return None
    parts = _DURATION.findall(text)
    if not parts or _DURATION.sub("", text):
        raise ValueError(f"found {value!r:.50}: write a duration such as 30s, or infinity")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def duration(value: object) -> str:
    """A duration, or infinity."""
    length = seconds(value)
    return INFINITY if length is None else _written(length)


def keep_alive(value: object) -> str | None:
    """Seconds as a number or a duration; `disabled` is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{whole(1, 65_535)(value)}s"
    length = seconds(value)
    return None if length is None else _written(min(max(length, 1), 65_535))


def _written(length: float) -> str:
    for unit in ("d", "h", "m", "s"):
        number = length / _SECONDS[unit]
        if number >= 1 and number == int(number):
            return f"{int(number)}{unit}"
    return "0s" if length == 0 else f"{round(length * 1000)}ms"


def size(value: object) -> int | None:
    """Bytes; KB, MB and GB are EMQX's, in 1024s. None = no limit."""
    if value == INFINITY:
        return None
    match = _SIZE.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"found {value!r:.50}: write a size such as 1MB")
    return int(match[1]) * _BYTES[match[2].upper()]


def packet_size(value: object) -> str:
    """The size of the largest packet."""
    found = size(value)
    return _bytes(LARGEST_PACKET if found is None else min(max(found, SMALLEST_PACKET), LARGEST_PACKET))


def _bytes(number: int) -> str:
    for unit, factor in (("MiB", 1024**2), ("KiB", 1024)):
        if number % factor == 0:
            return f"{number // factor}{unit}"
    return f"{number}B"


def rate(value: object) -> int | None:
    """A number each second, of messages or bytes, such as 1000/s or 10MB/10s; None = no limit."""
    if value == INFINITY:
        return None
    match = _RATE.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"found {value!r:.50}: write a rate such as 1000/s, or infinity")
    period = match[2].replace(" ", "")
    length = seconds(period if period[0].isdigit() else f"1{period}")
    number = size(match[1])
    assert number is not None  # digits are no infinity
    if not length:
        raise ValueError(f"found {value!r:.50}: a rate needs a time")
    return max(round(number / length), 1)


def message_rate(value: object) -> object:
    """Messages a second."""
    found = rate(value)
    return INFINITY if found is None else min(found, 1_000_000)


def byte_rate(value: object) -> object:
    """Bytes a second."""
    found = rate(value)
    return INFINITY if found is None else _bytes(found)


def levels(value: object) -> int:
    """Levels of a topic: of ours there are at most 256."""
    return min(whole(1, 65_535)(value), MOST_LEVELS)


def multiplier(value: object) -> float:
    """A number from 1 to 100."""
    try:
        number = float(str(value))
    except ValueError:
        raise ValueError(f"found {value!r:.50}: write a number such as 1.5") from None
    if not 1 <= number <= 100:
        raise ValueError(f"found {number}: write a number from 1 to 100")
    return number


def text_or_none(value: object) -> str | None:
    """A text; an empty one is none."""
    return str(value) or None
