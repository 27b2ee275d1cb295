"""FC-27: damage in SQLite's write-ahead log, and states that are not damage."""

import struct
from pathlib import Path

import pytest

from broker.storage import torn_writes
from broker.storage.database import CHECKPOINT, NAME, PAGE, Database
from broker.storage.records import DamagedError

FRAME = 24 + PAGE
COMMITS = 4
WRITTEN = 32 + COMMITS * FRAME


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The log of a broker that was killed after some commits, of one frame each."""
    database = Database(tmp_path / "journal")
    database.grow_log()
    for number in range(1, COMMITS + 1):
        database.append(number, b"frame")
    content = (tmp_path / "journal" / f"{NAME}-wal").read_bytes()
    database.close()
    assert len(content) > CHECKPOINT
    assert not any(content[WRITTEN:])
    log = tmp_path / "log"
    log.write_bytes(content[:WRITTEN])
    return log


def change(log: Path, at: int, new: bytes) -> None:
    """Write over it."""
    content = bytearray(log.read_bytes())
    content[at : at + len(new)] = new
    log.write_bytes(content)


def test_sound(log: Path) -> None:
    """A whole log, an empty one and a missing one are sound."""
    assert torn_writes.check(log) == log.stat().st_size
    log.write_bytes(b"")
    assert torn_writes.check(log) == 0
    log.unlink()
    torn_writes.cut(log)
    assert not log.exists()


def test_zeros_behind_it(log: Path) -> None:
    """The length that a log gets at the start is not taken for damage, used or not; nor does it hide any."""
    content = log.read_bytes()
    log.write_bytes(content + bytes(10 * FRAME))
    assert torn_writes.check(log) == len(content)
    change(log, 32 + FRAME + 100, b"\xff\xff")
    with pytest.raises(DamagedError, match="commits follow"):
        torn_writes.check(log)
    log.write_bytes(bytes(10 * FRAME))
    assert torn_writes.check(log) == 0
    change(log, 40, b"\xff")
    with pytest.raises(DamagedError, match="the head of the write-ahead log is damaged"):
        torn_writes.check(log)


@pytest.mark.parametrize("at", [0, 5, 12, 20, 31])
def test_head(log: Path, at: int) -> None:
    """A log without its header is damaged, although SQLite would take it for empty."""
    change(log, at, b"\xff")
    with pytest.raises(DamagedError, match="the head of the write-ahead log is damaged"):
        torn_writes.check(log)


@pytest.mark.parametrize("at", [0, 5, 10, 15, 20, 24, 4000])
def test_commits_behind(log: Path, at: int) -> None:
    """Damage anywhere in a commit is detected by the checksums of later commits."""
    change(log, 32 + FRAME + at, b"\xff\xff")
    with pytest.raises(DamagedError, match=f"damaged after byte {32 + FRAME}, and commits follow"):
        torn_writes.check(log)


@pytest.mark.parametrize("at", [8, 12, 16, 24])
def test_the_last_but_one(log: Path, at: int) -> None:
    """Damage to the last commit but one is detected by the checksum of the last one."""
    change(log, 32 + (COMMITS - 2) * FRAME + at, b"\xff\xff")
    with pytest.raises(DamagedError, match="and commits follow"):
        torn_writes.check(log)


def test_torn(log: Path) -> None:
    """A torn last transaction, as a power cut leaves it, is cut off; no other one is."""
    whole = 32 + (COMMITS - 1) * FRAME
    change(log, whole + 100, b"\xff")
    assert torn_writes.check(log) == whole
    log.write_bytes(log.read_bytes()[:-1000])
    torn_writes.cut(log)
    assert log.stat().st_size == whole
    torn_writes.cut(log)
    assert log.stat().st_size == whole


def test_overwritten(log: Path) -> None:
    """Frames of an earlier log behind the last commit have other salts and are ignored."""
    content = log.read_bytes()
    frames = bytearray(content[32 + 2 * FRAME :])
    for position in range(0, len(frames), FRAME):
        struct.pack_into(">I", frames, position + 8, 1234)
    log.write_bytes(content[: 32 + 2 * FRAME] + frames)
    assert torn_writes.check(log) == 32 + 2 * FRAME
