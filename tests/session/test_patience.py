"""FC-16: buckets of patience, by themselves."""

from hypothesis import given
from hypothesis import strategies as st

from session.patience import Patience

SECOND = 1_000_000


def test_emptied_while_somebody_is_held_back() -> None:
    """FC-16: a full bucket loses 19 twentieths of the time while pacing, and gains a twentieth after."""
    patience = Patience(5 * SECOND, 0)
    assert patience.left(60 * SECOND) == 5 * SECOND

    patience.start(60 * SECOND)
    assert patience.left(62 * SECOND) == 3.1 * SECOND
    patience.stop(62 * SECOND)

    assert patience.left(64 * SECOND) == 3.2 * SECOND
    assert patience.left(1_000 * SECOND) == 5 * SECOND


def test_started_twice_is_emptied_once() -> None:
    """FC-16: the time counts once, however many publishers are paced."""
    patience = Patience(5 * SECOND, 0)
    patience.start(0)
    patience.start(1 * SECOND)

    assert patience.left(2 * SECOND) == 3.1 * SECOND
    patience.stop(2 * SECOND)
    patience.stop(4 * SECOND)
    assert patience.used_time.take(4 * SECOND) == 2 * SECOND
    assert patience.left(4 * SECOND) == 3.2 * SECOND


@given(st.integers(0, 5 * SECOND), st.integers(0, 6 * SECOND), st.integers(0, SECOND))
def test_when_it_runs_out(used: int, at: int, rest: int) -> None:
    """FC-16: `lasts_until` is the first microsecond at which less than the rest is left."""
    patience = Patience(5 * SECOND, 0)
    patience.start(0)
    patience.stop(used)
    patience.start(used + at)
    now = used + at
    until = patience.lasts_until(rest, now)

    assert until >= now
    assert patience.left(until) < rest
    if until > now:
        assert patience.left(until - 1) >= rest


def test_it_runs_out_when_it_does_whenever_asked() -> None:
    """FC-16: the time at which pacing has to end is the same at its beginning and seconds later."""
    patience = Patience(5 * SECOND, 0)
    patience.start(0)
    until = patience.lasts_until(SECOND, 0)
    assert patience.lasts_until(SECOND, 2 * SECOND) == until


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 3 * SECOND)), max_size=60), st.integers(1, 5 * SECOND))
def test_bound(stretches: list[tuple[bool, int]], capacity: int) -> None:
    """FC-16: pacing that stops at an empty bucket has lasted at most the capacity and a twentieth of the time."""
    patience = Patience(capacity, 0)
    now = used = 0
    for held, length in stretches:
        if held:
            patience.start(now)
            length = min(length, patience.lasts_until(0, now) - now)  # it stops when it is empty
            used += length
        now += length
        patience.stop(now)
        assert used <= capacity + now / 20 + 1

    assert patience.used_time.take(now) == used
