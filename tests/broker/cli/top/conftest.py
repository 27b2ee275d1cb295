"""What the tests of `sluice top` share: a broker that has something to list."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker.admin import wait_for_api
from tests.support.brokers import start_sluice
from tests.support.process import BrokerProcess
from tests.support.wire import connected

EVIL = "=cmd|'/C calc'!A0\x1b[2J\n\u202e[red]x"
"""A client id that would be a formula in a spreadsheet, markup in a table, and control characters in a terminal."""


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with an admin socket in its folder, and clients: one is slow, one has a hostile name."""
    folder = tmp_path_factory.mktemp("top")
    with (
        start_sluice(folder, sections={"admin": {"socket": "a.sock"}}) as running,
        connected(running.address(), 4, client_id="slow") as slow,
        connected(running.address(), 5, client_id=EVIL) as evil,
        connected(running.address(), 5, client_id="sender") as sender,
    ):
        wait_for_api(running, folder / "a.sock")
        slow.subscribe("t", qos=1)
        evil.subscribe("$share/g/t", qos=1)
        for _ in range(40):
            sender.publish("t", b"x" * 100, 1)
        yield running


@pytest.fixture
def path(broker: BrokerProcess) -> Path:
    """The admin socket of this broker."""
    return broker.folder / "a.sock"
