"""Counting by callgrind: every pattern's exchanges come to their ends, and figures are of the messages alone."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench import callgrind
from tests.bench.callgrind import PATTERNS, Pattern
from tests.support.brokers import start_sluice

pytestmark = pytest.mark.once


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
def test_each_is_played(pattern: Pattern, tmp_path: Path) -> None:
    """The clients of each pattern get all messages of all rounds; counting is begun and ended once."""
    switched: list[bool] = []
    with start_sluice(tmp_path, sections=pattern.sections) as broker:
        callgrind.play(broker, broker, replace(pattern, publishers=2 * pattern.together), 2, switched.append)
    assert switched == [True, False]


def test_table() -> None:
    """Of two brokers the table has the medians and their ratio; of one, no ratio."""
    figures = {("pairs-q0", "sluice"): [1_980.0, 2_000.0, 9_000.0], ("pairs-q0", "sluice-before"): [2_500.0]}
    both = callgrind.table(figures, [PATTERNS[0]], ["sluice", "sluice-before"])
    assert both.rows == [["10 pairs, 20 at once, QoS 0", "2,000", "2,500", "0.800"]]
    assert callgrind.table(figures, [PATTERNS[0]], ["sluice"]).rows == [["10 pairs, 20 at once, QoS 0", "2,000"]]
