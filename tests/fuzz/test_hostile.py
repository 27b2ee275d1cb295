"""A broker under attack continues to serve, and has the same memory and connections afterwards."""

from pathlib import Path

from tests.fuzz.hostile import MIB, Plan, assault
from tests.support.brokers import start_broker

PLAN = Plan(connections=400, at_once=50, seed=20)
MOST_GROWTH = 16 * MIB


def test_hostile_connections(tmp_path: Path) -> None:
    """Malformed, broken, silent and greedy clients harm neither the broker nor the honest client beside them."""
    with start_broker(tmp_path) as broker:
        outcome = assault(broker, PLAN)
    assert not outcome.failures
    assert outcome.grown < MOST_GROWTH
    assert outcome.round_trips
