"""Reads what can be read of a damaged journal: every frame whose head and records are whole, wherever it is."""

from collections.abc import Iterator
from typing import final

from broker.runtime.os_errors import text_of
from broker.storage import frame
from broker.storage.found import Found
from broker.storage.frame import HEAD_SIZE, SECTOR, Head
from broker.storage.records import DamagedError
from broker.storage.saved import Saved
from broker.storage.segment import Segment


@final
class Piece:
    """A frame; or frames of consecutive numbers that are lost, and why."""

    def __init__(self, first: int, last: int, content: bytes, damage: str = "") -> None:
        self.first = first
        self.last = last
        self.content = content
        self.damage = damage
        """Why they are lost; empty = this is a frame, and whole."""

    def count(self) -> int:
        """How many frames it has."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"frame {self.first}" if self.first == self.last else f"frames {self.first} to {self.last}"


def pieces(found: Found) -> Iterator[Piece]:
    """All frames that the journal needs in the order of their numbers, and between them what is lost.

    Raises OSError if a file cannot be opened.
    """
    places, oldest, end = _places(found)
    lost: Piece | None = None
    for number in range(oldest, end):
        piece = _read(places, number)
        if lost is not None and piece.damage == lost.damage:
            lost.last = number
            continue
        if lost is not None:
            yield lost
        lost = piece if piece.damage else None
        if not piece.damage:
            yield piece
    if lost is not None:
        yield lost


def _places(found: Found) -> tuple[dict[int, tuple[Segment, int, Head]], int, int]:
    """Where each frame is, the first one that is needed, and the number behind the last one."""
    places: dict[int, tuple[Segment, int, Head]] = {}
    oldest, end = found.oldest, 1
    for segment in found.segments:
        with segment.kept_open():
            heads = segment.heads_that_can_be_read(SECTOR)
        for position, head in heads:
            oldest = max(oldest, head.oldest)
            end = max(end, head.last + 1 if head.size else head.number)
            if head.size:
                places[head.number] = segment, position, head
    return places, oldest, end if found.damage else found.next  # behind that is what a power cut has torn


def _read(places: dict[int, tuple[Segment, int, Head]], number: int) -> Piece:
    """The frame of this number, or why it is lost."""
    place = places.get(number)
    if place is None:
        return Piece(number, number, b"", "missing or damaged")
    segment, position, head = place
    try:
        content = segment.pread(HEAD_SIZE + head.size, position)
        frame.check(content, head)
        Saved().read(number, content)
    except OSError as error:
        return Piece(number, number, b"", text_of(error))
    except DamagedError as damage:
        return Piece(number, number, b"", str(damage).removeprefix(f"frame {number}: "))
    return Piece(number, number, content)
