"""Reads what can be read of a damaged journal: each frame by its number, so that a bad page costs only its own frames.

SQLite's list of all frames ends at the first bad page; a look-up reads only the pages that lead to one frame.
"""

import sqlite3
from collections.abc import Iterator
from typing import Final, final

from broker.storage import frame
from broker.storage.database import ForeignError, check_head, primary_code
from broker.storage.records import DamagedError
from broker.storage.saved import Saved

MANY: Final = 10_000
"""How many numbers are looked up beyond the first or last frame that is found, where a bad page hides which that is.
A page has fewer frames."""

_MOST: Final = 2**62
_NONE: Final = 0
_HIDDEN: Final = -1
"""A bad page is in the way."""

_BAD_PAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_IOERR})
"""What SQLite says of a page that is damaged, or that the disk cannot read."""

_PROBLEMS: Final = (100, 10, 1)
"""How many problems SQLite is to name; fewer if it fails before it has named so many."""

_FIRST: Final = "select number from frame order by number limit 1"
_LAST: Final = "select number from frame order by number desc limit 1"
_AFTER: Final = "select number from frame where number > ? order by number limit 1"
_ONE: Final = "select cast(content as blob) from frame where number = ?"


@final
class Piece:
    """A frame; or frames of consecutive numbers that are lost, and why."""

    def __init__(self, first: int, last: int, content: bytes, damage: str = "") -> None:
        self.first = first
        """0 = it is not known which is the first."""
        self.last = last
        """0 = it is not known which is the last."""
        self.content = content
        self.damage = damage
        """Why they are lost; empty = this is a frame, and whole."""

    def count(self) -> int:
        """How many frames it has; 0 = that is not known."""
        return self.last - self.first + 1 if self.first and self.last else 0

    def __str__(self) -> str:
        if not self.first:
            return f"frames up to {self.last}" if self.last else "all frames"
        if not self.last:
            return f"frames from {self.first} on"
        return f"frame {self.first}" if self.first == self.last else f"frames {self.first} to {self.last}"


def problems(connection: sqlite3.Connection) -> list[str]:
    """What is wrong with the database as such; `pieces` can read around it.

    Raises sqlite3.Error if SQLite cannot open it, and ForeignError for what is not a journal of this broker.
    """
    found: list[str] = []
    try:
        connection.execute("pragma schema_version").fetchone()
    except sqlite3.DatabaseError as error:
        found.append(f"{_of_bad_page(error)}: the file may be shorter than it was")
        connection.execute("pragma writable_schema = on")  # then SQLite opens such a file
    try:
        check_head(connection)
    except ForeignError:
        raise
    except DamagedError as damage:
        found.append(str(damage))
    return found + _damaged_pages(connection)


def _damaged_pages(connection: sqlite3.Connection) -> list[str]:
    """The pages that SQLite names."""
    damage = ""
    for most in _PROBLEMS:
        try:
            rows = connection.execute(f"pragma integrity_check({most})").fetchall()
        except sqlite3.DatabaseError as error:
            damage = _of_bad_page(error)  # it has read on past what it was going to name
            continue
        lines = [line for (said,) in rows for line in said.splitlines()]
        return [f"SQLite: {line}" for line in lines if line != "ok" and not line.startswith("***")]
    return [damage]


def pieces(connection: sqlite3.Connection) -> Iterator[Piece]:
    """All frames in the order of their numbers, and between them what is lost. Raises sqlite3.Error.

    A broker may use the journal if the connection has begun a transaction, so that no frames are removed meanwhile.
    """
    first, last = _number(connection, _FIRST), _number(connection, _LAST)
    if first == _NONE:
        return
    known = max(first, last) if first > 0 or last > 0 else _any_number(connection)
    if not known:
        yield Piece(0, 0, b"", "the pages that lead to them are damaged")
        return
    number = first if first > 0 else max(_edge(connection, known, 0) - MANY, 1)
    most = number + MANY + _bytes(connection) // frame.HEAD_SIZE
    is_last_known = 0 < last <= most
    end = last if is_last_known else min(_edge(connection, known, _MOST) + MANY, most)
    lost: Piece | None = None if first > 0 else Piece(0, number - 1, b"", "")
    while number <= end:
        piece = _read(connection, number)
        if lost is not None and piece.damage and lost.damage in ("", piece.damage):
            lost.last, lost.damage = piece.last, piece.damage
        else:
            if lost is not None and lost.damage:
                yield lost
            lost = piece if piece.damage else None
        if not piece.damage:
            yield piece
            if not is_last_known:
                end = min(max(end, number + MANY), most)
        number = piece.last + 1
    if lost is not None:
        lost.last = lost.last if is_last_known else 0
        yield lost


def _read(connection: sqlite3.Connection, number: int) -> Piece:
    """The frame of this number, or what is lost from there on."""
    try:
        row = connection.execute(_ONE, (number,)).fetchone()
        if row is None:
            return Piece(number, max(_number(connection, _AFTER, number) - 1, number), b"", "missing")
        content = row[0]
        if not isinstance(content, bytes):
            raise DamagedError("its content is not bytes")
        Saved().read(number, content)
    except sqlite3.DatabaseError as error:
        return Piece(number, number, b"", _of_bad_page(error))
    except DamagedError as damage:
        return Piece(number, number, b"", str(damage).removeprefix(f"frame {number}: "))
    return Piece(number, number, content)


def _of_bad_page(error: sqlite3.DatabaseError) -> str:
    """What to say of a bad page. Raises any other error again."""
    if primary_code(error) not in _BAD_PAGE:
        raise error
    return f"SQLite: {error}"


def _number(connection: sqlite3.Connection, query: str, *values: int) -> int:
    """The number of a frame, _NONE or _HIDDEN."""
    try:
        row = connection.execute(query, values).fetchone()
    except sqlite3.DatabaseError as error:
        _of_bad_page(error)
        return _HIDDEN
    return _NONE if row is None else int(row[0])


def _answers(connection: sqlite3.Connection, number: int) -> bool:
    """Whether the pages that lead to this number can be read; the frame need not be there."""
    return _number(connection, "select number from frame where number = ?", number) != _HIDDEN


def _any_number(connection: sqlite3.Connection) -> int:
    """A number whose pages can be read; 0 = none is found."""
    number = 1
    while number < _MOST:
        if _answers(connection, number):
            return number
        number += 1 + number // 100
    return 0


def _edge(connection: sqlite3.Connection, readable: int, beyond: int) -> int:
    """The last number on the way from `readable` to `beyond` whose pages can be read, by bisection."""
    while abs(beyond - readable) > 1:
        middle = (readable + beyond) // 2
        if _answers(connection, middle):
            readable = middle
        else:
            beyond = middle
    return readable


def _bytes(connection: sqlite3.Connection) -> int:
    """Bytes of the database, which bound how many frames there can be."""
    (pages,) = connection.execute("pragma page_count").fetchone()
    (size,) = connection.execute("pragma page_size").fetchone()
    return int(pages * size)
