"""Frames: what one commit writes (FC-27)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage import frame, records
from broker.storage.records import DamagedError

RECORDS = [records.ended(1), records.cleared(b"topic"), records.sent(1, [(2, 3)])]
WHOLE = frame.encode(7, RECORDS)


def test_whole() -> None:
    """The records of a frame are read in their order."""
    frame.check(WHOLE, 7)
    kinds = [kind for kind, _ in records.each(WHOLE, frame.HEAD_SIZE)]
    assert kinds == [records.ENDED, records.CLEARED, records.SENT]


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_any_byte_changed(at: int, change: int) -> None:
    """A frame with any byte changed is refused."""
    damaged = bytearray(WHOLE)
    damaged[at] ^= change
    with pytest.raises(DamagedError):
        frame.check(bytes(damaged), 7)


@given(st.integers(0, len(WHOLE) - 1))
def test_cut_anywhere(length: int) -> None:
    """A frame that is cut anywhere is refused."""
    with pytest.raises(DamagedError):
        frame.check(WHOLE[:length], 7)


def test_of_another_number() -> None:
    """A frame with another number is refused."""
    with pytest.raises(DamagedError, match="frame 7"):
        frame.check(WHOLE, 8)


def test_half_a_record() -> None:
    """A record that is longer than the rest of its frame is refused, even with a correct checksum."""
    for cut in (1, len(RECORDS[-1]) - 1):
        with pytest.raises(DamagedError):
            list(records.each(WHOLE[:-cut], frame.HEAD_SIZE))
