"""The broker that all clients share: plain TCP, TLS, and TLS that requires a client certificate."""

from collections.abc import Iterator

import pytest

from tests.clients.cases import Peers, Surroundings, listeners
from tests.support.brokers import start_broker
from tests.support.certificates import make_certificates


@pytest.fixture(scope="session")
def around(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surroundings]:
    """The running broker; it must not have printed a traceback at the end."""
    certificates = make_certificates(tmp_path_factory.mktemp("certificates"))
    folder = tmp_path_factory.mktemp("broker")
    with start_broker(folder, listeners(certificates)) as broker, Peers() as peers:
        yield Surroundings(broker, certificates, peers)
