"""A short soak: one round without overflows, and one with short queues. `make soak` continues."""

from pathlib import Path

import pytest

from tests.soak.plan import POLICIES, draw
from tests.soak.round import run_round

pytestmark = pytest.mark.once

SEED = 4


@pytest.mark.parametrize(("number", "restarts"), [pytest.param(0, 0, marks=pytest.mark.slow), (1, 0), (4, 2)])
def test_round(tmp_path: Path, number: int, restarts: int) -> None:
    """FC-1 to FC-15, FC-20 to FC-27: all rules hold on a bad network, and the counters balance."""
    plan = draw(SEED, number, sessions=40, seconds=4, rate=400)
    assert plan.restarts == restarts
    outcome = run_round(plan, tmp_path)
    assert [str(violation) for violation in outcome.violations] == [], outcome.plan
    assert outcome.messages > 0
    assert outcome.received > outcome.messages


def test_same_plan() -> None:
    """The same seed gives the same round, another seed another round."""
    assert draw(7, 3, 30, 5, 100) == draw(7, 3, 30, 5, 100)
    assert draw(7, 3, 30, 5, 100) != draw(8, 3, 30, 5, 100)


def test_variety() -> None:
    """A dozen rounds see every policy of full addresses, both kinds of round and each kind of overflow."""
    plans = [draw(1, number, 30, 5, 100) for number in range(12)]
    policies = [{address["full_policy"] for address in plan.addresses} for plan in plans if plan.rules.lossless]
    assert policies == [{policy} - {""} if policy != "mixed" else set(POLICIES) - {"mixed", ""} for policy in POLICIES]
    assert {plan.sections["session"].get("mqueue_overflow") for plan in plans} >= {None, "drop_oldest", "drop_newest"}
