"""Values of Mosquitto's options, read as strictly as Mosquitto does, in the form that ours are written in."""

import re
from collections.abc import Callable
from typing import Final

INFINITY: Final = "infinity"

_WHOLE: Final = re.compile(r"[-+]?[0-9]{1,18}", re.ASCII)
_EXPIRATION: Final = re.compile(r"([0-9]{1,9})([shdwmy])", re.ASCII)
_SECONDS: Final = {"s": 1, "h": 3600, "d": 86_400, "w": 7 * 86_400, "m": 30 * 86_400, "y": 365 * 86_400}

LONGEST: Final = 2**32 - 2
"""Seconds of our longest duration; beyond it a session does not expire."""

LARGEST_PACKET: Final = 268_435_460
SMALLEST_PACKET: Final = 256
"""Bytes of the smallest `mqtt.max_packet_size`."""

Read = Callable[[str], object]


def line(value: str) -> str:
    """The whole value, for options of which Mosquitto reads the rest of the line. Raises ValueError if it is empty."""
    return text(value).strip()


def word(value: str) -> str:
    """The first word of a value, all that Mosquitto reads of most: what follows may be a comment.

    Paths, names and addresses are the whole rest of the line. Raises ValueError if there is none.
    """
    return text(value).split(" ", 1)[0]


def text(value: str) -> str:
    """A text that is not empty. Raises ValueError."""
    if not value.strip():
        raise ValueError("there is no value")
    return value


def boolean(value: str) -> bool:
    """True or false. Raises ValueError."""
    first = word(value)
    if first not in ("true", "false", "1", "0"):
        raise ValueError(f"found {first!r:.50}: write true or false")
    return first in ("true", "1")


def whole(least: int | None = None, most: int = 2**31 - 1) -> Callable[[str], int]:
    """Reads a whole number within bounds. The reader raises ValueError."""

    def read(value: str) -> int:
        first = word(value)
        if not _WHOLE.fullmatch(first):
            raise ValueError(f"found {first!r:.50}: write a whole number")
        number = int(first)
        if number > most or (least is not None and number < least):
            bounds = f"at most {most}" if least is None else f"from {least} to {most}"
            raise ValueError(f"found {number}: write a number {bounds}")
        return number

    return read


def one_of(*choices: str, of: Callable[[str], str] = word) -> Callable[[str], str]:
    """Reads one of these words; `of`: what is read of the value. The reader raises ValueError."""

    def read(value: str) -> str:
        first = of(value)
        if first not in choices:
            raise ValueError(f"found {first!r:.50}: write {' or '.join(choices)}")
        return first

    return read


def address(value: str) -> str:
    """A host name or an IP address. Raises ValueError: Mosquitto takes the whole line as one."""
    if " " in text(value):
        raise ValueError(f"found {value!r:.50}: write an address, with nothing behind it")
    return value


def count_or_none(value: str) -> object:
    """A count for which 0 and less mean no limit."""
    number = whole()(value)
    return number if number > 0 else INFINITY


def window(value: str) -> object:
    """The number of messages in flight: 0, less, and the largest mean that only the client limits it."""
    number = whole(most=65_535)(value)
    return number if 0 < number < 65_535 else INFINITY


def size_or_none(value: str) -> object:
    """A size in bytes for which 0 and less mean no limit."""
    number = whole(most=2**63 - 1)(value)
    return f"{number}B" if number > 0 else INFINITY


def expiration(value: str) -> str:
    """How long a session lasts: a number with s, h, d, w, m (30 days) or y. Raises ValueError."""
    match = _EXPIRATION.fullmatch(word(value))
    if match is None or int(match[1]) == 0:
        raise ValueError(f"found {value!r:.50}: write a number with h, d, w, m or y, such as 2m")
    seconds = int(match[1]) * _SECONDS[match[2]]
    if seconds > LONGEST:
        return INFINITY
    return f"{seconds // 86_400}d" if seconds % 86_400 == 0 else f"{seconds}s"


def keep_alive(value: str) -> object:
    """The longest keep-alive; 0 and the largest are none."""
    number = whole(0, 65_535)(value)
    return f"{number}s" if 0 < number < 65_535 else None


def interval(value: str) -> object:
    """Seconds between two publications under $SYS; 0 = never."""
    number = whole(0, 65_535)(value)
    return f"{number}s" if number else INFINITY


def packet_size(value: str) -> str:
    """The size of the largest packet."""
    return f"{max(whole(20)(value), SMALLEST_PACKET)}B"


def payload_size(value: str) -> str:
    """The size of the largest packet, from that of the largest payload: header, topic and properties come to it."""
    number = whole(0, LARGEST_PACKET - 5)(value)
    room = max(number + 1024, SMALLEST_PACKET)
    return f"{min(room, LARGEST_PACKET) if number else LARGEST_PACKET}B"
