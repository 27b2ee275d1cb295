"""How long a bridge waits before it connects again."""

from hypothesis import given
from hypothesis import strategies as st

from broker.bridge.backoff import Backoff


@given(st.lists(st.tuples(st.integers(0, 10_000), st.floats(0, 1)), max_size=50))
def test_waits_stay_within_their_bounds(rounds: list[tuple[int, float]]) -> None:
    """No attempt comes earlier than reconnect_min, or later than reconnect_max, whatever has happened."""
    jitter = iter([each for _, each in rounds])
    backoff = Backoff(100, 1_000, lambda: next(jitter))
    for lasted, _ in rounds:
        assert 100 <= backoff.wait(lasted) <= 1_000


def test_waits_grow_while_attempts_fail() -> None:
    """Each may be twice as long as the one before, up to the longest."""
    backoff = Backoff(100, 1_000, lambda: 1.0)
    assert [backoff.wait(0) for _ in range(5)] == [200, 400, 800, 1_000, 1_000]


def test_jitter_spreads_the_first_attempt_too() -> None:
    """Bridges that have lost the same broker do not come back all at once."""
    jitter = [0.0, 0.5, 1.0]
    assert [Backoff(100, 1_000, lambda: jitter.pop(0)).wait(0) for _ in range(3)] == [100, 150, 200]


def test_a_steady_connection_ends_the_episode() -> None:
    """After a connection that lasted, the next wait is a short one; after one that was closed at once it is not."""
    backoff = Backoff(100, 1_000, lambda: 1.0)
    assert [backoff.wait(lasted) for lasted in (0, 0, 700, 801)] == [200, 400, 800, 1_000]
    assert backoff.wait(2_001) == 200
