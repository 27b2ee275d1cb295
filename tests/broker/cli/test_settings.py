"""`sluice ctl listeners` and `sluice ctl configuration`: how a broker that runs is set."""

import json
from pathlib import Path

import pytest

from tests.broker.cli.test_ctl import ctl
from tests.broker.conftest import Start
from tests.support.broker.events import wait_for_event
from tests.support.broker.reloads import reload, rewrite
from tests.support.brokers import Listener
from tests.support.certificates import Certificates

pytestmark = pytest.mark.once


@pytest.fixture
def path(start: Start, tmp_path: Path, certificates: Certificates) -> Path:
    """The socket of a broker with three listeners."""
    listeners = (Listener(), Listener("tls", certificates), Listener("web", websocket=True))
    broker = start(listeners, sections={"admin": {"socket": "a.sock"}, "session": {"max_inflight": 7}})
    wait_for_event(broker, "admin_socket")
    rewrite(broker, mqtt={"maximum_qos": 1})
    assert list(reload(broker).json["restart"]) == ["mqtt.maximum_qos"]
    return tmp_path / "a.sock"


def run(path: Path, *arguments: str) -> str:
    """What a command prints."""
    status, out, err = ctl(*arguments, "--socket", path)
    assert (status, err) == (0, "")
    return out


def test_listeners(path: Path) -> None:
    """Each socket is a line with its port and what it speaks; --json has all of it."""
    printed = [line.split("  ") for line in run(path, "listeners").splitlines()]
    assert [(name, kind) for name, _, kind in printed] == [("tcp", "plain"), ("tls", "TLS"), ("web", "WebSocket /mqtt")]
    objects = json.loads(run(path, "listeners", "--json"))
    assert [f"{each['host']}:{each['port']}" for each in objects] == [place for _, place, _ in printed]


def test_configuration(path: Path) -> None:
    """Each key is a line with its source: the file with its line, or default. What waits for a restart is as before."""
    lines = run(path, "configuration").splitlines()
    (line,) = [line for line in lines if line.startswith("session.max_inflight: 7 ")]
    assert "sluice.yaml:" in line.partition("#")[2]
    assert run(path, "configuration", "mqtt.maximum_qos").startswith("mqtt.maximum_qos: 2")
    assert run(path, "configuration", "mqtt.retain_available") == "mqtt.retain_available: true  # default\n"
    changed = run(path, "configuration", "session", "--changed").splitlines()
    assert [line.split()[0] for line in changed] == ["session.max_inflight:"]
    (one,) = json.loads(run(path, "configuration", "session.max_inflight", "--json"))
    assert (one["key"], one["value"]) == ("session.max_inflight", 7)


def test_refusals(path: Path) -> None:
    """A key that does not exist, or a broker that does not answer, ends the command with 1 and the reason."""
    assert ctl("configuration", "sesion", "--socket", path) == (1, "", "sluice: there is no key sesion\n")
    assert "there is no such socket" in ctl("listeners", "--socket", path.with_name("none"))[2]
