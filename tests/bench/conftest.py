"""The broker for the tests of the load generator."""

from collections.abc import Iterator

import pytest

from tests.bench.generator import LoadError, build
from tests.support.brokers import start_broker
from tests.support.process import BrokerProcess


@pytest.fixture(scope="session")
def generator() -> None:
    """The load generator is built; without a C compiler the tests that need it are skipped."""
    try:
        build()
    except LoadError as error:
        pytest.skip(str(error))  # what is missing


@pytest.fixture(scope="module")
def broker(generator: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A running broker with default settings."""
    with start_broker(tmp_path_factory.mktemp("bench")) as running:
        yield running
