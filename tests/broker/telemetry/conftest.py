"""What the tests of the export share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker.exporting import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """An exporter that nothing has happened to yet; its directory does not exist."""
    made = Bench(tmp_path / "metrics")
    with made.local:
        yield made
