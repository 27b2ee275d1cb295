"""No connection of a bridge is left to the garbage collector, which does not search what lives long."""

from pathlib import Path
from typing import Any

import pytest

from tests.broker.conftest import Start
from tests.support.broker.admin import listed
from tests.support.broker.bridged import OUT, SOON
from tests.support.broker.garbage import PREPARE, garbage
from tests.support.brokers import HOST, Listener, start_sluice
from tests.support.certificates import Certificates
from tests.support.process import BrokerProcess, free_port
from tests.support.waiting import wait_until
from tests.support.wire import connected

OFTEN = 5
LISTENERS = {"mqtt": "tcp", "mqtts": "tls", "ws": "ws", "wss": "wss"}


@pytest.fixture
def far(start: Start, certificates: Certificates) -> BrokerProcess:
    """A remote broker with a listener of each kind."""
    secured = (Listener("tls", certificates), Listener("wss", certificates, websocket=True))
    return start((Listener(), Listener("ws", websocket=True), *secured))


def near(folder: Path, address: str, **keys: Any) -> BrokerProcess:
    """A broker with a bridge, whose collector runs on request only, on uvloop: transports of asyncio are cycles."""
    own = {"name": "up", "address": address, "topics": [OUT], "client_id": "same"} | SOON | keys
    folder = folder / "near"
    folder.mkdir()
    return start_sluice(folder, sections={"bridges": [own], "admin": {"socket": "a.sock"}}, prepare=PREPARE)


def count(broker: BrokerProcess, key: str) -> int:
    """What the broker says of its bridge."""
    (told,) = listed(broker.folder / "a.sock", "bridges")["items"]
    return int(told[key])


@pytest.mark.parametrize("listener", ["none", "tls", "wss", "ws", "tcp"])
def test_attempts_that_fail(tmp_path: Path, far: BrokerProcess, listener: str) -> None:
    """Nothing is left of an attempt: refused, with a certificate that is not valid, or where no MQTT is."""
    scheme = {"none": "mqtt", "tls": "mqtts", "wss": "wss", "ws": "ws", "tcp": "ws"}[listener]
    port = free_port() if listener == "none" else far.address(listener).port
    with near(tmp_path, f"{scheme}://{HOST}:{port}{'/nothing' if listener == 'ws' else ''}") as broker:
        wait_until(lambda: count(broker, "failures") >= 1, "an attempt, for which modules are loaded")
        garbage(broker)
        before = count(broker, "failures")
        wait_until(lambda: count(broker, "failures") >= before + OFTEN, "more attempts")
        assert garbage(broker) == {}


@pytest.mark.parametrize("scheme", LISTENERS)
def test_connections_that_end(tmp_path: Path, far: BrokerProcess, certificates: Certificates, scheme: str) -> None:
    """Nothing is left of a connection that the remote broker has ended, whatever the transport."""
    tls = {"tls": {"cafile": str(certificates.cafile)}} if LISTENERS[scheme] in ("tls", "wss") else {}
    with near(tmp_path, f"{scheme}://{HOST}:{far.address(LISTENERS[scheme]).port}", **tls) as broker:
        for number in range(1, OFTEN + 2):
            wait_until(lambda: count(broker, "connects") >= number, "the bridge is connected")  # noqa: B023 - at once
            if number == 2:
                garbage(broker)  # of modules that were loaded
            with connected(far.address(), 5, client_id="same"):
                pass  # it has taken over the client id
        assert garbage(broker) == {}
