"""The stopwatch: how long a condition held, in each interval."""

from hypothesis import given
from hypothesis import strategies as st

from session.stopwatch import Stopwatch


def test_measures_from_start_to_stop() -> None:
    """The time between start and stop is returned once."""
    watch = Stopwatch()
    watch.start(10)
    watch.stop(25)

    assert watch.take(100) == 15
    assert watch.take(200) == 0


def test_goes_on_over_take() -> None:
    """A condition that holds is split between the intervals."""
    watch = Stopwatch()
    watch.start(10)

    assert watch.take(30) == 20
    assert watch.running
    watch.stop(35)
    assert watch.take(100) == 5


def test_start_and_stop_twice() -> None:
    """A second start or stop changes nothing."""
    watch = Stopwatch()
    watch.stop(5)
    watch.start(10)
    watch.start(20)
    watch.stop(30)
    watch.stop(40)

    assert watch.take(50) == 20
    assert not watch.running


@given(st.lists(st.tuples(st.sampled_from(["start", "stop", "take", "wait"]), st.integers(0, 10))))
def test_adds_up(steps: list[tuple[str, int]]) -> None:
    """Over any starts, stops and takes the returned times add up to the time for which the condition held."""
    watch, now, held, total, taken = Stopwatch(), 0, False, 0, 0
    for step, wait in steps:
        now += wait
        total += wait if held else 0
        if step == "start":
            watch.start(now)
            held = True
        elif step == "stop":
            watch.stop(now)
            held = False
        elif step == "take":
            taken += watch.take(now)

    assert taken + watch.take(now) == total


def test_an_older_clock() -> None:
    """A turn of the loop takes its time when it begins: what starts in it and stops by that has lasted no time."""
    for read in (Stopwatch.take, Stopwatch.so_far):
        watch = Stopwatch()
        watch.start(100)
        assert read(watch, 80) == 0
        watch.stop(90)
        assert watch.take(90) == 0
