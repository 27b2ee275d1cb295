"""Jain's index, max-min share, Gini's coefficient and the Lorenz curve, compared with their definitions."""

import random
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from spark_jobs.measures.evenness import Evenness, by_group, by_point, lorenz_curve
from tests.support.spark.compacted import collected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
        "zeros": [0, 0],
        "greatest": [1 << 50] * 5 + [(1 << 50) - 1, 1],
        "small": [1, 2, 3, 4, 5, 2047, 2048, 2049],
        "Zipf": [10**12 // rank for rank in range(1, 400)],
        "nearly equal": [10**9 + rng.randrange(10**6) for _ in range(300)],
    }
    for n in (2, 10, 99, 100, 101, 333):
        found[f"lognormal {n}"] = [int(rng.lognormvariate(20, 2)) for _ in range(n)]
    return found


@pytest.fixture(scope="module")
def values(spark: "SparkSession") -> "DataFrame":
    """All groups, shuffled."""
    rows = [(name, value) for name, group in samples().items() for value in group]
    random.Random(1).shuffle(rows)
    return spark.createDataFrame([*rows, ("none", None)], "name string, value bigint")


def test_indices_are_those_of_the_definitions(values: "DataFrame") -> None:
    """Jain's index, the max-min share and Gini's coefficient to nine digits; null if all is 0."""
    found = {row["name"]: Evenness.of(row) for row in collected(by_group(values, ["name"]))}
    zeros = found.pop("zeros")
    assert (zeros.n, zeros.jain, zeros.maxmin, zeros.gini, zeros.lowest(1)) == (2, None, None, None, 0)
    assert found.keys() == samples().keys() - {"zeros"}
    for name, group in found.items():
        own = samples()[name]
        assert (group.n, group.total, group.squares) == (len(own), sum(own), sum(x * x for x in own)), name
        assert group.jain == pytest.approx(jain(own), abs=1e-9), name
        assert group.maxmin == pytest.approx(min(own) * len(own) / sum(own), abs=1e-9), name
        assert group.gini == pytest.approx(gini(own), abs=1e-9), name
    assert found["two of four"].jain == found["two of four"].gini == 0.5


def test_the_lorenz_curve_is_that_of_the_sorted_values(values: "DataFrame") -> None:
    """101 points from (0, 0) to (1, 1); none if all is 0."""
    rows = collected(by_point(values, ["name"]))
    for name, own in samples().items():
        curve = lorenz_curve([row for row in rows if row["name"] == name])
        if name == "zeros":
            assert curve == []
            continue
        assert [point[0] for point in curve] == [k / 100 for k in range(101)], name
        for k, (_, share) in enumerate(curve):
            assert share == pytest.approx(lorenz(own, Fraction(k, 100)), abs=1e-9), (name, k)


def test_nothing_has_no_indices() -> None:
    """Without values, indices are null and there is no curve."""
    none = Evenness()
    assert (none.jain, none.maxmin, none.gini, none.lowest(1)) == (None,) * 4
    assert lorenz_curve([]) == []
