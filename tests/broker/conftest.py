"""The brokers that these tests share, and how to start one with settings of its own."""

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker.restarting import Restart
from tests.support.brokers import Listener, sluice_config, start_sluice
from tests.support.certificates import Certificates, make_certificates
from tests.support.process import Address, BrokerProcess

Start = Callable[..., BrokerProcess]


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates of one test session."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[BrokerProcess]:
    """A broker with default settings; it must not have printed a traceback when all is over."""
    listeners = (Listener(), Listener("tls", certificates), Listener("mutual", certificates, True))
    with start_sluice(tmp_path_factory.mktemp("broker"), listeners) as running:
        yield running


@pytest.fixture(scope="session")
def address(broker: BrokerProcess) -> Address:
    """Where the shared broker takes plain TCP."""
    return broker.address()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a broker with further sections of configuration; it is stopped, and has to be healthy, at the end."""
    with ExitStack() as stack:

        def start_one(listeners: tuple[Listener, ...] = (Listener(),), **options: Any) -> BrokerProcess:
            return stack.enter_context(start_sluice(tmp_path, listeners, **options))

        yield start_one


@pytest.fixture
def run(start: Start, tmp_path: Path) -> Restart:
    """Start a broker on a journal; if one runs already, it is killed before."""
    running: list[BrokerProcess] = []

    def run_again(how: signal.Signals = signal.SIGKILL) -> BrokerProcess:
        while running:
            running[-1].ask_to_end(how)
            running.pop().stop()
        running.append(start(sections={"persistence": {"directory": str(tmp_path / "journal")}}))
        return running[-1]

    return run_again


__all__ = ["Start", "sluice_config"]
