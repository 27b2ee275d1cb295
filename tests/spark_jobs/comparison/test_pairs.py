"""Comparing weeks with a daily cycle: pairs of hours, the signed rank test, and the size of the effect."""

import math
import random
from datetime import datetime
from itertools import product
from zoneinfo import ZoneInfo

import pytest

from spark_jobs.comparison.compare import NOT_SIGNIFICANT, SIGNIFICANT, compare
from spark_jobs.comparison.pairs import (
    CYCLES,
    DAY_US,
    HOUR_US,
    effect_of_medians,
    effect_of_pairs,
    paired,
    signed_rank,
    without_gaps,
)
from spark_jobs.measures.histogram import bucket_of, percentile
from spark_jobs.measures.result import Result
from spark_jobs.metrics import BUCKETS
from tests.spark_jobs.comparison.test_compare import result_of_hours

pytestmark = pytest.mark.once

WEEK = 7 * 24


def week(rng: random.Random, *, worse: float = 1.0, start: int = 0, hours: int = WEEK) -> dict[int, float | None]:
    """Hourly p99 of a week: three times as high by day as by night, lower on Sunday, with autocorrelated noise.

    Each is the value of its bucket, as the report knows it.
    """
    noise = 0.0
    found: dict[int, float | None] = {}
    for hour in range(start, start + hours):
        noise = 0.4 * noise + rng.gauss(0, 0.15)
        cycle = math.exp(0.55 * math.sin(2 * math.pi * hour / 24)) * (0.6 if hour // 24 % 7 == 3 else 1)
        found[hour * HOUR_US] = in_bucket(1000 * worse * cycle * math.exp(noise))
    return found


def in_bucket(value: float) -> float:
    """The value that a histogram with nothing else has."""
    counts = [0] * BUCKETS
    counts[bucket_of(round(value))] = 1
    found = percentile(counts, 990)
    assert found is not None
    return found.value


def verdict(before: dict[int, float | None], after: dict[int, float | None]) -> str:
    """The report's verdict on the p99 of QoS 1, among all other measures."""
    table = compare(_result(before), _result(after)).to_pylist()
    [row] = [row for row in table if row["measure"] == "ack_qos1_p99"]
    return str(row["verdict"])


def _result(p99: dict[int, float | None]) -> Result:
    rng = random.Random(len(p99))
    hours = [
        {"hour_us": hour_us, "ack_qos1_p99": value, "delivery_ratio": rng.uniform(0.9, 1)}
        for hour_us, value in p99.items()
    ]
    return result_of_hours("run", hours)


def test_a_worse_week_is_found_and_an_equal_one_is_not_accused() -> None:
    """20 % more p99 than the week before: found in at least 95 of 100 draws; no difference: not found in 95."""
    found = accused = 0
    for seed in range(100):
        rng = random.Random(seed)
        before, worse, same = (week(rng, worse=factor, start=at) for factor, at in ((1, 0), (1.2, WEEK), (1, 2 * WEEK)))
        found += verdict(before, worse) == SIGNIFICANT
        accused += verdict(before, same) != NOT_SIGNIFICANT
    print(f"found {found} of 100; {accused} of 100 accused")
    assert found >= 95
    assert accused <= 5


def test_a_day_is_compared_with_the_day_before() -> None:
    """Without the same weekday, hours of the same time are compared: 60 % more is found in at least 80 of 100 draws."""
    found = 0
    for seed in range(100):
        rng = random.Random(seed)
        pairs = paired(week(rng, hours=24), week(rng, worse=1.6, start=24, hours=24), True)
        assert pairs is not None
        assert pairs.of == CYCLES[1][1]
        p = signed_rank(pairs.differences).p_value
        found += p is not None and p < 0.05
    assert found >= 80


@pytest.mark.parametrize(("hours", "phi"), list(product((24, WEEK), (0.0, 0.5, 0.8))))
def test_false_alarms_are_rare_where_neighbours_are_alike(hours: int, phi: float) -> None:
    """In 300 series of differences around 0, at most 1 in 8 is said to differ."""
    alarms = 0
    for seed in range(300):
        rng = random.Random(seed)
        value, series = 0.0, []
        for _ in range(hours):
            value = phi * value + rng.gauss()
            series.append(value)
        p = signed_rank(series).p_value
        alarms += p is not None and p < 0.05
    assert alarms <= 300 / 8


def test_the_effect_is_within_its_interval() -> None:
    """The real change is inside the interval in at least 90 of 100 draws, of pairs and of medians."""
    inside = 0
    for seed in range(100):
        rng = random.Random(seed)
        pairs = paired(week(rng), week(rng, worse=1.2, start=WEEK), True)
        assert pairs is not None
        effect = effect_of_pairs(pairs)
        assert effect.relative
        assert effect.low <= effect.value <= effect.high
        inside += effect.low <= 0.2 <= effect.high
    assert inside >= 90
    rng = random.Random(1)
    inside = 0
    for _ in range(100):
        one, two = ([rng.gauss(mean, 1) for _ in range(40)] for mean in (5, 6))
        found = effect_of_medians(one, two, False)
        assert found is not None
        inside += found.low <= 1 <= found.high
    assert inside >= 90
    assert effect_of_medians([1.0] * 7, [1.0] * 40, False) is None


def test_values_by_hand() -> None:
    """Ten differences to one side: p = 2 / 2**7 with seven of them, by the exact distribution; zeros do not count."""
    gap = [item for value in (1, 2, 3, 4, 5, 6, 7, 0, 0) for item in (float(value), None)]
    assert signed_rank(gap).p_value == 2 / 2**7
    assert signed_rank([0.0] * 9).p_value == 1
    assert signed_rank([1.0] * 7).p_value is None  # fewer than eight
    # 1 to 8, only the 3 below 0: W = 33, mean 18, variance 51, z = 14.5 / 7.1414, p = 0.0423
    mixed = [item for value in (1, 2, -3, 4, 5, 6, 7, 8) for item in (float(value), None)]
    assert signed_rank(mixed).p_value == pytest.approx(0.0423, abs=2e-4)


def test_pairs_follow_the_clocks_of_people() -> None:
    """Clocks change on 25 October 2026 in Berlin: a daily cycle by its clocks stays the same, by UTC it shifts."""
    berlin = ZoneInfo("Europe/Berlin")
    start = int(datetime(2026, 10, 12, tzinfo=berlin).timestamp()) // 3600

    def cycle(first: int) -> dict[int, float | None]:
        """Hours of a week, with their local hour as value."""
        moments = {hour * HOUR_US: datetime.fromtimestamp(hour * 3600, berlin) for hour in range(first, first + WEEK)}
        return {time_us: 1.0 + moment.hour for time_us, moment in moments.items()}

    before, after = cycle(start), cycle(start + 2 * WEEK + 1)  # the week between has an hour more
    pairs, shifted = paired(before, after, True, berlin), paired(before, after, True)
    assert pairs is not None
    assert set(pairs.differences) == {0.0}
    assert shifted is not None
    assert 0.0 not in shifted.differences


def test_pairs_are_of_the_same_weekday_and_time() -> None:
    """Several baseline weeks are averaged; hours without a partner are left out; gaps stay gaps."""
    baseline: dict[int, float | None] = {hour * HOUR_US: 1.0 for hour in range(WEEK)}
    baseline |= {(hour + WEEK) * HOUR_US: 3.0 for hour in range(WEEK)}
    run: dict[int, float | None] = {(2 * WEEK + hour) * HOUR_US: 5.0 for hour in (*range(6), *range(10, 14))}
    pairs = paired(baseline, run, False)
    assert pairs is not None
    assert (pairs.of, pairs.differences) == (CYCLES[0][1], [3.0] * 6 + [None] + [3.0] * 4)
    assert paired({0: 1.0}, {DAY_US: 2.0}, False) is None
    assert without_gaps({3: 1.0, 1: 2.0}, 1) == [2.0, None, 1.0]
