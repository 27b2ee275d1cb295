"""What the tests of bridges share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker.bridged import Remote, Ring, ring


@pytest.fixture
def remote() -> Iterator[Remote]:
    """A remote broker that does what the test says."""
    with Remote() as made:
        yield made


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Ring]:
    """Up to three brokers, `a`, `b` and `c`."""
    with ring(tmp_path, "abc") as made:
        yield made
