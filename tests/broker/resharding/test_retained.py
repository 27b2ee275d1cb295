"""The newest retained message of a topic counts for all cells."""

from pathlib import Path

import pytest

from broker.cluster.cell import journal_of
from broker.resharding.reshard import reshard
from tests.support.broker.resharded import Delivery, Kept, read_journals, write_journal

pytestmark = pytest.mark.once

OLD = Delivery(b"old", topic=b"t", retain=True)
NEW = Delivery(b"new", topic=b"t", retain=True)
END = Delivery(b"", topic=b"t", retain=True)


def retained(directory: Path, journals: list[tuple[list[Kept], list[Delivery]]]) -> list[bytes]:
    """What is retained in every cell, of which there is one more than before."""
    for cell, (kept, there) in enumerate(journals, 1):
        write_journal(journal_of(directory, cell), kept, there)
    reshard(directory, len(journals) + 1)
    _, found = read_journals(directory)
    assert len({str(each) for each in found.values()}) == 1
    return [each.payload for each in found[1]]


@pytest.mark.parametrize(
    ("own", "others", "expected"), [([NEW], [OLD], [b"new"]), ([], [OLD], []), ([NEW], [], [b"new"])]
)
def test_one_that_waits_for_other_cells(
    tmp_path: Path, own: list[Delivery], others: list[Delivery], expected: list[bytes]
) -> None:
    """The cell that has it still to tell others is ahead: also of the end of a message."""
    told = own or [END]
    links = [Kept("$cell/2", told), Kept("$cell/3", told)]
    assert retained(tmp_path, [(links, own), ([], others), ([], others)]) == expected


def test_a_newer_one_came_from_elsewhere(tmp_path: Path) -> None:
    """A cell that has taken another one over since is behind it."""
    first = [Kept("$cell/2", [OLD])]
    assert retained(tmp_path, [(first, [NEW]), ([], [NEW])]) == [b"new"]


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ([[OLD], [NEW], [NEW]], [b"new"]),
        ([[OLD], [], []], []),
        ([[], [OLD]], [b"old"]),
    ],
)
def test_nothing_says_which_is_newer(tmp_path: Path, there: list[list[Delivery]], expected: list[bytes]) -> None:
    """As after a cell was killed that had got it with QoS 0: what most have counts, and a message before none."""
    assert retained(tmp_path, [([], each) for each in there]) == expected
