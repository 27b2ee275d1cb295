"""The actions of operators: what they change, who may, what is refused, and the audit log."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from protocol import properties as props
from protocol import reason_codes
from protocol.disconnect import Disconnect
from protocol.publish import Publish
from tests.broker.admin.api.conftest import OPERATOR, VIEWER
from tests.broker.conftest import Start
from tests.support.broker.admin import listed, request
from tests.support.broker.collecting import collect
from tests.support.broker.events import events, wait_for_event
from tests.support.costs import held
from tests.support.process import Address, BrokerProcess
from tests.support.waiting import wait_until
from tests.support.wire import connected

pytestmark = pytest.mark.once

LASTING: Any = {props.SESSION_EXPIRY_INTERVAL: 100}
ACTIONS: list[tuple[str, str, object]] = [
    ("DELETE", "/api/v1/clients/nobody", None),
    ("DELETE", "/api/v1/sessions/nobody", None),
    ("POST", "/api/v1/addresses/drain", {"address": "none"}),
    ("POST", "/api/v1/bridges/none/reconnect", None),
    ("DELETE", "/api/v1/retained?topic_filter=none", None),
    ("POST", "/api/v1/publish", {"topic": "none"}),
    ("POST", "/api/v1/reload", None),
    ("GET", "/api/v1/trace?client_id=nobody&seconds=0.1", None),
]


def names(path: Path, what: str = "sessions") -> list[str]:
    """The client ids of a list."""
    return [row["client_id"] for row in listed(path, what)["items"]]


@pytest.mark.parametrize(("method", "target", "body"), ACTIONS)
def test_roles(path: Path, tcp: Address, method: str, target: str, body: object) -> None:
    """Actions are for operators: 401 without a token, 403 for viewers, and the broker's user needs none."""
    statuses = [request(tcp, target, method, body, token).status for token in ("", "wrong", VIEWER)]
    assert statuses == [401, 401, 403]
    allowed = {request(tcp, target, method, body, OPERATOR).status, request(path, target, method, body).status}
    assert allowed <= {200, 404}


@pytest.mark.parametrize("name", ["a", "a/b/../c d", "ä?x=1&y#z%41", "/", "."])
def test_disconnect(broker: BrokerProcess, path: Path, name: str) -> None:
    """A client is disconnected with 0x98, whatever its client id, and its session stays."""
    with connected(broker.address(), 5, client_id=name, properties=LASTING) as client:
        target = f"/api/v1/clients/{quote(name, safe='')}"
        answer = request(path, target, "DELETE")
        assert (answer.status, answer.json) == (200, {"result": "disconnected"})
        last = client.expect_close()
        assert isinstance(last, Disconnect)
        assert last.reason_code == reason_codes.ADMINISTRATIVE_ACTION
        assert name in names(path)
        assert request(path, target, "DELETE").status == 404
    assert request(path, f"/api/v1/sessions/?id={quote(name, safe='')}", "DELETE").status == 200


@pytest.mark.parametrize("online", [True, False])
def test_end_session(broker: BrokerProcess, path: Path, online: bool) -> None:
    """A session ends with its subscriptions, whether its client is connected or not."""
    with connected(broker.address(), 5, client_id="lasting", properties=LASTING) as client:
        client.subscribe("t", qos=1)
        if not online:
            client.close()
            wait_until(lambda: not listed(path, "sessions", "client_id=lasting")["items"][0]["connected"], "it is away")
        assert request(path, "/api/v1/sessions/lasting", "DELETE").json == {"result": "ended"}
        if online:
            client.expect_close()
    assert "lasting" not in names(path)
    assert listed(path, "subscriptions")["total"] == 0


def test_publish_and_clear(broker: BrokerProcess, path: Path) -> None:
    """A published message is delivered and retained; retained messages are removed by filter, but not those of $SYS."""
    with connected(broker.address(), 5, client_id="subscriber") as client:
        client.subscribe("p/#", qos=2)
        for topic, payload, encoding in (("p/1", "hällo", "text"), ("p/2", "AAE=", "base64")):
            message = {"topic": topic, "payload": payload, "encoding": encoding, "qos": 1, "retain": True}
            assert request(path, "/api/v1/publish", "POST", message).json == {"matched": True}
        assert sorted((each.topic, each.payload) for each in collect(client)) == [
            (b"p/1", "hällo".encode()),
            (b"p/2", b"\0\1"),
        ]
    assert request(path, "/api/v1/publish", "POST", {"topic": "nobody"}).json == {"matched": False}
    system = listed(path, "retained", "sys=true")["matched"]
    assert request(path, "/api/v1/retained?topic_filter=p/1", "DELETE").json == {"count": 1}
    assert request(path, "/api/v1/retained?topic_filter=%23", "DELETE").json == {"count": 1}
    assert (listed(path, "retained", "sys=false")["matched"], system > 0) == (0, True)
    assert request(path, "/api/v1/retained?topic_filter=%2B/broker/%23", "DELETE").json == {"count": 0}
    answer = request(path, "/api/v1/retained?topic_filter=$SYS/%23", "DELETE")
    assert (answer.status, answer.json["detail"]) == (422, "topic_filter: the broker alone publishes under $SYS")
    assert listed(path, "retained", "sys=true")["matched"] >= system


@pytest.mark.parametrize(
    ("method", "target", "body", "status"),
    [
        ("POST", "/api/v1/publish", {"topic": "a/#"}, 422),
        ("POST", "/api/v1/publish", {"topic": ""}, 422),
        ("POST", "/api/v1/publish", {"topic": "a\0"}, 422),
        ("POST", "/api/v1/publish", {"topic": "a", "qos": 3}, 422),
        ("POST", "/api/v1/publish", {"topic": "a", "encoding": "base64", "payload": "!"}, 422),
        ("POST", "/api/v1/publish", {"topic": "a", "surprise": 1}, 422),
        ("POST", "/api/v1/publish", {"topic": "$SYS/broker/version"}, 422),
        ("POST", "/api/v1/publish", {"topic": "$SYS"}, 422),
        ("POST", "/api/v1/publish", {"topic": "a/" * 300}, 422),
        ("POST", "/api/v1/publish", b"not JSON", 422),
        ("POST", "/api/v1/publish", b'{"topic": "\\ud800"}', 422),
        ("POST", "/api/v1/publish", {"topic": "a", "payload": "x" * 300_000}, 413),
        ("DELETE", "/api/v1/retained", None, 422),
        ("DELETE", "/api/v1/retained?topic_filter=a%23", None, 422),
        ("DELETE", "/api/v1/retained?topic_filter=$SYS/%23", None, 422),
        ("DELETE", "/api/v1/retained?topic_filter=$SYS", None, 422),
        ("POST", "/api/v1/addresses/drain", {}, 422),
        ("DELETE", "/api/v1/clients/", None, 404),
        ("PUT", "/api/v1/clients/a", None, 405),
    ],
)
def test_wrong_action(path: Path, method: str, target: str, body: object, status: int) -> None:
    """A wrong action is refused with the reason, and changes nothing."""
    answer = request(path, target, method, body)
    assert (answer.status, answer.json["detail"] != "") == (status, True)


def test_a_payload_that_is_no_text(path: Path) -> None:
    """A payload that cannot be encoded as UTF-8 is refused for what it is, whether it is text or base64."""
    for encoding in ("text", "base64"):
        answer = request(path, "/api/v1/publish", "POST", {"topic": "a", "payload": "\ud800", "encoding": encoding})
        assert (answer.status, "payload: this is not Unicode text" in answer.json["detail"]) == (422, True)


def test_audit(broker: BrokerProcess, tcp: Address, path: Path) -> None:
    """Each action is a line of the log: who, from where, what, on what, and with which result; refusals too."""
    before = len(events(broker, "audit"))
    request(tcp, "/api/v1/clients/nobody%0Aelse", "DELETE", token=OPERATOR)
    request(tcp, "/api/v1/publish", "POST", {"topic": "t"}, VIEWER)
    request(path, "/api/v1/publish", "POST", {"topic": "t"})
    wait_until(lambda: len(events(broker, "audit")) == before + 3, "three lines")
    first, second, third = events(broker, "audit")[before:]
    keys = ("who", "peer", "action", "target", "result")
    assert [first[key] for key in keys] == [
        "token ann",
        "127.0.0.1",
        "disconnect",
        "nobody\nelse",
        "no such connected client",
    ]
    assert [second[key] for key in keys] == ["token grafana", "127.0.0.1", "POST /api/v1/publish", "", "refused"]
    assert (third["who"].startswith("uid "), third["peer"]) == (True, "unix")


@pytest.mark.parametrize(
    ("method", "target", "body", "action", "about"),
    [
        ("POST", "/api/v1/publish", {"topic": "a/#"}, "publish", "a/#"),
        ("POST", "/api/v1/publish", {"topic": "a", "qos": 3}, "POST /api/v1/publish", ""),
        ("DELETE", "/api/v1/retained?topic_filter=a%23", None, "clear_retained", "a#"),
        ("DELETE", "/api/v1/retained?topic_filter=$SYS/a", None, "clear_retained", "$SYS/a"),
        ("GET", "/api/v1/trace?topic_filter=a%23", None, "trace", "topic a#"),
    ],
)
def test_audit_of_what_is_wrong(
    broker: BrokerProcess, tcp: Address, method: str, target: str, body: object, action: str, about: str
) -> None:
    """Actions that are refused because they are wrong are in the audit log, with the reason."""
    before = len(events(broker, "audit"))
    answer = request(tcp, target, method, body, OPERATOR)
    assert answer.status == 422
    wait_until(lambda: len(events(broker, "audit")) > before, "the line")
    line = events(broker, "audit")[-1]
    assert (line["who"], line["action"], line["target"], line["refused"]) == ("token ann", action, about, True)
    assert answer.json["detail"] in str(line["result"])


def test_drain(start: Start, tmp_path: Path) -> None:
    """FC-25: what is parked at a full address is delivered at once when an operator drains it, and acknowledged."""
    addresses = [{"match": "full", "max_size_bytes": 100}]
    broker = start(sections={"admin": {"socket": "a.sock"}, "addresses": addresses})
    wait_for_event(broker, "admin_socket")
    path = tmp_path / "a.sock"
    one: Any = {props.RECEIVE_MAXIMUM: 1}
    with (
        connected(broker.address(), 5, properties=one) as subscriber,
        connected(broker.address(), 5) as sender,
    ):
        subscriber.subscribe("full", qos=1)
        for _ in range(4):
            sender.send(Publish(b"full", b"x" * 60, 1, packet_id=sender.packet_id()))
        wait_until(lambda: listed(path, "addresses")["items"][0]["waiting"] == 3, "three are parked")
        answer = request(path, "/api/v1/addresses/drain", "POST", {"address": "full"})
        assert answer.json == {"count": 3}
        wait_until(lambda: listed(path, "addresses")["items"][0]["waiting"] == 0, "none waits")
        (row,) = listed(path, "addresses")["items"]
        assert (row["size_bytes"], row["refused"], row["dropped"]) == (held(4, 60, "full"), 0, 0)


def test_configuration_has_no_secrets(broker: BrokerProcess, path: Path) -> None:
    """The configuration is listed key by key with its origin; digests of tokens are not in it."""
    found = {each["key"]: each for each in request(path, "/api/v1/configuration").json}
    assert found["admin.tokens[0].name"]["value"] == "grafana"
    assert found["admin.tokens[0].sha256"]["value"] == "***"
    assert found["admin.tokens[0].sha256"]["source"].startswith(str(broker.folder / "sluice.yaml"))
    assert (found["session.max_inflight"]["value"], found["session.max_inflight"]["source"]) == (32, "default")


def test_overview(broker: BrokerProcess, path: Path) -> None:
    """The overview counts, listeners have their actual ports, and a session says in words why it waits."""
    one: Any = {props.RECEIVE_MAXIMUM: 1}
    with (
        connected(broker.address(), 5, client_id="a/slow one", properties=one) as slow,
        connected(broker.address(), 5, client_id="sender") as sender,
    ):
        slow.subscribe("t", qos=1)
        for _ in range(4):
            sender.publish("t", b"x", 1)
        found = request(path, "/api/v1/broker").json
        assert [found[key] for key in ("broker", "ready", "clients_connected", "sessions")] == ["test", True, 2, 2]
        (listener,) = request(path, "/api/v1/listeners").json
        assert (listener["name"], listener["port"]) == ("tcp", broker.address().port)
        detail = request(path, "/api/v1/sessions/a%2Fslow%20one").json
        assert (detail["waits_for"], detail["window_limit"], detail["mqueue_len"]) == ("window", 1, 3)
        assert "the client's own Receive Maximum" in detail["advice"]
    assert request(path, "/api/v1/sessions/nobody").status == 404
    assert json.loads(request(path, "/api/v1/openapi.json").text)["paths"]["/api/v1/publish"]
