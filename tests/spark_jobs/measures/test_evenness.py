"""Jain's index, max-min share, Gini's coefficient and the Lorenz curve, against their definitions."""

import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from spark_jobs.measures import evenness
from spark_jobs.measures.evenness import GINI_ERROR, POINTS, Evenness, lorenz_curve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def jain(values: Sequence[int]) -> float:
    """By its definition."""
    return sum(values) ** 2 / (len(values) * sum(x * x for x in values))


def gini(values: Sequence[int]) -> float:
    """Half the relative mean difference: by ranks, which is the same."""
    n, whole = len(values), sum(values)
    return float(
        Fraction(2 * sum(rank * x for rank, x in enumerate(sorted(values), 1)), n * whole) - Fraction(n + 1, n)
    )


def lorenz(values: Sequence[int], part: Fraction) -> float:
    """The share of the total that the lowest part of the values has, linear between values."""
    place = part * len(values)
    whole = int(place)
    in_order = sorted(values)
    rest = (place - whole) * in_order[whole] if whole < len(values) else 0
    return float((sum(in_order[:whole]) + rest) / sum(values))


def samples() -> dict[str, list[int]]:
    """Groups of values of many shapes."""
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


def frame_of(spark: "SparkSession", groups: Mapping[str, Sequence[int | None]]) -> "DataFrame":
    """Values with the name of their group."""
    return spark.createDataFrame([(name, x) for name, values in groups.items() for x in values], "g string, x bigint")


def test_indices_are_those_of_the_definitions(spark: "SparkSession") -> None:
    """Jain's index and the max-min share to nine digits, Gini's coefficient within the stated error."""
    groups = samples()
    rows = {row["g"]: Evenness.of(row.asDict()) for row in evenness.evenness(frame_of(spark, groups), ["g"]).collect()}
    assert rows.keys() == groups.keys()
    for name, values in groups.items():
        found = rows[name]
        assert found.n == len(values)
        assert found.jain == pytest.approx(jain(values), abs=1e-9), name
        assert found.maxmin == pytest.approx(min(values) * len(values) / sum(values), abs=1e-9), name
        assert found.gini is not None
        exact = gini(values)
        assert exact - GINI_ERROR - 1e-9 <= found.gini <= exact + 1e-9, name
    assert rows["two of four"].jain == rows["two of four"].gini == 0.5
    assert rows["small"].gini == pytest.approx(gini(groups["small"]), abs=1e-9)
    assert rows["Zipf"].gini == pytest.approx(gini(groups["Zipf"]), abs=1e-5)


def test_the_lorenz_curve_is_that_of_the_sorted_values(spark: "SparkSession") -> None:
    """101 points from (0, 0) to (1, 1), with an error below the width of a bucket."""
    groups = samples()
    rows = [row.asDict() for row in evenness.lorenz_corners(frame_of(spark, groups), ["g"]).collect()]
    assert len(rows) <= POINTS * len(groups)
    for name, values in groups.items():
        curve = lorenz_curve([row for row in rows if row["g"] == name])
        assert [point[0] for point in curve] == [k / 100 for k in range(101)]
        assert curve[0] == (0, 0)
        assert curve[-1] == (1, 1)
        for k, (_, share) in enumerate(curve):
            assert share == pytest.approx(lorenz(values, Fraction(k, 100)), abs=GINI_ERROR), (name, k)


def test_nothing_has_no_indices(spark: "SparkSession") -> None:
    """Without values or with zeros only, indices are null and there is no curve; null values do not count."""
    frame = frame_of(spark, {"zeros": [0, 0], "none": [None], "one": [None, 5]})
    rows = {row["g"]: Evenness.of(row.asDict()) for row in evenness.evenness(frame, ["g"]).collect()}
    assert rows.keys() == {"zeros", "one"}
    assert (rows["zeros"].jain, rows["zeros"].maxmin, rows["zeros"].gini) == (None, None, None)
    assert rows["zeros"].lowest(1) == 0
    assert (rows["one"].n, rows["one"].jain, rows["one"].gini) == (1, 1, 0)
    assert (Evenness().jain, Evenness().maxmin, Evenness().gini, Evenness().lowest(1)) == (None,) * 4
    assert lorenz_curve([]) == []
    corners = [row.asDict() for row in evenness.lorenz_corners(frame, ["g"]).collect()]
    assert lorenz_curve([row for row in corners if row["g"] == "zeros"]) == []


def test_the_order_of_the_rows_changes_nothing(spark: "SparkSession") -> None:
    """Order and partitions of the values do not change the sums."""
    values = samples()["lognormal 333"]
    shuffled = random.Random(1).sample(values, len(values))
    first = evenness.evenness(frame_of(spark, {"a": values}), ["g"]).collect()
    again = evenness.evenness(frame_of(spark, {"a": shuffled}).repartition(5), ["g"]).collect()
    assert first == again
