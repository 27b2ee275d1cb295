"""What the tests of pages over sockets share."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker.paged import Subscribe, Subscriber


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where the journal is, which has the pages."""
    return tmp_path / "journal"


@pytest.fixture
def subscribe() -> Iterator[Subscribe]:
    """Connect and subscribe; all are closed at the end."""
    with ExitStack() as stack:

        def subscribe_one(*arguments: Any) -> Subscriber:
            subscriber = Subscriber(*arguments)
            stack.callback(subscriber.client.close)
            return subscriber

        yield subscribe_one
