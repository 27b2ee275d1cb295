"""What the tests of the API share: brokers with an admin socket, and one that is served over TCP with tokens."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.broker.events import wait_for_event
from tests.support.brokers import start_sluice
from tests.support.process import Address, BrokerProcess

VIEWER, OPERATOR = "token of a viewer", "token of an operator"


def admin_section(folder: Path) -> dict[str, object]:
    """The API on a Unix socket in the folder, and over TCP with two tokens."""
    tokens = [
        {"name": "grafana", "role": "viewer", "sha256": sha256(VIEWER.encode()).hexdigest()},
        {"name": "ann", "role": "operator", "sha256": sha256(OPERATOR.encode()).hexdigest()},
    ]
    return {"socket": str(folder / "a.sock"), "listen": "127.0.0.1:0", "tokens": tokens}


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that serves the API on a Unix socket, and over TCP with two tokens."""
    folder = tmp_path_factory.mktemp("api")
    with start_sluice(folder, sections={"admin": admin_section(folder)}) as running:
        wait_for_event(running, "admin_listening")
        yield running


@pytest.fixture
def path(broker: BrokerProcess) -> Path:
    """Its socket."""
    return broker.folder / "a.sock"


@pytest.fixture
def tcp(broker: BrokerProcess) -> Address:
    """Where it is served over TCP."""
    (event,) = wait_for_event(broker, "admin_listening")
    return Address(str(event["host"]), int(str(event["port"])))
