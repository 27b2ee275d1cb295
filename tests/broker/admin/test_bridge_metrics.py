"""/metrics about bridges: series of their own, and their sessions among those of all."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.publish import Publish
from tests.broker.admin.test_prometheus import Metrics
from tests.broker.conftest import Start
from tests.support.broker.bridged import SOON, Remote
from tests.support.broker.events import wait_for_event
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import connected

pytestmark = pytest.mark.once

ONE: Any = {props.RECEIVE_MAXIMUM: 1}
GAUGES = ("connected", "queue_deliveries", "queue_bytes", "oldest_seconds")
COUNTERS = ("connects", "sent", "acknowledged", "received", "dropped")


@pytest.fixture
def remote() -> Iterator[Remote]:
    """A remote broker that does what the test says."""
    with Remote() as made:
        yield made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The admin socket."""
    return tmp_path / "a.sock"


@pytest.fixture
def broker(start: Start, remote: Remote, path: Path) -> BrokerProcess:
    """A broker with two bridges; nobody answers `down`."""
    own = {"address": remote.address, "topics": [{"filter": "out/#"}, {"filter": "in/#", "direction": "in"}]}
    bridges = [{"name": "up"} | own | SOON, {"name": "down", "address": "127.0.0.1:1", "topics": [{"filter": "x"}]}]
    running = start(sections={"admin": {"socket": str(path)}, "bridges": bridges})
    wait_for_event(running, "admin_socket")
    return running


def of(path: Path, *names: str, bridge: str = "up") -> list[float]:
    """The values of metrics of a bridge."""
    metrics = Metrics(path)
    return [metrics.value(f"sluice_bridge_{name}", bridge=bridge) for name in names]


def refused(path: Path) -> list[float]:
    """What was refused, out and in."""
    metrics = Metrics(path)
    return [metrics.value("sluice_bridge_refused_total", bridge="up", direction=way) for way in ("out", "in")]


def test_they_are_there_from_the_start(broker: BrokerProcess, path: Path) -> None:
    """A rate needs a zero before the first: each series is there before a bridge has ever been connected."""
    names = [*GAUGES, *(f"{name}_total" for name in COUNTERS)]
    for bridge in ("up", "down"):
        assert of(path, *names, bridge=bridge) == [0] * len(names)
        assert of(path, "down", bridge=bridge) == [1]
    assert refused(path) == [0, 0]
    sent = Metrics(path).value("sluice_deliveries_sent_total", listener="$bridge/up", qos=1)
    assert sent == 0


def test_what_they_count(broker: BrokerProcess, remote: Remote, path: Path) -> None:
    """What waits, for how long, and what was sent, acknowledged, received and refused, is that of the bridge."""
    connection = remote.accepted(properties=ONE, filters=1)
    with connected(broker.address(), 5) as client:
        for payload in (b"1", b"22", b"333", b"4444"):
            client.publish("out/1", payload, 1)
    connection.take(1)
    connection.send(Puback(connection.expect(Publish).packet_id, reason_codes.NOT_AUTHORIZED))
    connection.expect(Publish)
    for number, topic in enumerate((b"in/1", b"other"), 1):
        connection.send(Publish(topic, b"x", 1, False, None, number))
        connection.expect(Puback)
    counts = [f"{name}_total" for name in COUNTERS]
    wait_until(lambda: of(path, *counts) == [1, 3, 2, 2, 0], "all is counted")
    assert refused(path) == [1, 1]
    assert of(path, "connected", "down", "queue_deliveries", "queue_bytes") == [1, 0, 1, 4]
    age = of(path, "oldest_seconds")
    wait_until(lambda: of(path, "oldest_seconds") > age, "it waits for longer")
    connection.close()
    wait_until(lambda: of(path, "connected", "down") == [0, 1], "it is not connected")


@pytest.mark.parametrize("start_type", ["lazy", "once"])
def test_who_need_not_be_connected_is_not_down(start: Start, remote: Remote, path: Path, start_type: str) -> None:
    """A bridge that has nothing to send, or was to connect once only, is as it should be."""
    own = {"name": "up", "address": remote.address, "topics": [{"filter": "out/#"}], "start": start_type}
    wait_for_event(start(sections={"admin": {"socket": str(path)}, "bridges": [own]}), "admin_socket")
    if start_type == "once":
        remote.accepted()
        wait_until(lambda: of(path, "connected") == [1], "it is connected")
        remote.close()
    wait_until(lambda: of(path, "connected", "down") == [0, 0], "it is not connected, and not down")


def test_its_session_has_a_listener_of_its_own(broker: BrokerProcess, remote: Remote, path: Path) -> None:
    """A bridge counts as a session and a connection, and what it does is not added to what clients of listeners do."""
    connection = remote.accepted(filters=1)
    with connected(broker.address(), 5, client_id="publisher") as client:
        client.publish("out/1", b"x", 1)
        connection.take(1)
        own: Any = {"listener": "$bridge/up", "qos": 1}
        wait_until(lambda: Metrics(path).value("sluice_deliveries_acknowledged_total", **own) == 1, "it is counted")
        metrics = Metrics(path)
        assert metrics.value("sluice_deliveries_acknowledged_total", listener="tcp", qos=1) == 0
        for listener in ("$bridge/up", "tcp"):
            assert metrics.value("sluice_sessions", listener=listener, connected="true") == 1
        assert metrics.value("sluice_connections") == 2
        assert metrics.value("sluice_sessions", listener="$bridge/down", connected="false") == 1


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_promtool(broker: BrokerProcess, path: Path) -> None:
    """Prometheus's own check finds nothing wrong with the names, and the labels of listeners such as `$bridge/up`."""
    text = Metrics(path).text
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    assert 'listener="$bridge/up"' in text
