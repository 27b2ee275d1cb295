"""The bench of memory: what it measures on a small broker, and when it says that a limit is exceeded."""

import resource
from pathlib import Path

import pytest
import typer

from tests.bench.memory import COSTS, Cost, Measured, openable, topic
from tests.support.brokers import start_broker

pytestmark = pytest.mark.once


@pytest.mark.parametrize("cost", COSTS, ids=lambda cost: cost.name)
def test_each_is_measured(cost: Cost, tmp_path: Path) -> None:
    """A few hundred of each make a broker larger, by no more than some kilobytes for one."""
    with start_broker(tmp_path) as broker:
        assert 0 < cost.measure(broker, 1_000) < 20_000


def test_what_is_missed() -> None:
    """Costs whose median is above the limit are named."""
    figures = {(cost.name, "sluice"): [cost.most, cost.most + 1, cost.most - 1] for cost in COSTS}
    figures["retained", "sluice"] = [451.0, 460.0, 10.0]
    assert Measured(figures).missed("sluice") == ["retained"]


def test_topics_are_as_long_as_each_other() -> None:
    """A topic's bytes do not depend on its number."""
    assert {len(topic(number)) for number in (0, 999_999)} == {24}


def test_more_connections_than_files() -> None:
    """More connections than the process may open files are refused at once."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with pytest.raises(typer.BadParameter, match="is the most that"):
        openable(hard)
    assert openable(1_000) == 1_000
