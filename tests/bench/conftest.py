"""The broker for the tests of the load generator."""

from collections.abc import Iterator

import pytest

from tests.bench.generator import LoadError, build
from tests.support.brokers import start_broker
from tests.support.process import BrokerProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A running broker with default settings; without a C compiler these tests are skipped."""
    try:
        build()
    except LoadError as error:
        pytest.skip(str(error))
    with start_broker(tmp_path_factory.mktemp("bench")) as running:
        yield running
