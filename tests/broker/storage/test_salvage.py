"""Journals with damaged, missing and cut off pages: which frames can be read, and which are listed as lost."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from broker.storage import frame, records
from broker.storage.database import NAME, PAGE, Database, ForeignError
from broker.storage.salvage import pieces, problems

FRAMES: Final = 90
A_LEAF: Final = 13
"""The first byte of a page that has rows."""


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """The file of a journal with frames of 5,000 bytes: a page has three of them."""
    with closing(Database(tmp_path)) as database:
        for number in range(1, FRAMES + 1):
            database.append(number, frame.encode(number, [records.cleared(b"t" * 5000)]))
    return tmp_path / NAME


def leaves(journal: Path) -> list[int]:
    """The positions of the pages with rows, in the order of the frames."""
    content = journal.read_bytes()
    return [place for place in range(PAGE, len(content), PAGE) if content[place] == A_LEAF]


def damage(journal: Path, *places: int) -> None:
    """Write over the beginning of these pages."""
    with journal.open("r+b") as file:
        for place in places:
            file.seek(place)
            file.write(b"\xff" * 60)


def execute(journal: Path, statement: str) -> None:
    """Change the database."""
    with closing(sqlite3.connect(journal)) as connection, connection:
        connection.execute(statement)


def read(journal: Path) -> tuple[list[str], list[str], list[int]]:
    """What is wrong with the database, what is said to be lost, and the numbers of the frames that are found."""
    with closing(sqlite3.connect(f"{journal.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        said = problems(connection)
        found = list(pieces(connection))
    assert all(piece.content for piece in found if not piece.damage)
    lost = [f"{piece}: {piece.damage}" for piece in found if piece.damage]
    return said, lost, [piece.first for piece in found if not piece.damage]


def test_whole(journal: Path) -> None:
    """Of a journal without damage all frames are found, and nothing is said; so it is of an empty one."""
    assert read(journal) == ([], [], list(range(1, FRAMES + 1)))
    execute(journal, "delete from frame")
    assert read(journal) == ([], [], [])


@pytest.mark.parametrize(
    ("which", "lost"),
    [
        ([10], ["frames 31 to 33"]),
        ([10, 11, 20], ["frames 31 to 36", "frames 61 to 63"]),
        ([0], ["frames up to 3"]),
        ([29], ["frames from 88 on"]),
        ([0, 14, 29], ["frames up to 3", "frames 43 to 45", "frames from 88 on"]),
    ],
)
def test_bad_pages(journal: Path, which: list[int], lost: list[str]) -> None:
    """The frames in bad pages are listed, all others are found, and SQLite names a page."""
    places = leaves(journal)
    damage(journal, *[places[each] for each in which])
    said, listed, found = read(journal)
    assert listed == [f"{each}: SQLite: database disk image is malformed" for each in lost]
    assert found == [each for each in range(1, FRAMES + 1) if (each - 1) // 3 not in which]
    assert any(f"age {places[each] // PAGE + 1}" in line for line in said for each in which)


def test_cut_off(journal: Path) -> None:
    """Of a file of which the end is missing, the frames at its beginning are found."""
    os.truncate(journal, leaves(journal)[20])
    said, listed, found = read(journal)
    assert said
    assert listed == ["frames from 61 on: SQLite: database disk image is malformed"]
    assert found == list(range(1, 61))


def test_no_way_to_any_frame(journal: Path) -> None:
    """Where the page that leads to all others is bad, all frames are listed as lost."""
    damage(journal, PAGE)
    assert read(journal)[1:] == (["all frames: the pages that lead to them are damaged"], [])


@pytest.mark.parametrize(
    ("statement", "lost"),
    [
        ("delete from frame where number between 20 and 22", "frames 20 to 22: missing"),
        ("update frame set content = x'00' || substr(content, 2) where number = 20", "frame 20: the checksum is wrong"),
        (
            "update frame set content = 'text' where number = 20",
            "frame 20: 4 bytes, fewer than the head of a frame has",
        ),
        (
            "update frame set content = (select content from frame where number = 7) where number = 20",
            "it says that it",
        ),
    ],
)
def test_bad_frames(journal: Path, statement: str, lost: str) -> None:
    """Frames that are missing or not what was written are listed, with what is wrong."""
    execute(journal, statement)
    said, listed, found = read(journal)
    assert said == []
    assert len(listed) == 1
    assert lost in listed[0]
    assert set(range(1, FRAMES + 1)) - set(found) == ({20, 21, 22} if "delete" in statement else {20})


def test_a_number_that_no_frame_can_have(journal: Path) -> None:
    """A number that is much too high does not have all numbers before it looked up."""
    execute(journal, f"update frame set number = {2**50} where number = {FRAMES}")
    _, listed, found = read(journal)
    assert listed == [f"frames from {FRAMES} on: missing"]
    assert found == list(range(1, FRAMES))


@pytest.mark.parametrize("statement", ["pragma user_version = 99", "pragma application_id = 1"])
def test_foreign(journal: Path, statement: str) -> None:
    """What is not a journal of this broker is refused."""
    execute(journal, statement)
    with pytest.raises(ForeignError):
        read(journal)


def test_another_table(journal: Path) -> None:
    """Another table is named, and the frames are read."""
    execute(journal, "create table other (number)")
    assert read(journal) == (["its tables are not those of a journal"], [], list(range(1, FRAMES + 1)))
