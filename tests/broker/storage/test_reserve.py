"""FC-29: how much of the free segments may be used for what is written once more."""

import pytest

from broker.storage.reserve import Reserve

SEGMENT = 1_000


@pytest.mark.parametrize(("free", "expected"), [(2 * SEGMENT, True), (1_500, True), (1_499, False), (0, False)])
def test_a_segment_and_a_half_stay(free: int, expected: bool) -> None:
    """What is left is for acknowledgements and compaction."""
    assert Reserve(lambda: free, SEGMENT).may_take(0) == expected


def test_what_waits_is_taken_off() -> None:
    """Frames that are not on disk yet will take some of it."""
    reserve = Reserve(lambda: 2 * SEGMENT, SEGMENT)
    reserve.under_way, reserve.ended = 100, 200
    assert reserve.left(50) == 1_650
    assert not reserve.may_take(201)


def test_long_commits() -> None:
    """The next commit is to have less than half a segment, however much is free."""
    reserve = Reserve(lambda: 10 * SEGMENT, SEGMENT)
    reserve.under_way = SEGMENT
    assert reserve.may_take(499)
    assert (reserve.is_long(499), reserve.is_long(500)) == (False, True)
    assert not reserve.may_take(500)


def test_without_segments() -> None:
    """Without files nothing is long, and nothing may be taken."""
    reserve = Reserve(lambda: 0, 0)
    assert (reserve.is_long(10), reserve.spare()) == (False, 0)
