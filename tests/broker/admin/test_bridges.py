"""What operators see of bridges, and how they have one connect again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.acknowledgements import Puback
from protocol.connack import Connack
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from protocol.suback import Suback
from protocol.subscribe import Subscribe
from tests.broker.conftest import Start
from tests.support.broker.admin import listed, request
from tests.support.broker.bridged import SOON, Remote
from tests.support.broker.events import events, wait_for_event
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import connected

pytestmark = pytest.mark.once

ONE: Any = {props.RECEIVE_MAXIMUM: 1}
LATER: Any = {"reconnect_min": "1h", "reconnect_max": "1h"}
"""Keys of a bridge that waits for long before it tries again."""


@pytest.fixture
def remote() -> Iterator[Remote]:
    """A remote broker that does what the test says."""
    with Remote() as made:
        yield made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The admin socket."""
    return tmp_path / "a.sock"


def bridge(remote: Remote, name: str = "up", direction: str = "out", **keys: Any) -> dict[str, Any]:
    """One of `bridges`; its topics begin with its name."""
    topics = [{"filter": f"{name}/#", "direction": direction}]
    return {"name": name, "address": remote.address, "topics": topics} | SOON | keys


def running(start: Start, path: Path, *bridges: dict[str, Any]) -> BrokerProcess:
    """A broker with these bridges and the admin API."""
    broker = start(sections={"admin": {"socket": str(path)}, "bridges": list(bridges)})
    wait_for_event(broker, "admin_socket")
    return broker


def row(path: Path, name: str = "up") -> dict[str, Any]:
    """What the list says of one bridge."""
    (found,) = [each for each in listed(path, "bridges")["items"] if each["bridge"] == name]
    return dict(found)


def publish(broker: BrokerProcess, topic: str, *payloads: bytes) -> None:
    """Publish at QoS 1."""
    with connected(broker.address(), 5) as client:
        for payload in payloads:
            client.publish(topic, payload, 1)


def reconnect(path: Path, name: str = "up") -> tuple[int, Any]:
    """Have a bridge connect again: the status, and the answer."""
    answer = request(path, f"/api/v1/bridges/{name}/reconnect", "POST")
    return answer.status, answer.json


def test_why_it_is_not_connected(start: Start, remote: Remote, path: Path) -> None:
    """The row says that it connects, then why it could not, when it tries again, and for how long what waits."""
    broker = running(start, path, bridge(remote, **LATER))
    first = remote.next()  # not answered
    found = row(path)
    assert [found[key] for key in ("state", "remote", "failure", "next_attempt_seconds", "oldest_seconds")] == [
        "connecting",
        f"mqtt://{remote.address}",
        None,
        None,
        0,
    ]
    publish(broker, "up/1", b"12345", b"678")
    first.send(Connack(False, reason_codes.BAD_USER_NAME_OR_PASSWORD))
    wait_until(lambda: row(path)["state"] == "waiting", "it waits")
    found = row(path)
    assert "Bad user name or password" in found["failure"]
    assert [found[key] for key in ("connects", "failures", "queue", "queue_bytes", "inflight")] == [0, 1, 2, 8, 0]
    assert 3000 < found["next_attempt_seconds"] <= 7200
    age = found["oldest_seconds"]
    assert age > 0
    wait_until(lambda: row(path)["oldest_seconds"] > age, "it waits for longer")
    assert row(path)["state_seconds"] > 0


def test_what_goes_out(start: Start, remote: Remote, path: Path) -> None:
    """A connected bridge has its window, its queue, and counts of what was sent, acknowledged and refused for good."""
    broker = running(start, path, bridge(remote))
    connection = remote.accepted(properties=ONE)
    publish(broker, "up/1", b"1", b"22", b"333", b"4444")
    connection.take(1)
    connection.send(Puback(connection.expect(Publish).packet_id, reason_codes.NOT_AUTHORIZED))
    connection.expect(Publish)

    def counts() -> dict[str, Any]:
        found = row(path)
        wanted = (
            "state",
            "connects",
            "window",
            "inflight",
            "queue",
            "queue_bytes",
            "sent",
            "acknowledged",
            "refused_out",
        )
        return {key: found[key] for key in wanted}

    wanted = dict(zip(counts(), ["connected", 1, 1, 1, 1, 4, 3, 2, 1], strict=True))
    wait_until(lambda: counts() == wanted, "all is counted")
    found = row(path)
    assert (found["failure"], found["next_attempt_seconds"], found["dropped"]) == (None, None, 0)
    assert (found["protocol_version"], found["oldest_seconds"] > 0) == (5, True)


def test_what_comes_in(start: Start, remote: Remote, path: Path) -> None:
    """What comes in is counted, what is not let in too, and the filters that the remote broker refuses are named."""
    running(start, path, bridge(remote, direction="in"))
    connection = remote.accepted()
    asked = connection.expect(Subscribe)
    connection.send(Suback(asked.packet_id, [reason_codes.NOT_AUTHORIZED]))
    for number, topic in enumerate((b"up/1", b"other"), 1):
        connection.send(Publish(topic, b"x", 1, False, None, number))
        connection.expect(Puback)
    found = row(path)
    assert (found["received"], found["refused_in"], found["filters_refused"]) == (2, 1, ["up/#"])


def test_a_bridge_without_a_session(start: Start, remote: Remote, path: Path) -> None:
    """A bridge with clean_start that has never been connected has nothing that waits."""
    broker = running(start, path, bridge(remote, clean_start=True, proto_ver="3.1.1"))
    remote.next()
    publish(broker, "up/1", b"lost")
    found = row(path)
    counts = ("queue", "queue_bytes", "oldest_seconds", "inflight", "window", "sent", "received", "dropped")
    assert {found[key] for key in counts} == {0}
    assert found["protocol_version"] == 4


def test_sorted_and_filtered(start: Start, remote: Remote, path: Path) -> None:
    """The list is by name, or who has most comes first; it can be asked for one state, or a part of a name."""
    far = bridge(remote, "idle", start="lazy")
    broker = running(start, path, bridge(remote, "b"), bridge(remote, "a"), far)
    remote.next()
    remote.next()
    publish(broker, "b/1", b"1")
    publish(broker, "a/1", b"1", b"2")
    publish(broker, "idle/1", b"x" * 100)

    def names(query: str) -> list[str]:
        return [each["bridge"] for each in listed(path, "bridges", query)["items"]]

    assert names("") == ["a", "b", "idle"]
    assert names("sort=queue")[0] == "a"
    assert names("sort=bytes")[0] == "idle"
    assert names("sort=oldest") == ["b", "a", "idle"]
    assert names("state=idle") == ["idle"]
    assert names("bridge=dl") == ["idle"]


def test_its_session_is_one_of_the_sessions(start: Start, remote: Remote, path: Path) -> None:
    """The lists of clients and sessions have it under its client id here, with the address of the remote broker."""
    running(start, path, bridge(remote))
    remote.accepted()
    wait_until(lambda: row(path)["state"] == "connected", "it is connected")
    (client,) = listed(path, "clients")["items"]
    assert (client["client_id"], client["listener"], client["peer"]) == ("$bridge/up", "$bridge/up", remote.address)
    (session,) = listed(path, "sessions", "listener=$bridge/up")["items"]
    assert (session["client_id"], session["connected"]) == ("$bridge/up", True)
    assert request(path, "/api/v1/sessions/$bridge%2Fup").json["peer"] == remote.address


@pytest.mark.parametrize("is_connected", [True, False])
def test_a_bridge_whose_session_is_ended_begins_another(
    start: Start, remote: Remote, path: Path, is_connected: bool
) -> None:
    """What waits is dropped, and what is published from then on goes out: also before it is connected again."""
    broker = running(start, path, bridge(remote, **LATER))
    connection = remote.next()
    if is_connected:
        connection.accept()
        wait_until(lambda: row(path)["state"] == "connected", "it is connected")
    publish(broker, "up/1", b"dropped")
    assert request(path, "/api/v1/sessions/$bridge%2Fup", "DELETE").json == {"result": "ended"}
    publish(broker, "up/1", b"kept")
    assert [each.payload for each in remote.accepted(session_present=True).take(1)] == [b"kept"]
    assert listed(path, "subscriptions", "client_id=$bridge/up")["total"] == 1


@pytest.mark.parametrize("state", ["connecting", "connected", "waiting", "ended"])
def test_reconnect(start: Start, remote: Remote, path: Path, state: str) -> None:
    """Whatever state it is in, the bridge connects again at once; nothing is lost, and the log says who wanted it."""
    broker = running(start, path, bridge(remote, start="once" if state == "ended" else "automatic", **LATER))
    connection = remote.next()
    if state != "connecting":
        connection.accept()
        wait_until(lambda: row(path)["state"] == "connected", "it is connected")
    if state in ("waiting", "ended"):
        connection.close()
    wait_until(lambda: row(path)["state"] == state, "its state")
    publish(broker, "up/1", b"kept")
    assert reconnect(path) == (200, {"result": "connecting"})
    if state == "connected":
        last = connection.until_close()[-1]
        assert isinstance(last, Disconnect)
    assert [each.payload for each in remote.accepted(session_present=True).take(1)] == [b"kept"]
    wait_until(lambda: row(path)["state"] == "connected", "it is connected again")
    (audit,) = events(broker, "audit")
    assert [audit[key] for key in ("action", "target", "result")] == ["reconnect", "up", "connecting"]


def test_reconnect_of_a_lazy_bridge(start: Start, remote: Remote, path: Path) -> None:
    """A bridge that has nothing to send connects all the same."""
    running(start, path, bridge(remote, start="lazy"))
    assert row(path)["state"] == "idle"
    reconnect(path)
    remote.accepted()
    wait_until(lambda: row(path)["state"] == "connected", "it is connected")


def test_reconnect_of_no_bridge(start: Start, remote: Remote, path: Path) -> None:
    """A name that no bridge has is refused with that name, and one that is switched off is no bridge."""
    running(start, path, bridge(remote, enabled=False))
    for name in ("down", "up"):
        assert reconnect(path, name) == (404, {"detail": f"there is no bridge '{name}'"})
