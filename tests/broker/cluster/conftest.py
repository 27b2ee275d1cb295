"""Brokers with two cells."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker.cells import start_cells
from tests.support.process import BrokerProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One without a journal."""
    with start_cells(tmp_path_factory.mktemp("cells")) as broker:
        yield broker


@pytest.fixture
def journaled(tmp_path: Path) -> Iterator[BrokerProcess]:
    """One with a journal."""
    with start_cells(tmp_path, sections={"persistence": {"directory": str(tmp_path / "journal")}}) as broker:
        yield broker
