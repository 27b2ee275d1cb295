"""The broker under test: one that is running already, or a Sluice that is started for the tests."""

from collections.abc import Iterator

import pytest

from tests.conformance.configured import Configured, ConfiguredBrokers
from tests.conformance.run import Run
from tests.support.brokers import start_sluice
from tests.support.process import Address
from tests.support.wire import WireClient, connected


@pytest.fixture(scope="session")
def run(pytestconfig: pytest.Config) -> Run:
    """What `python -m tests.conformance` was asked for."""
    runs = (plugin for plugin in pytestconfig.pluginmanager.get_plugins() if isinstance(plugin, Run))
    return next(runs, Run())


@pytest.fixture(scope="session")
def given(run: Run) -> Address | None:
    """The address that `--host` names, if it does."""
    return run.address


@pytest.fixture(scope="session")
def address(given: Address | None, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """The address of the broker under test. All tests share it: use client ids and topics that no other test uses."""
    if given:
        yield given
        return
    with start_sluice(tmp_path_factory.mktemp("broker"), workers=run.workers) as broker:
        yield broker.address()


@pytest.fixture(params=[4, 5], ids=["3.1.1", "5.0"])
def version(request: pytest.FixtureRequest) -> int:
    """The protocol version: a test with this fixture runs with both. A test for one version parametrizes it itself."""
    return int(request.param)


@pytest.fixture(scope="session")
def configured_brokers(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConfiguredBrokers]:
    """The brokers that tests have started with settings of their own."""
    with ConfiguredBrokers(tmp_path_factory.mktemp("configured"), run.workers) as brokers:
        yield brokers


@pytest.fixture
def configured(given: Address | None, configured_brokers: ConfiguredBrokers) -> Configured:
    """Start a Sluice with further sections of configuration; a broker that `--host` names cannot be configured."""
    if given:
        pytest.skip("needs settings of its own")
    return configured_brokers.start


@pytest.fixture
def client(address: Address, version: int) -> Iterator[WireClient]:
    """A connected client of this version, with a clean session."""
    with connected(address, version) as connection:
        yield connection
