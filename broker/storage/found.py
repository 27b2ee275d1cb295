"""Finds the segments of a journal, their order and their frames, and what is wrong with them (FC-27).

Nothing is changed, so that tools can look at the journal of a running broker.
"""

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, final

from broker.storage import tail
from broker.storage.errors import PASSING, ForeignError, UnreadableError
from broker.storage.frame import SECTOR
from broker.storage.records import DamagedError
from broker.storage.segment import PREFIX, Segment, read_head

_NAME: Final = re.compile(rf"{PREFIX}([1-9][0-9]*)")


@final
class Damage:
    """Something that is wrong with a journal."""

    def __init__(self, path: Path, what: str, error: OSError | None = None) -> None:
        """`error`: why the file cannot be opened."""
        self.path = path
        self.what = what
        self.error = error

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


@final
class Found:
    """What there is of a journal in a directory."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        """Those with frames that the journal needs, in their order. The last one is where it goes on."""
        self.free: list[Path] = []
        """Files that can be used again."""
        self.highest = 0
        """The highest number of a file's name."""
        self.oldest = 1
        """The first frame that the journal needs."""
        self.torn: list[int] = []
        """Where heads of torn commits are, in the last segment."""
        self.damage: list[Damage] = []

    @property
    def next(self) -> int:
        """The number of the frame that comes next."""
        return self.segments[-1].next if self.segments else 1


def names(directory: Path) -> list[Path]:
    """The files of segments, in the order of their numbers. Raises OSError."""
    found = [(int(match[1]), each) for each in directory.iterdir() if (match := _NAME.fullmatch(each.name))]
    return [path for _, path in sorted(found)]


def find(directory: Path) -> Found:
    """Look at all segments in this directory. Raises OSError, and ForeignError for what this broker cannot read."""
    found = Found()
    used = _in_order(_read_heads(directory, found), found)
    if not used:
        return found
    _find_end(used, found)
    while len(used) > 1 and used[1].first <= found.oldest:
        found.free.append(used.pop(0).path)
    found.segments = used
    first = used[0].first
    if first > found.oldest:
        _miss(found, used[0].path, found.oldest, first - 1)
    for segment, following in pairwise(used):
        if segment.next == segment.first:  # else it has been walked to find the oldest frame
            _walk(segment, found)
        if segment.next < following.first:
            _miss(found, segment.path, segment.next, following.first - 1)
        elif segment.next > following.first:
            found.damage.append(Damage(segment.path, f"frame {following.first} is in {following.path.name}, too"))
    return found


def frames(found: Found) -> Iterator[tuple[int, bytes]]:
    """The frames that are needed, in their order, with their heads. Raises OSError, DamagedError."""
    for segment in found.segments:
        yield from read(segment, found.oldest)


def read(segment: Segment, oldest: int) -> Iterator[tuple[int, bytes]]:
    """The frames of a segment from `oldest` on, with their heads. Raises OSError, DamagedError."""
    with segment.kept_open():
        for number in range(max(segment.first, oldest), segment.next):
            yield number, segment.content(number)


def _read_heads(directory: Path, found: Found) -> list[Segment]:
    """The segments that have been used, in any order."""
    used: list[Segment] = []
    for path in names(directory):
        found.highest = max(found.highest, int(path.name.removeprefix(PREFIX)))
        if not path.is_file():  # opening a pipe would block
            found.damage.append(Damage(path, "it is not a file" if path.exists() else "it is a link to nothing"))
            continue
        try:
            with path.open("rb", buffering=0) as file:
                sector = file.read(SECTOR)
                size = os.fstat(file.fileno()).st_size
        except OSError as error:
            if error.errno in PASSING:
                raise
            found.damage.append(Damage(path, f"it cannot be read: {error.strerror}", error))
            continue
        try:
            head = read_head(sector)
        except ForeignError as error:
            raise ForeignError(f"{path.name}: {error}") from error
        except DamagedError as damage:
            found.damage.append(Damage(path, str(damage)))
            continue
        if head is None:
            found.free.append(path)
            continue
        if size < head.length:
            found.damage.append(Damage(path, f"it was cut: it has {size} of {head.length} bytes"))
        used.append(Segment(path, head))
    return used


def _in_order(used: list[Segment], found: Found) -> list[Segment]:
    """The segments by their first frames. A file with marks only may begin with the same frame as the next one."""
    by_first: dict[int, Segment] = {}
    for segment in used:
        other = by_first.setdefault(segment.first, segment)
        if other is segment:
            continue
        for each in (other, segment):
            _walk(each, found)
        if other.next > other.first and segment.next > segment.first:
            what = f"it begins with frame {segment.first}, as {other.path.name} does"
            found.damage.append(Damage(segment.path, what))
        kept, free = (other, segment) if other.end > segment.end else (segment, other)
        by_first[segment.first] = kept
        found.free.append(free.path)
    return [by_first[first].again() for first in sorted(by_first)]


def _find_end(used: list[Segment], found: Found) -> None:
    """Find the end of the journal, and the oldest frame that it needs."""
    last = used[-1]
    try:
        oldest = tail.walk(last)
        found.torn = tail.end(last)
    except DamagedError as damage:
        found.damage.append(Damage(last.path, _without_name(damage, last)))
        oldest = max([head.oldest for _, head in last.heads_that_can_be_read(SECTOR)], default=0)
    index = len(used) - 1
    while not oldest and index:  # its first commit is torn: the one before it knows
        index -= 1
        oldest = _walk(used[index], found)
    found.oldest = max(oldest, 1)


def _walk(segment: Segment, found: Found) -> int:
    """Find its frames, as far as the disk gives them."""
    try:
        return tail.walk(segment)
    except UnreadableError as error:
        found.damage.append(Damage(segment.path, _without_name(error, segment)))
        return max([head.oldest for _, head in segment.heads_that_can_be_read(SECTOR)], default=0)


def _without_name(damage: DamagedError, segment: Segment) -> str:
    """What is wrong; `Damage` names the file."""
    return str(damage).removeprefix(f"{segment.path.name}: ")


def _miss(found: Found, path: Path, first: int, last: int) -> None:
    which = f"frame {first} is" if first == last else f"frames {first} to {last} are"
    found.damage.append(Damage(path, f"{which} missing or damaged"))
