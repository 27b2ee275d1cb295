"""A short round of `make bridge-soak`, and that its ledger finds planted errors."""

import asyncio
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.soak.bridge.ledger import Publisher, violations
from tests.soak.bridge.round import run_round


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_a_short_round_loses_nothing(tmp_path: Path, version: str) -> None:
    """Faults of the network, and a kill -9 of each broker."""
    outcome = asyncio.run(run_round(tmp_path, random.Random(7), 4, 1, 300, version))
    assert outcome.violations == []
    assert outcome.acknowledged > 100
    assert outcome.connects > 1


@pytest.mark.parametrize(
    ("qos", "came", "found"),
    [
        (1, [0, 1, 1, 2], ""),
        (1, [0, 2], "1 acknowledged messages are lost"),
        (2, [0, 1, 1, 2], "came twice"),
        (1, [0, 2, 1], "1 came after 2"),
        (0, [0, 2], ""),
    ],
)
def test_the_ledger_finds_what_is_wrong(qos: int, came: list[int], found: str) -> None:
    """Losses, copies at QoS 2, and another order."""
    publisher: Any = SimpleNamespace(topic="t", qos=qos, acknowledged={0, 1, 2})
    wrong = violations(cast("Publisher", publisher), came)
    assert [found in each for each in wrong] == ([True] if found else [])
