"""What is torn, and what is damaged: every combination of sectors that a power cut can leave of a commit (FC-27)."""

import itertools
import shutil
from pathlib import Path

from broker.storage.found import find, names
from broker.storage.frame import HEAD_SIZE, SECTOR
from tests.support.broker.segmented import add, killed, numbers, overwrite, record


def test_any_sectors_of_the_last_commit(tmp_path: Path) -> None:
    """Whichever sectors of the last commit are missing, it is there as a whole or not at all, and it is no damage."""
    with killed(tmp_path / "whole") as segments:
        add(segments, [1, 2])
        assert segments.append([[record(number, 600)] for number in (3, 4, 5)])
    sectors = range(3, 9)
    count = 0
    for missing in itertools.chain.from_iterable(itertools.combinations(sectors, length) for length in range(7)):
        copy = shutil.copytree(tmp_path / "whole", tmp_path / "copy")
        for sector in missing:
            overwrite(copy / "segment-1", sector * SECTOR, bytes(SECTOR))
        found = find(copy)
        assert found.damage == []
        assert found.next == (6 if not missing else 3)
        shutil.rmtree(copy)
        count += 1
    assert count == 2**6


def test_the_first_commit_of_a_file(tmp_path: Path) -> None:
    """A file whose first commit is torn may have its new head, or that of its use before: neither is damage."""
    with killed(tmp_path / "before") as segments:
        segments.has_room()
        segments._spares.wait()
        add(segments, [1], 15 * 1024 * 1024)
    shutil.copytree(tmp_path / "before", tmp_path / "after")
    with killed(tmp_path / "after") as segments:
        add(segments, [2], 10 * 1024 * 1024)
    new = next(each for each in names(tmp_path / "after") if find(tmp_path / "after").segments[-1].path == each)
    content = new.read_bytes()
    for head, rest in ((content[:SECTOR], bytes(len(content) - SECTOR)), (bytes(SECTOR), content[SECTOR:])):
        new.write_bytes(head + rest)
        found = find(tmp_path / "after")
        assert (found.damage, found.next) == ([], 2)
    with killed(tmp_path / "after") as segments:
        add(segments, [2], 15 * 1024 * 1024)
    assert find(tmp_path / "after").next == 3


def test_a_forged_frame(tmp_path: Path) -> None:
    """Frames that a publisher has put into a payload are not taken for commits behind a torn one."""
    with killed(tmp_path / "forger") as segments:
        add(segments, range(1, 10))
    forged = (tmp_path / "forger" / "segment-1").read_bytes()[SECTOR : 10 * SECTOR]
    with killed(tmp_path / "journal") as segments:
        assert segments.append([[record(1)]])
        assert segments.append([[bytes(SECTOR - HEAD_SIZE - 5) + forged]])
    overwrite(tmp_path / "journal" / "segment-1", 2 * SECTOR, bytes(SECTOR))
    assert numbers(tmp_path / "journal") == [1]
