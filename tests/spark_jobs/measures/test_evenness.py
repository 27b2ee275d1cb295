"""Jain's index, max-min share, Gini's coefficient and the Lorenz curve, compared with their definitions."""

import random
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.arrays import Ints, exact_sum
from spark_jobs.measures.evenness import Evenness, lorenz_curve

pytestmark = pytest.mark.once


def jain(values: Sequence[int]) -> float:
    """By its definition."""
    return sum(values) ** 2 / (len(values) * sum(x * x for x in values))


def gini(values: Sequence[int]) -> float:
    """Half the relative mean difference, calculated by ranks."""
    n, whole = len(values), sum(values)
    return float(
        Fraction(2 * sum(rank * x for rank, x in enumerate(sorted(values), 1)), n * whole) - Fraction(n + 1, n)
    )


def lorenz(values: Sequence[int], part: Fraction) -> float:
    """The share of the total that the lowest part of the values has, with linear interpolation."""
    place = part * len(values)
    whole = int(place)
    in_order = sorted(values)
    rest = (place - whole) * in_order[whole] if whole < len(values) else 0
    return float((sum(in_order[:whole]) + rest) / sum(values))


def samples() -> dict[str, list[int]]:
    """Groups of values with various distributions."""
    rng = random.Random(5)
    found = {
        "one": [7],
        "equal": [10_000_000_000] * 9,
        "two of four": [10**9, 10**9, 0, 0],
        "one has all": [0] * 9 + [10**12],
        "small": [1, 2, 3, 4, 5, 2047, 2048, 2049],
        "Zipf": [10**12 // rank for rank in range(1, 400)],
        "nearly equal": [10**9 + rng.randrange(10**6) for _ in range(300)],
    }
    for n in (2, 10, 99, 100, 101, 333):
        found[f"lognormal {n}"] = [int(rng.lognormvariate(20, 2)) for _ in range(n)]
    return found


def array(values: Sequence[int]) -> Ints:
    """Values as an array."""
    return np.array(values, np.int64)


@pytest.mark.parametrize(("name", "values"), samples().items())
def test_indices_are_those_of_the_definitions(name: str, values: list[int]) -> None:
    """Jain's index, the max-min share and Gini's coefficient to nine digits."""
    found = Evenness.of(array(values))
    assert found.n == len(values)
    assert found.jain == pytest.approx(jain(values), abs=1e-9)
    assert found.maxmin == pytest.approx(min(values) * len(values) / sum(values), abs=1e-9)
    assert found.gini == pytest.approx(gini(values), abs=1e-9)
    if name == "two of four":
        assert found.jain == found.gini == 0.5


@pytest.mark.parametrize("values", samples().values(), ids=samples())
def test_the_lorenz_curve_is_that_of_the_sorted_values(values: list[int]) -> None:
    """101 points from (0, 0) to (1, 1)."""
    curve = lorenz_curve(array(values))
    assert [point[0] for point in curve] == [k / 100 for k in range(101)]
    for k, (_, share) in enumerate(curve):
        assert share == pytest.approx(lorenz(values, Fraction(k, 100)), abs=1e-9), k


def test_nothing_has_no_indices() -> None:
    """Without values or with zeros only, indices are null and there is no curve."""
    zeros, none = Evenness.of(array([0, 0])), Evenness.of(array([]))
    assert (zeros.jain, zeros.maxmin, zeros.gini, zeros.lowest(1)) == (None, None, None, 0)
    assert (none.jain, none.maxmin, none.gini, none.lowest(1)) == (None,) * 4
    assert lorenz_curve(array([])) == lorenz_curve(array([0, 0])) == []


def test_the_order_of_the_values_changes_nothing() -> None:
    """Shuffled values have the same sums."""
    values = samples()["lognormal 333"]
    shuffled = random.Random(1).sample(values, len(values))
    assert Evenness.of(array(values)) == Evenness.of(array(shuffled))


@given(st.lists(st.tuples(st.integers(0, (1 << 51) - 1), st.integers(0, (1 << 51) - 1))))
def test_sums_are_exact(pairs: list[tuple[int, int]]) -> None:
    """Sums and sums of products beyond 64 bits."""
    values, weights = array([x for x, _ in pairs]), array([y for _, y in pairs])
    assert exact_sum(values) == sum(x for x, _ in pairs)
    assert exact_sum(values, weights) == sum(x * y for x, y in pairs)
