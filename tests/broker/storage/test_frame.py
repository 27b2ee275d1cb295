"""What is in a frame, and what is taken for one (FC-27)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage import records
from broker.storage.frame import HEAD_SIZE, SECTOR, check, encode, head_at, mark
from broker.storage.records import DamagedError

USE = 0x1234_5678_9ABC_DEF0


@given(st.lists(st.binary(min_size=1, max_size=6_000), min_size=1, max_size=4))
def test_what_is_written_is_read(pieces: list[bytes]) -> None:
    """A frame is whole sectors, and its head says how many bytes its records have."""
    content = encode(USE, 3, 7, 1, 2, pieces)
    assert len(content) % SECTOR == 0
    head = head_at(content, 0, USE)
    assert head is not None
    assert (head.number, head.oldest, head.first, head.last) == (7, 3, 6, 9)
    check(content, head)
    assert content[HEAD_SIZE : HEAD_SIZE + head.size] == b"".join(pieces)


@given(st.integers(0, HEAD_SIZE - 1), st.integers(1, 255))
def test_no_head_is_damaged_unnoticed(at: int, mask: int) -> None:
    """With any byte changed a head is none."""
    content = bytearray(encode(USE, 1, 7, 0, 0, [b"record"]))
    content[at] ^= mask
    assert head_at(bytes(content), 0, USE) is None


@given(st.integers(0, 9_999), st.integers(1, 255))
def test_no_record_is_damaged_unnoticed(at: int, mask: int) -> None:
    """With any byte of its records changed, or missing, a frame is refused."""
    content = bytearray(encode(USE, 1, 7, 0, 0, [bytes(10_000)]))
    head = head_at(bytes(content), 0, USE)
    assert head is not None
    with pytest.raises(DamagedError, match="bytes of records, and 10000 were written"):
        check(bytes(content[: HEAD_SIZE + at]), head)
    content[HEAD_SIZE + at] ^= mask
    with pytest.raises(DamagedError, match="the checksum is wrong"):
        check(bytes(content), head)


def test_half_a_record() -> None:
    """A record that is longer than the rest of its frame is refused, even with a correct checksum."""
    whole = [records.ended(1), records.sent(1, [(2, 3)])]
    for cut in (1, len(whole[-1]) - 1):
        content = bytes(HEAD_SIZE) + b"".join(whole)[:-cut]
        with pytest.raises(DamagedError):
            list(records.each(content, HEAD_SIZE))


def test_a_frame_of_another_use() -> None:
    """What is left of an earlier use of a file, or what a client has sent, is no frame."""
    assert head_at(encode(USE + 1, 1, 7, 0, 0, [b"record"]), 0, USE) is None


def test_a_mark() -> None:
    """A mark is one sector, and has no records."""
    content = mark(USE, 3, 8)
    head = head_at(content, 0, USE)
    assert head is not None
    assert (len(content), head.size, head.number, head.oldest) == (SECTOR, 0, 8, 3)
