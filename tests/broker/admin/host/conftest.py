"""A host with three cells that serves the admin API on a Unix socket, and over TCP with two tokens."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.admin.api.conftest import admin_section
from tests.support.broker.admin import listed
from tests.support.broker.cells import start_cells
from tests.support.broker.events import events
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until

CELLS = (1, 2, 3)


def wait_for_retained(path: Path, topic: str, count: int) -> None:
    """Wait until each cell has so many retained messages with this part in their topics."""

    def there() -> bool:
        return all(listed(path, "retained", f"topic={topic}&cell={cell}")["matched"] == count for cell in CELLS)

    wait_until(there, "the other cells")


@pytest.fixture(scope="package")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Three cells without a journal, for tests that leave them as they are."""
    folder = tmp_path_factory.mktemp("host")
    with start_cells(folder, len(CELLS), {"admin": admin_section(folder)}) as running:
        yield running


@pytest.fixture
def path(host: BrokerProcess) -> Path:
    """The socket of the host."""
    return host.folder / "a.sock"


@pytest.fixture
def tcp(host: BrokerProcess) -> Address:
    """Where it is served over TCP."""
    (event,) = events(host, "admin_listening")
    return Address(str(event["host"]), int(str(event["port"])))
