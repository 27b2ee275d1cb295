"""The benches of flow control: their calculations, and their clients."""

from pathlib import Path
from typing import Any

import pytest

from tests.bench import full_address, shared_group
from tests.bench.flow_clients import Consumer, Loop, Producer
from tests.support.brokers import start_broker

pytestmark = pytest.mark.once


def latency(p99_us: float) -> dict[str, Any]:
    """The part of blast's results that is used."""
    return {"latency": {"p99_us": p99_us}}


def test_jain() -> None:
    """Jain's index is 1 if all values are equal, and lower the more they differ."""
    assert shared_group.jain([5.0] * 9) == pytest.approx(1)
    assert shared_group.jain([9.0] + [0.0] * 8) == pytest.approx(1 / 9)
    assert shared_group.jain([0.0, 0.0]) == 0


@pytest.mark.parametrize(
    ("rates", "holds"),
    [
        ([100.0] * 9, True),
        ([96.0] * 9, True),
        ([94.0] * 9, False),
        ([110.0] * 4 + [100.0] + [90.0] * 4, True),
        ([180.0] + [90.0] * 8, False),
    ],
)
def test_what_a_group_may_notice(rates: list[float], holds: bool) -> None:
    """FC-13: a throughput that is more than five percent lower, or an index below 0.99, is reported."""
    assert shared_group.Outcome([[100.0] * 9], [rates], [1.0]).holds() is holds


def test_what_an_address_may_cost() -> None:
    """FC-24, FC-25: losses, too much memory, and added latency of others are each reported."""
    scenario = full_address.Scenario(1_000_000, 64_000, 1000, 1000, 500, 1, 1)
    good = full_address.Outcome([latency(1000)], [latency(1900)], 10, 10, True, 0, scenario.bound)
    assert set(full_address.claims(good, scenario).values()) == {True}
    good.taken = 9
    good.rss_most += 1
    good.beside = [latency(2001)]
    assert set(full_address.claims(good, scenario).values()) == {False}


def test_clients(tmp_path: Path) -> None:
    """A producer and a consumer with a rate transfer every message once and in order."""
    with start_broker(tmp_path) as broker:
        consumer = Consumer(broker.address(), "flow", 5000)
        producer = Producer(broker.address(), "flow", 16, 30, lambda sent: sent < 300)
        loop = Loop([producer, consumer])
        loop.run(20, lambda: len(consumer.numbers) == 300 and producer.acknowledged == 300)
        loop.close()
    assert consumer.numbers == list(range(300))
    assert (producer.sent, producer.acknowledged) == (300, 300)
