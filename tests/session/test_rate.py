"""Rates: the token bucket behind `consumer_max_rate` (FC-11) and `producer_max_rate` (FC-23)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session.rate import Rate
from tests.support.session.messages import SECOND

START = 1_000 * SECOND
TICK = SECOND // 10
"""Between two ticks of the broker's timers."""
RATES = [1, 2, 3, 4, 5, 7, 9, 10, 11, 19, 30, 99, 100, 1_000, 4_999]


def take_all(rate: Rate, now: int) -> int:
    """Take what there is; returns how many that were."""
    taken = 0
    while rate.take(now):
        taken += 1
    return taken


def tick_after(moment: int) -> int:
    """When the broker calls a timer that comes due at `moment`."""
    return -(-moment // TICK) * TICK


@pytest.mark.parametrize(
    ("per_second", "tokens"),
    [(1, 1), (4, 1), (5, 1), (9, 1), (10, 2), (14, 2), (15, 3), (100, 20), (1_000_000, 200_000)],
)
def test_full_at_the_start(per_second: int, tokens: int) -> None:
    """FC-11: the bucket starts with a fifth of a second's worth, at least one, and never holds more."""
    rate = Rate(per_second, START)

    assert take_all(rate, START) == tokens
    assert take_all(rate, START + 3600 * SECOND) == tokens


@pytest.mark.parametrize("per_second", RATES)
def test_the_rate_is_reached(per_second: int) -> None:
    """FC-11: over time exactly the rate is reached, though tokens are taken at ticks only."""
    rate = Rate(per_second, START)
    now = START
    taken = take_all(rate, START)
    at_first = taken
    while now < START + 100 * SECOND:
        now = tick_after(rate.next_at(now))
        taken += take_all(rate, now)

    in_all = per_second * (now - START) // SECOND
    assert in_all - 1 <= taken - at_first <= in_all + 1


@given(st.sampled_from(RATES), st.lists(st.tuples(st.integers(0, SECOND), st.integers(1, 2_000)), max_size=60))
def test_never_more_than_the_rate_allows(per_second: int, steps: list[tuple[int, int]]) -> None:
    """FC-11: in no second more than 1.2 times the rate, or one more than it, is taken."""
    rate = Rate(per_second, START)
    now = START
    taken: list[int] = []
    for wait, wanted in steps:
        now += wait
        taken += [now for _ in range(wanted) if rate.take(now)]

    for begin in sorted(set(taken)):
        in_this_second = sum(begin <= at <= begin + SECOND for at in taken)
        assert in_this_second <= max(per_second * 12 // 10, per_second + 1)


def test_the_most_in_a_second() -> None:
    """FC-11: a full bucket and a second's tokens are 1.2 times the rate."""
    rate = Rate(100, START)

    assert sum(take_all(rate, START + at) for at in range(0, SECOND + 1, 1_000)) == 120


@given(st.integers(1, 1_000_000), st.lists(st.integers(-50_000, SECOND), max_size=40))
def test_next_at_is_the_first_moment(per_second: int, waits: list[int]) -> None:
    """FC-11: there is a token at the returned time and none before."""
    rate = Rate(per_second, START)
    now = START
    for wait in waits:
        now += wait
        rate.take(now)
        at = rate.next_at(now)

        assert at >= now
        assert rate.available(at)
        assert at == now or not rate.available(at - 1)
        assert rate.available(now) == (at == now)


def test_asking_takes_nothing() -> None:
    """FC-11: `available` and `next_at` take no token; `take` takes one."""
    rate = Rate(1, START)

    assert all(rate.available(START) for _ in range(3))
    assert rate.next_at(START) == START
    assert rate.take(START)
    assert not rate.take(START)
    assert rate.next_at(START) == START + SECOND - TICK  # it holds a tick's worth besides the one


@pytest.mark.parametrize("back", [0, 1, TICK, 30 * SECOND])
def test_a_clock_that_stands_still_or_goes_back(back: int) -> None:
    """FC-11: a clock that stands still or goes back brings no tokens."""
    rate = Rate(10, START)
    assert take_all(rate, START) == 2

    assert take_all(rate, START - back) == 0
    assert not rate.available(START)
    assert rate.next_at(START - back) == START + SECOND // 10
    assert take_all(rate, START + SECOND) == 2


@pytest.mark.parametrize("per_second", [1, 10, 1_000])
def test_debt(per_second: int) -> None:
    """FC-23: PUBLISHes that were already read are handled; what exceeds the rate is waited for afterwards."""
    rate = Rate(per_second, START)
    at_first = take_all(rate, START)
    rate = Rate(per_second, START)

    for _ in range(at_first + 5 * per_second):
        rate.spend(START)

    assert not rate.available(START + 4 * SECOND)
    assert not rate.take(START + 5 * SECOND - TICK)
    assert rate.next_at(START) <= START + 5 * SECOND + SECOND // per_second
    assert rate.take(rate.next_at(START))


def test_spending_what_is_there() -> None:
    """FC-23: within the rate `spend` equals `take`."""
    taking, spending = Rate(50, START), Rate(50, START)
    for step in range(100):
        now = START + step * SECOND // 50
        assert taking.take(now)
        spending.spend(now)
        assert taking.next_at(now) == spending.next_at(now)


def test_a_large_clock() -> None:
    """FC-11: years of uptime at the highest rate change nothing."""
    now = 10 * 365 * 86_400 * SECOND
    rate = Rate(1_000_000, now)

    assert take_all(rate, now) == 200_000
    assert take_all(rate, now + 3) == 3
