"""The broker that all clients share: plain TCP, TLS, and TLS that asks for a client certificate."""

from collections.abc import Iterator

import pytest

from tests.support.broker import Listener, start_broker
from tests.support.certificates import Certificates, make_certificates
from tests.support.process import BrokerProcess


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates of one test session."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[BrokerProcess]:
    """The running broker; it must not have printed a traceback when all is over."""
    listeners = (Listener(), Listener("tls", certificates), Listener("mutual", certificates, True))
    with start_broker(tmp_path_factory.mktemp("broker"), listeners) as running:
        yield running
