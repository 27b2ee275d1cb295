"""The significance test: against known values, against exact permutation, and its rate of false alarms."""

import math
import random
from collections.abc import Sequence
from itertools import combinations, pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.comparison import significance
from spark_jobs.comparison.significance import holm, mann_whitney, ranks

pytestmark = pytest.mark.once


def exact(a: Sequence[float], b: Sequence[float]) -> float:
    """Two-sided p of the Mann-Whitney test by enumeration of all partitions."""
    placed = ranks([*a, *b])
    expected = len(a) * len(b) / 2 + len(a) * (len(a) + 1) / 2
    seen = abs(sum(placed[: len(a)]) - expected)
    ways = list(combinations(range(len(placed)), len(a)))
    return sum(abs(sum(placed[i] for i in way) - expected) >= seen - 1e-9 for way in ways) / len(ways)


def spread(values: Sequence[float]) -> list[float | None]:
    """Values with gaps between, so that neighbours do not resemble each other."""
    return [item for value in values for item in (value, None)]


def autoregressive(rng: random.Random, n: int, phi: float) -> list[float]:
    """n values, each phi times the one before plus noise."""
    value = rng.gauss() / math.sqrt(1 - phi * phi)
    found = []
    for _ in range(n):
        value = phi * value + rng.gauss()
        found.append(value)
    return found


def test_a_value_by_hand() -> None:
    """Eight against eight without overlap, by hand.

    U = 0, mean 32, variance 8 · 8 · 17 / 12, z = 31.5 / 9.5219 = 3.3082,
    and p = 0.000939.
    """
    found = mann_whitney(spread(range(8)), spread(range(10, 18)))
    assert found.p_value == pytest.approx(0.000939, abs=1e-6)
    assert (found.n_baseline, found.n) == (8, 8)


def test_a_published_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """SciPy's example, ages at which diabetes was found in men and women: p = 0.11134688653."""
    monkeypatch.setattr(significance, "FEWEST", 4)
    monkeypatch.setattr(significance, "FEWEST_EFFECTIVE", 4)
    found = mann_whitney(spread([19, 22, 16, 29, 24]), spread([20, 11, 17, 12]))
    assert found.p_value == pytest.approx(0.11134688653, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_p_is_near_the_exact_one(seed: int) -> None:
    """Eight values on each side, compared with all 12,870 partitions: within 0.02, and 0.05 where most are ties."""
    rng = random.Random(seed)
    a = [rng.randrange(6 if seed % 2 else 1000) for _ in range(8)]
    b = [rng.randrange(6 if seed % 2 else 1000) + seed % 3 for _ in range(8)]
    found = mann_whitney(spread(a), spread(b))
    assert found.p_value == pytest.approx(exact(a, b), abs=0.05 if seed % 2 else 0.02)


def test_too_little_data_is_said() -> None:
    """Fewer than eight values on a side, or long runs of similar values, are not judged."""
    assert mann_whitney(range(7), range(10, 30)).p_value is None
    assert mann_whitney([*range(7), None], range(10, 30)).n_baseline == 7
    assert mann_whitney(range(12), range(100, 112)).p_value is None  # a trend: each value resembles its neighbour


def test_equal_values_do_not_differ() -> None:
    """If all values on both sides are zero, p is 1."""
    assert mann_whitney([0.0] * 9, [0.0] * 20).p_value == 1


@given(st.lists(st.integers(0, 20), min_size=8, max_size=30), st.lists(st.integers(0, 20), min_size=8, max_size=30))
def test_sides_are_alike(a: list[int], b: list[int]) -> None:
    """p is between 0 and 1, and the same when the sides are swapped, negated or scaled."""
    p = mann_whitney(a, b).p_value
    assert mann_whitney(b, a).p_value == p
    assert mann_whitney([-x for x in a], [-x for x in b]).p_value == p
    assert mann_whitney([3 * x + 1 for x in a], [3 * x + 1 for x in b]).p_value == p
    assert p is None or 0 <= p <= 1


@pytest.mark.parametrize(("n", "phi"), list(product((12, 24, 72), (0.0, 0.5, 0.8))))
def test_false_alarms_are_rare_where_neighbours_are_alike(n: int, phi: float) -> None:
    """In 300 pairs of series that do not differ, at most 1 in 8 is significant; with a plain test: 1 in 4."""
    rng = random.Random(n)
    pairs = [(autoregressive(rng, n, phi), autoregressive(rng, n, phi)) for _ in range(300)]
    found = [mann_whitney(a, b).p_value for a, b in pairs]
    alarms = sum(p is not None and p < significance.ALPHA for p in found)
    assert alarms <= 300 / 8
    if phi == 0.8 and n == 72:
        plain = [mann_whitney(spread(a), spread(b)).p_value for a, b in pairs]
        assert sum(p is not None and p < significance.ALPHA for p in plain) > 300 / 4


def test_a_clear_difference_over_a_day_is_found() -> None:
    """24 hours compared with 24, with a difference of twice their spread: nearly always significant."""
    rng = random.Random(3)
    found = 0
    for _ in range(100):
        b = [value + 2 for value in autoregressive(rng, 24, 0.3)]
        p = mann_whitney(autoregressive(rng, 24, 0.3), b).p_value
        found += p is not None and p < significance.ALPHA
    assert found >= 95


def test_ranks_of_equal_values_are_shared() -> None:
    """Equal values get the mean of their ranks."""
    assert ranks([5, 1, 5, 3]) == [3.5, 1, 3.5, 2]


def test_holm_by_hand() -> None:
    """The smallest p times three, the next times two, the last unchanged; never decreasing, never above 1."""
    assert holm([0.04, 0.01, 0.03]) == [0.06, 0.03, 0.06]
    assert holm([0.6, 0.7]) == [1, 1]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_never_makes_p_smaller(p_values: list[float]) -> None:
    """Corrected values lie between Bonferroni's and the given ones, in the same order."""
    found = holm(p_values)
    for p, corrected in zip(p_values, found, strict=True):
        assert p - 1e-9 <= corrected <= min(1, p * len(p_values)) + 1e-9
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    assert all(found[i] <= found[j] for i, j in pairwise(order))
