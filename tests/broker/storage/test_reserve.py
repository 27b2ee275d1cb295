"""FC-29: how much of the room may be used for what, and what waits for it."""

import pytest

from broker.storage.reserve import Reserve

SEGMENT = 1_000


@pytest.mark.parametrize(("free", "expected"), [(2 * SEGMENT, True), (1_750, True), (1_749, False), (0, False)])
def test_almost_two_segments_stay(free: int, expected: bool) -> None:
    """What is left of what is written once more is for acknowledgements and compaction."""
    assert Reserve(lambda: free, SEGMENT).may_take(0, False) == expected


def test_what_compaction_needs() -> None:
    """Less stays if less is live in the oldest segment: what is dead need not be copied."""
    live: list[int | None] = [100]
    reserve = Reserve(lambda: SEGMENT, SEGMENT, lambda: live[0])
    reserve.look()
    assert [reserve.may_take(frame, False) for frame in (400, 401)] == [True, False]
    live[0] = SEGMENT
    reserve.look()
    assert not reserve.may_take(0, False)
    live[0] = None
    reserve.look()
    assert not reserve.may_take(0, False)


def test_new_messages() -> None:
    """They leave more, and what waits counts; how much room there is, is known when a commit has returned."""
    free = 10 * SEGMENT
    reserve = Reserve(lambda: free, SEGMENT)
    reserve.look()
    assert reserve.room() == 7_500
    reserve.under_way, reserve.ended = 3_000, 4_000
    assert reserve.room() == 500
    assert (reserve.admits(500), reserve.admits(501)) == (True, False)
    free = 0
    assert reserve.admits(500)
    reserve.look()
    assert not reserve.admits(0)


def test_what_waits_is_taken_off() -> None:
    """Frames that are not on disk yet will take some of it."""
    reserve = Reserve(lambda: 2 * SEGMENT, SEGMENT)
    reserve.under_way, reserve.ended = 100, 50
    assert reserve.left(50) == 1_800
    assert (reserve.may_take(100, False), reserve.may_take(101, False)) == (True, False)


def test_long_commits() -> None:
    """On a full disk the next commit is to have less than a quarter of a segment."""
    reserve = Reserve(lambda: 10 * SEGMENT, SEGMENT)
    reserve.under_way = SEGMENT
    assert (reserve.is_long(249), reserve.is_long(250)) == (False, True)
    assert [reserve.may_take(249, True), reserve.may_take(250, True)] == [True, False]
    assert reserve.may_take(250, False)


def test_without_segments() -> None:
    """Without files nothing is long, and nothing is refused."""
    reserve = Reserve(lambda: 0, 0)
    reserve.look()
    assert (reserve.is_long(10), reserve.spare()) == (False, 0)
    assert reserve.admits(10)
    assert reserve.may_take(10, False)
