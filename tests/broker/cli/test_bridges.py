"""`sluice ctl bridges` and `sluice ctl reconnect`: what they print of bridges, and have one do."""

import json
from pathlib import Path
from typing import Any

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.connack import Connack
from protocol.suback import Suback
from protocol.subscribe import Subscribe
from tests.broker.cli.test_ctl import ctl
from tests.broker.conftest import Start
from tests.support.broker.admin import wait_for_api
from tests.support.broker.bridged import SOON, Remote
from tests.support.broker.events import wait_for_event
from tests.support.process import BrokerProcess
from tests.support.wire import connected

pytestmark = pytest.mark.once

LATER: Any = {"reconnect_min": "1h", "reconnect_max": "1h"}


def running(start: Start, path: Path, *bridges: dict[str, Any]) -> BrokerProcess:
    """A broker with these bridges."""
    broker = start(sections={"admin": {"socket": str(path)}, "bridges": list(bridges)})
    wait_for_api(broker, path)
    return broker


def lines(path: Path) -> list[str]:
    """What the command prints."""
    status, out, err = ctl("bridges", "--socket", path)
    assert (status, err) == (0, "")
    return out.splitlines()


def test_what_is_printed(start: Start, tmp_path: Path) -> None:
    """A line has the state, what waits, for how long, and why it is down, whatever the remote broker says."""
    path = tmp_path / "a.sock"
    with Remote() as near, Remote() as far:
        up = {"name": "up", "address": near.address, "topics": [{"filter": "in", "direction": "in"}]} | SOON
        down = {"name": "down", "address": far.address, "topics": [{"filter": "out"}]} | LATER
        broker = running(start, path, up, down)
        connection = near.accepted()
        connection.send(Suback(connection.expect(Subscribe).packet_id, [reason_codes.NOT_AUTHORIZED]))
        hostile: Any = {props.REASON_STRING: "who\u202eare you"}
        far.next().send(Connack(False, reason_codes.NOT_AUTHORIZED, hostile))
        for event in ("bridge_not_subscribed", "bridge_failed"):
            wait_for_event(broker, event)
        with connected(broker.address(), 5) as client:
            client.publish("out", b"x", 1)
        head, first, second = ([cell.strip() for cell in line.split("  ") if cell] for line in lines(path))
        assert head == ["bridge", "state", "remote broker", "queue", "oldest", "sent", "refused", "why"]
        assert (first[0], first[1].partition(",")[0], first[2:4]) == ("down", "waiting", [f"mqtt://{far.address}", "1"])
        assert (first[-1].endswith("(who\\u202eare you)"), second[-1]) == (True, "the remote broker refuses in")
        assert (second[0], second[1].startswith("connected for "), second[3:5]) == ("up", True, ["0", "-"])


def test_json(start: Start, tmp_path: Path) -> None:
    """--json and the list have all that the API has; the list can be filtered."""
    path = tmp_path / "a.sock"
    with Remote() as remote:
        own = {"name": "up", "address": remote.address, "topics": [{"filter": "out"}]} | SOON
        broker = running(start, path, own)
        remote.accepted()
        wait_for_event(broker, "bridge_connected")
        (row,) = json.loads(ctl("bridges", "--json", "--socket", path)[1])
        assert (row["bridge"], row["state"], row["connects"]) == ("up", "connected", 1)
        listed = json.loads(ctl("list", "bridges", "--filter", "state=waiting", "--socket", path)[1])
        assert (listed["total"], listed["items"]) == (1, [])


def test_without_bridges(start: Start, tmp_path: Path) -> None:
    """A broker that has none prints nothing, and one that does not answer is told with 1."""
    path = tmp_path / "a.sock"
    running(start, path)
    assert lines(path) == []
    assert ctl("bridges", "--socket", tmp_path / "none")[0] == 1


def test_reconnect(start: Start, tmp_path: Path) -> None:
    """A bridge that waits tries again at once; a name that no bridge has, or can have, is refused."""
    path = tmp_path / "a.sock"
    with Remote() as remote:
        own = {"name": "up", "address": remote.address, "topics": [{"filter": "out"}]} | LATER
        broker = running(start, path, own)
        remote.next().close()
        wait_for_event(broker, "bridge_failed")
        assert json.loads(ctl("reconnect", "up", "--socket", path)[1]) == {"result": "connecting"}
        remote.accepted()
    assert "there is no bridge 'down'" in ctl("reconnect", "down", "--socket", path)[2]
    assert ctl("reconnect", "$bridge/up", "--socket", path)[0] == 2
