"""`sluice store` with the journals of several workers: it acts on all of them, and says which cell."""

from pathlib import Path

import pytest

from broker.cluster.cell import journal_of
from broker.resharding.layout import FOLDER, SWITCH
from broker.storage import spares
from broker.storage.found import find
from broker.storage.frame import HEAD_SIZE, SECTOR
from tests.broker.cli.test_store import store
from tests.support.broker.cells import at_home
from tests.support.broker.resharded import Delivery, Kept, read_journals, write_journal
from tests.support.broker.segmented import overwrite

pytestmark = pytest.mark.once


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The journals of two workers."""
    monkeypatch.setattr(spares, "SEGMENT", 64 * 1024)
    retained = [Delivery(b"r", topic=b"r")]
    for cell in (1, 2):
        own = Kept(next(at_home(cell)), [Delivery(bytes(900))] * 3)
        link = Kept(f"$cell/{3 - cell}", [Delivery(b"x")])
        write_journal(journal_of(tmp_path / "host", cell), [own, link], retained)
    return tmp_path / "host"


def damage(host: Path, cell: int) -> None:
    """Change a byte of the third frame of a cell."""
    (segment,) = find(journal_of(host, cell)).segments
    place = [position for position, _ in segment.heads_from(SECTOR)][2]
    overwrite(segment.path, place + HEAD_SIZE + 3, b"damage")


def test_figures(host: Path) -> None:
    """A block for each cell, and one for all: retained messages count once, and links are no sessions."""
    status, said = store("stats", host)
    assert status == 0
    blocks = [block.splitlines() for block in said.split("\n\n")]
    assert [block[0] for block in blocks] == ["cell 1", "cell 2", "all cells"]
    for block, factor in zip(blocks, (1, 1, 2), strict=True):
        figures = dict(line.rsplit(maxsplit=1) for line in block[1:] if not line.startswith(("frames", "bytes")))
        found = {name.strip(): int(count) for name, count in figures.items()}
        assert (found["sessions"], found["deliveries"], found["in links"]) == (factor, 3 * factor, factor)
        assert found["retained"] == 1


def test_check(host: Path) -> None:
    """Each line says which cell; one that is damaged or missing does not hide the others."""
    status, said = store("check", host)
    assert status == 0
    assert [line.partition(":")[0] for line in said.splitlines()] == ["cell 1", "cell 2"]
    assert said.count("no damage found") == 2
    damage(host, 1)
    status, said = store("check", host)
    assert status == 1
    assert "cell 1: frame 3: the checksum is wrong" in said
    assert "cell 2: " in said
    assert "1 problems; `sluice store salvage`" in said
    journal_of(host, 2).rename(journal_of(host, 3))
    status, said = store("check", host)
    assert status == 1
    assert f"{journal_of(host, 2)}: No such file or directory" in said
    assert "cell 3: " in said


def test_backup(host: Path, tmp_path: Path) -> None:
    """The copy has a journal for each cell, from which as many workers start."""
    status, said = store("backup", host, tmp_path / "copy")
    assert status == 0
    assert [line.partition(":")[0] for line in said.splitlines()] == [
        str(journal_of(tmp_path / "copy", cell)) for cell in (1, 2)
    ]
    assert read_journals(tmp_path / "copy") == read_journals(host)
    assert "File exists" in store("backup", host, tmp_path / "copy")[1]
    damage(host, 2)
    status, said = store("backup", host, tmp_path / "other")
    assert status == 1
    assert f"{journal_of(host, 2)}: segment-1: frame 3: the checksum is wrong" in said
    assert not (tmp_path / "other").exists()
    assert read_journals(tmp_path / "copy")


def test_salvage(host: Path, tmp_path: Path) -> None:
    """What can be read of all cells is copied, and the lines say of which cell something is lost."""
    damage(host, 1)
    status, said = store("salvage", host, tmp_path / "copy")
    assert status == 1
    assert "cell 1: frame 3: the checksum is wrong: lost" in said
    assert f"frames are in {journal_of(tmp_path / 'copy', 1)}, 1 are lost" in said
    assert f"frames are in {journal_of(tmp_path / 'copy', 2)}, 0 are lost" in said
    assert store("check", tmp_path / "copy")[0] == 0
    assert find(journal_of(tmp_path / "copy", 1)).next == find(journal_of(host, 2)).next - 1


@pytest.mark.parametrize("command", ["stats", "check", "backup", "salvage"])
def test_while_the_number_of_workers_changes(host: Path, tmp_path: Path, command: str) -> None:
    """Which journals count is in a file then, and not in their names: the broker has to end that first."""
    (host / FOLDER).mkdir()
    (host / FOLDER / SWITCH).write_text("2\n")
    status, said = store(command, host, *([tmp_path / "copy"] if command in ("backup", "salvage") else []))
    assert status == 1
    assert f"sluice: {host}: another number of workers has not all its journals yet" in said
