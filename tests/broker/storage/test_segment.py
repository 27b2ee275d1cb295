"""The head of a segment: what is read of it, and what is refused."""

import struct
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.errors import ForeignError
from broker.storage.frame import SECTOR
from broker.storage.records import DamagedError
from broker.storage.segment import VERSION, Segment, SegmentHead, encode_head, read_head

HEAD = SegmentHead(0x1234_5678_9ABC_DEF0, 77, 16 * 1024 * 1024)


@given(st.integers(0, SECTOR - 1), st.integers(1, 255))
def test_one_damaged_byte_hides_nothing(at: int, mask: int) -> None:
    """A head is there twice, so that any one byte of it may be damaged."""
    sector = bytearray(encode_head(HEAD))
    sector[at] ^= mask
    assert read_head(bytes(sector)) == HEAD


def test_never_used() -> None:
    """A file of zeros is free."""
    assert read_head(bytes(SECTOR)) is None


@pytest.mark.parametrize("sector", [b"", b"x", encode_head(HEAD)[:30], encode_head(HEAD)[:20].ljust(SECTOR, b"\0")])
def test_damaged(sector: bytes) -> None:
    """A file that was cut in its head, or whose head is damaged in both places, is damaged."""
    with pytest.raises(DamagedError, match="its head is damaged"):
        read_head(sector)


def test_foreign() -> None:
    """A file of another program is not called damaged."""
    with pytest.raises(ForeignError, match="a file of another program"):
        read_head(b"SQLite format 3\0".ljust(SECTOR, b"x"))


@pytest.mark.parametrize(("version", "who"), [(VERSION + 1, "a newer broker"), (VERSION - 1, "an older broker")])
def test_another_version(version: int, who: str) -> None:
    """A segment of another version is refused, with what to do."""
    content = bytearray(encode_head(HEAD)[: SECTOR // 2])
    struct.pack_into(">I", content, 8, version)
    struct.pack_into(">I", content, 36, crc32(content[:36]))
    with pytest.raises(ForeignError, match=f"version {version}; this broker reads .* to {VERSION}: start {who}"):
        read_head(bytes(content).ljust(SECTOR, b"\0"))


def test_every_use_is_another_one(tmp_path: Path) -> None:
    """A file that is used again gets another number for that, which nobody can guess."""
    path = tmp_path / "segment-1"
    path.write_bytes(bytes(SECTOR))
    uses = {Segment.begin(path, 1).use for _ in range(100)}
    assert len(uses) == 100
    assert max(uses) > 1 << 56
