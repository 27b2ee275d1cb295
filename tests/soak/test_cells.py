"""Short runs of `make cells-soak`, and that it finds what is wrong."""

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.soak.cells.latencies import Latencies
from tests.soak.cells.round import CellsPlan, run_cells
from tests.soak.cells.wills import MortalClients

pytestmark = [pytest.mark.once, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("workers", "calm", "stormy"), [(2, 1.0, 4.0), pytest.param(4, 5.0, 30.0, marks=pytest.mark.slow)]
)
def test_killed_cells_lose_nothing(tmp_path: Path, workers: int, calm: float, stormy: float) -> None:
    """kill -9 of a random cell every few seconds: what was acknowledged comes to clients of all cells, in order."""
    outcome = run_cells(tmp_path, CellsPlan(workers, calm, stormy, 4.0, 60.0, seed=7))
    assert outcome.violations == []
    assert outcome.kills
    assert outcome.acknowledged > 50
    assert outcome.wills > 3
    calm_ones, beside = outcome.latencies.split(outcome.kills)
    assert calm_ones or calm < 2
    assert beside


def test_deliveries_of_a_killed_cell_do_not_count(tmp_path: Path) -> None:
    """Compared are those long after any kill, and those soon after one between cells that were not killed."""
    file = tmp_path / "latencies"
    first = "10 1 1 0.5\n12 1 2 0.001\n21 1 2 0.2\n22 2 2 0.003\n26 2 2 0.4\n"
    file.write_text(first + "32 1 1 0.004\n33 2 1 0.3\n39 1 2 0.005\n40 1 1 0.")
    latencies = Latencies()
    with file.open() as lines:
        latencies.read(lines)
    assert latencies.split([(20.0, 1), (30.0, 2)]) == ([0.001, 0.005], [0.003, 0.004])


def test_lost_wills_are_found() -> None:
    """Those that are missing count, unless their cell was killed before they can have been published."""
    sent = {"will/1": [(0, 1.0, 2.0), (1, 3.0, 4.0)], "will/2": [(2, 5.0, 6.0)]}
    clients = cast("MortalClients", SimpleNamespace(sent=sent))
    came: dict[str, list[int]] = defaultdict(list, {"will/1": [1]})
    lost: Any = MortalClients.lost
    assert lost(clients, came, [(2.5, 1), (6.5, 2)]) == []
    found = lost(clients, came, [(6.5, 1)])
    assert [line.partition(" wills")[0] for line in found] == ["will/1: 1 of 2", "will/2: 1 of 1"]
