"""Cells keep their promises while they crash, and links break: seed by seed (CL-1 to CL-6)."""

from collections.abc import Callable

import pytest

from tests.simulation.broken import BROKEN, RARELY_SEEN, breaking
from tests.simulation.world import World

pytestmark = pytest.mark.once

SEEDS = 200
SLOW_SEEDS = 20_000
TOGETHER = 100
"""Seeds of one test."""


def failures(seeds: range) -> list[str]:
    """What is wrong, by seed; `python -m tests.simulation --seed N` shows how it came to that."""
    return [f"seed {seed}: {each}" for seed in seeds for each in World(seed).run()]


def first_failure(seeds: range) -> int | None:
    """The first seed in which something is wrong."""
    return next((seed for seed in seeds if World(seed).run()), None)


@pytest.mark.parametrize("first", range(0, SEEDS, TOGETHER))
def test_all_promises_are_kept(first: int) -> None:
    """Whatever a seed does to cells, links and clients, the books agree at the end, and nothing is left over."""
    assert failures(range(first, first + TOGETHER)) == []


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("first", range(SEEDS, SLOW_SEEDS, 990))
def test_all_promises_are_kept_for_long(first: int) -> None:
    """The same with 20,000 seeds."""
    assert failures(range(first, min(first + 990, SLOW_SEEDS))) == []


@pytest.mark.parametrize("seed", [224, 1818])
def test_a_seed_does_the_same_again(seed: int) -> None:
    """Each step of a run depends on its seed alone."""
    one, other = World(seed, trace=True), World(seed, trace=True)
    one.run()
    other.run()
    assert one.trace
    assert one.trace == other.trace


@pytest.mark.parametrize("break_it", BROKEN)
def test_it_finds_broken_cells(break_it: Callable[[pytest.MonkeyPatch], None]) -> None:
    """Cells that break a rule are found by few seeds."""
    with breaking(break_it):
        assert first_failure(range(200)) is not None


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("break_it", RARELY_SEEN)
def test_it_finds_cells_that_are_rarely_wrong(break_it: Callable[[pytest.MonkeyPatch], None]) -> None:
    """Where little depends on a rule, more seeds find that it is broken."""
    with breaking(break_it):
        assert first_failure(range(2_000)) is not None
