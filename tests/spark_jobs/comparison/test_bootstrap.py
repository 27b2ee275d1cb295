"""Comparing short runs by a bootstrap of blocks: what is found, what is not, and what the interval has in it."""

import math
import random
from typing import Any

import numpy as np
import pytest

from spark_jobs.comparison.bootstrap import FEWEST, Pooled, compared, p99, share
from spark_jobs.comparison.pairs import Effect
from spark_jobs.measures.histogram import bucket_of, percentile
from spark_jobs.metrics import BUCKETS

pytestmark = pytest.mark.once

WINDOWS = 40
SENT = share(lambda row: row["sent"], lambda row: row["offered"])
WAIT = p99("wait")


def counted(values: list[float]) -> dict[str, Any]:
    """A window with a histogram of these values."""
    counts = [0] * BUCKETS
    for value in values:
        counts[bucket_of(int(value))] += 1
    return {"wait": counts}


def noisy(rng: random.Random, level: float = 3.0, phi: float = 0.5) -> list[dict[str, Any]]:
    """Windows of a delivery ratio around 95 %, each like its neighbour."""
    noise, found = 0.0, []
    for _ in range(WINDOWS):
        noise = phi * noise + rng.gauss(0, 0.5)
        found.append({"sent": 1000 / (1 + math.exp(-level - noise)), "offered": 1000})
    return found


def stalling(every: int, stall_us: float, offset: int = 0) -> list[dict[str, Any]]:
    """Windows of 60 waits of 1 ms; those of a stall arrive with the last window of each period."""
    rows = []
    for place in range(WINDOWS):
        in_stall = (place + offset) % every == every - 1
        rows.append(counted([1000.0] * 60 + [stall_us] * (30 if in_stall else 0)))
    return rows


def test_long_stalls_that_have_become_short_are_found() -> None:
    """Stalls of 7 s four times, and of 1 s: the effect is the change of the p99 of all, with the sign that it has."""
    verdict, effect = compared(WAIT, stalling(10, 7e6), stalling(10, 1e6), True)
    assert verdict.p_value is not None
    assert verdict.p_value < 0.005
    assert effect is not None
    before, after = (percentile(np.sum([row["wait"] for row in rows], axis=0).tolist(), 990) for rows in (
        stalling(10, 7e6), stalling(10, 1e6)
    ))
    assert before is not None
    assert after is not None
    assert effect.value == pytest.approx(after.value / before.value - 1)
    assert effect.low <= effect.value <= effect.high < 0


def test_one_stall_may_be_chance() -> None:
    """A single stall makes the p99 7,000 times as long, and any other hour could have been without it."""
    verdict, effect = compared(WAIT, stalling(10**6, 7e6), stalling(WINDOWS, 7e6), True)
    assert verdict.p_value is not None
    assert verdict.p_value > 0.05
    assert effect is not None
    assert effect.value > 1000
    assert effect.low <= 0 < effect.high


def test_equal_runs_are_not_accused_and_worse_ones_are_found() -> None:
    """Without a difference at most 8 of 100 are said to differ, and none at p < 0.005; two points less is found."""
    alarms = sure = found = covered = 0
    for seed in range(100):
        rng = random.Random(seed)
        baseline = noisy(rng)
        verdict, effect = compared(SENT, baseline, noisy(rng), False)
        assert verdict.p_value is not None
        assert effect is not None
        alarms += verdict.p_value < 0.05
        sure += verdict.p_value < 0.005
        covered += effect.low <= 0 <= effect.high
        worse, _ = compared(SENT, baseline, noisy(rng, level=2.0), False)
        assert worse.p_value is not None
        found += worse.p_value < 0.05
    assert (alarms <= 8, sure) == (True, 0)
    assert covered >= 92
    assert found >= 95


def test_too_few_windows_or_none_with_a_value_give_no_verdict() -> None:
    """Neither p nor an effect, but the numbers of windows."""
    rows = noisy(random.Random(1))
    for few in (rows[: FEWEST - 1], [{"sent": 0, "offered": 0}] * WINDOWS):
        verdict, effect = compared(SENT, rows, few, False)
        assert (verdict.p_value, verdict.n_baseline, verdict.n, effect) == (None, WINDOWS, len(few), None)


def test_a_range_that_never_changes() -> None:
    """Equal values cannot differ; values that differ without any noise surely do."""
    one = Pooled(lambda row: [row["n"]], lambda sums: sums[:, 0])
    same, effect = compared(one, [{"n": 1}] * WINDOWS, [{"n": 1}] * WINDOWS, True)
    assert (same.p_value, effect) == (1, Effect(0, 0, 0, True))
    other, effect = compared(one, [{"n": 1}] * WINDOWS, [{"n": 2}] * WINDOWS, True)
    assert other.p_value is not None
    assert other.p_value < 0.005
    assert effect is not None
    assert effect.value == pytest.approx(1)
